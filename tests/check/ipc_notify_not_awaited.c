/* CHECK: FERRY-STREAM-RACE: another process uploads into device memory that this one has shared, and records
 * a notify behind that. This one is told by a pipe that it has done so, and downloads without waiting for
 * the notify. */
#include <sys/wait.h>

#include "kit.h"

enum { LEN = 4096, KEY = 65 };

struct parcel {
    char memory[KEY], notify[KEY];
};

static void writer(int from, int to)
{
    struct parcel parcel;
    void *import = NULL;
    aclrtNotify written = NULL;
    char done;
    THAT(read(from, &parcel, sizeof parcel) == sizeof parcel);
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN);
    TRY(aclrtIpcMemImportByKey(&import, parcel.memory, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    TRY(aclrtNotifyImportByKey(&written, parcel.notify, ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
    TRY(aclrtMemcpyAsync(import, LEN, host, LEN, H2D, stream)); /* WORK */
    TRY(aclrtRecordNotify(written, stream));
    THAT(write(to, "r", 1) == 1);
    THAT(read(from, &done, 1) == 1);
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtIpcMemClose(parcel.memory));
}

static void reader(int to, int from)
{
    struct parcel parcel;
    aclrtNotify written = NULL;
    char recorded;
    uint64_t flags;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtCreateNotify(&written, 0));
    flags = ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION;
    TRY(aclrtNotifyGetExportKey(written, parcel.notify, KEY, flags));
    flags = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION;
    TRY(aclrtIpcMemGetExportKey(device, LEN, parcel.memory, KEY, flags));
    THAT(write(to, &parcel, sizeof parcel) == sizeof parcel && read(from, &recorded, 1) == 1);
    FIX(TRY(aclrtWaitAndResetNotify(written, stream, 0));)
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    THAT(write(to, "d", 1) == 1);
    TRY(aclrtIpcMemClose(parcel.memory));
}

int main(void)
{
    int there[2], back[2], status = -1;
    THAT(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork(); /* Before either uses the library, which does not survive a fork. */
    if (child == 0) {
        writer(there[0], back[1]);
        return finish();
    }
    reader(there[1], back[0]);
    THAT(waitpid(child, &status, 0) == child && status == 0);
    return finish();
}
