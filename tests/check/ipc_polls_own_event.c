/* CHECK: FERRY-STREAM-RACE: another process uploads into device memory that it shares, and records an event
 * that it shares as well. This one polls an event of its own until that is complete, and then reads the
 * memory. */
#include <sys/wait.h>

#include "kit.h"

enum { LEN = 4096, KEY = 65 };

struct parcel {
    char key[KEY];
    aclrtIpcEventHandle written;
};

static void writer(int to, int from)
{
    struct parcel parcel;
    aclrtEvent written = NULL;
    char done;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    uint64_t flags = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION;
    TRY(aclrtIpcMemGetExportKey(device, LEN, parcel.key, KEY, flags));
    TRY(aclrtCreateEventExWithFlag(&written, ACL_EVENT_IPC));
    TRY(aclrtIpcGetEventHandle(written, &parcel.written));
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    TRY(aclrtRecordEvent(written, stream));
    THAT(write(to, &parcel, sizeof parcel) == sizeof parcel);
    THAT(read(from, &done, 1) == 1);
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtIpcMemClose(parcel.key));
}

static void reader(int from, int to)
{
    struct parcel parcel;
    aclrtEvent written = NULL;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    void *import = NULL;
    begin();
    aclrtStream stream = new_stream();
    aclrtEvent own = new_event();
    unsigned char *host = page_locked(LEN);
    THAT(read(from, &parcel, sizeof parcel) == sizeof parcel);
    TRY(aclrtIpcMemImportByKey(&import, parcel.key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    TRY(aclrtIpcOpenEventHandle(parcel.written, &written));
    TRY(aclrtRecordEvent(own, stream));
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
        TRY(aclrtQueryEventStatus(PICK(own, written), &status));
    }
    TRY(aclrtMemcpyAsync(host, LEN, import, LEN, D2H, stream)); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtIpcMemClose(parcel.key));
    THAT(write(to, "d", 1) == 1);
}

int main(void)
{
    int there[2], back[2], status = -1;
    THAT(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork(); /* Before either uses the library, which does not survive a fork. */
    if (child == 0) {
        writer(there[1], back[0]);
        return finish();
    }
    reader(there[0], back[1]);
    THAT(waitpid(child, &status, 0) == child && status == 0);
    return finish();
}
