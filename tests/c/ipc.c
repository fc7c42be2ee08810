// Memory between processes, in C: this program exports an allocation, starts itself again, and lets the other
// read and write it. The other may only once it is on the white list, keeps the memory when the exporter
// closes the key, and whoever ends first, ends well.
#include "pair_kit.h"

enum { LEN = 1 << 20, KEY = 65 };

// The importer: started with the key and two pipe ends.
static int importer(const char *key, int from, int to)
{
    void *memory = NULL;
    int32_t pid = 0;
    begin();
    OK(aclrtDeviceGetBareTgid(&pid));
    THAT(pid == (int32_t)getpid()); // what the exporter will list
    CHECK(aclrtIpcMemImportByKey(&memory, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT),
          ACL_ERROR_RT_NO_PERMISSION);
    THAT(memory == NULL);
    say(to);
    hear(from); // now it is listed
    OK(aclrtIpcMemImportByKey(&memory, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    HOLDS(memory, 1, LEN);
    {
        unsigned char *bytes = pageable(2, LEN);
        poke(memory, bytes, LEN);
        free(bytes);
    }
    say(to);
    hear(from); // now the exporter has closed the key and freed the memory
    HOLDS(memory, 2, LEN);
    CHECK(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtIpcMemClose(key));
    CHECK(aclrtIpcMemClose(key), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtIpcMemImportByKey(&memory, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT),
          ACL_ERROR_RT_PARAM_INVALID);
    return finish("ipc, importer");
}

int main(int argc, char **argv)
{
    int down[2], up[2], status = 0;
    size_t before = 0, now = 0, total = 0;
    unsigned char *memory;
    char key[KEY];
    pid_t child;
    int32_t pid;
    if (argc == 4) {
        return importer(argv[1], atoi(argv[2]), atoi(argv[3]));
    }
    begin();
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    memory = device_memory(1, LEN);
    CHECK(aclrtIpcMemGetExportKey(memory, LEN, key, KEY - 1, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT),
          ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtIpcMemGetExportKey(memory, LEN, key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
    THAT(strlen(key) == KEY - 1);
    THAT(pipe(down) == 0 && pipe(up) == 0);
    child = start(argv[0], key, down[0], up[1]);
    THAT(close(down[0]) == 0 && close(up[1]) == 0); // if the other dies, hearing it fails
    hear(up[0]); // it was refused
    pid = (int32_t)child;
    OK(aclrtIpcMemSetImportPid(key, &pid, 1));
    say(down[1]);
    hear(up[0]); // it has written
    HOLDS(memory, 2, LEN);
    OK(aclrtIpcMemClose(key));
    OK(aclrtFree(memory));
    say(down[1]);
    THAT(waitpid(child, &status, 0) == child);
    CHECK(status, 0);
    while (now != before) {
        OK(aclrtGetMemInfo(ACL_HBM_MEM, &now, &total));
        sched_yield();
    }
    return finish("ipc");
}
