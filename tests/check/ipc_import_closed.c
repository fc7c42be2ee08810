/* CHECK: FERRY-FREE: an import of shared device memory is closed while a copy reads through it. The
 * exporter is the same process here, which may import its own key. */
#include "kit.h"

enum { LEN = 4096, KEY = 65 };

int main(void)
{
    begin();
    char key[KEY];
    void *import = NULL;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtIpcMemGetExportKey(device, LEN, key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    TRY(aclrtIpcMemImportByKey(&import, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    TRY(aclrtMemcpyAsync(host, LEN, import, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtIpcMemClose(key)); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtIpcMemClose(key));
    return finish();
}
