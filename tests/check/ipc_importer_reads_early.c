/* CHECK: FERRY-HOST-READ: a process that was started by this one imports device memory and reads its copy
 * of it before that is joined. The finding is the child's. */
#include <sys/wait.h>

#include "kit.h"

enum { LEN = 4096, KEY = 65 };

static int importer(const char *key)
{
    void *import = NULL;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN);
    TRY(aclrtIpcMemImportByKey(&import, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    TRY(aclrtMemcpyAsync(host, LEN, import, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    printf("%d\n", host[0]); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtIpcMemClose(key));
    return finish();
}

int main(int count, char **words)
{
    if (count == 2) {
        return importer(words[1]);
    }
    char key[KEY];
    int status = -1;
    begin();
    unsigned char *device = device_memory(LEN);
    TRY(aclrtIpcMemGetExportKey(device, LEN, key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", words[0], key, (char *)NULL);
        _exit(127);
    }
    THAT(waitpid(child, &status, 0) == child && status == 0);
    TRY(aclrtIpcMemClose(key));
    return finish();
}
