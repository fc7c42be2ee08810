/* CHECK: FERRY-STREAM-RACE: shared device memory is written at the exporter's address and read at the
 * importer's, both in this process, and the importer's stream does not wait for the shared event. */
#include "kit.h"

enum { LEN = 4096, KEY = 65 };

int main(void)
{
    begin();
    char key[KEY];
    void *import = NULL;
    aclrtEvent written = NULL, opened = NULL;
    aclrtIpcEventHandle handle;
    aclrtStream writes = new_stream(), reads = new_stream();
    unsigned char *from = page_locked(LEN), *to = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtIpcMemGetExportKey(device, LEN, key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    TRY(aclrtIpcMemImportByKey(&import, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    TRY(aclrtCreateEventExWithFlag(&written, ACL_EVENT_IPC));
    TRY(aclrtIpcGetEventHandle(written, &handle));
    TRY(aclrtIpcOpenEventHandle(handle, &opened));
    TRY(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, writes)); /* WORK */
    TRY(aclrtRecordEvent(written, writes));
    FIX(TRY(aclrtStreamWaitEvent(reads, opened));)
    TRY(aclrtMemcpyAsync(to, LEN, import, LEN, D2H, reads)); /* ACCESS */
    TRY(aclrtSynchronizeDevice());
    TRY(aclrtIpcMemClose(key));
    TRY(aclrtIpcMemClose(key));
    return finish();
}
