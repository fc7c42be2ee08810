/* CHECK: FERRY-HOST-WRITE: this process uploads, another one downloads from the memory that both share and
 * records an event of its own. The staging buffer is filled anew when that event is complete, which is right
 * only if the other process has waited for the upload. Here the upload comes behind the record that the
 * other one waits for. */
/* NEEDS: userfaultfd */
#include <sys/wait.h>

#include "kit.h"

enum { LEN = 4096 };

struct parcel {
    aclrtIpcEventHandle sent, seen;
};

static void answer(int from, int to)
{
    struct parcel parcel;
    aclrtEvent sent = NULL, seen = NULL;
    char done;
    begin();
    aclrtStream stream = new_stream();
    THAT(read(from, &parcel, sizeof parcel) == sizeof parcel);
    TRY(aclrtIpcOpenEventHandle(parcel.sent, &sent));
    TRY(aclrtIpcOpenEventHandle(parcel.seen, &seen));
    TRY(aclrtStreamWaitEvent(stream, sent));
    TRY(aclrtRecordEvent(seen, stream));
    THAT(write(to, "r", 1) == 1);
    THAT(read(from, &done, 1) == 1);
    TRY(aclrtSynchronizeStream(stream));
}

static void send_twice(int to, int from)
{
    struct parcel parcel;
    aclrtEvent sent = NULL, seen = NULL;
    char recorded;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtCreateEventExWithFlag(&sent, ACL_EVENT_IPC));
    TRY(aclrtCreateEventExWithFlag(&seen, ACL_EVENT_IPC));
    TRY(aclrtIpcGetEventHandle(sent, &parcel.sent));
    TRY(aclrtIpcGetEventHandle(seen, &parcel.seen));
    BUG(TRY(aclrtRecordEvent(sent, stream));)
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtRecordEvent(sent, stream));)
    THAT(write(to, &parcel, sizeof parcel) == sizeof parcel && read(from, &recorded, 1) == 1);
    TRY(aclrtSynchronizeEvent(seen));
    host[0] = 2; /* ACCESS */
    THAT(write(to, "d", 1) == 1);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream));
    TRY(aclrtSynchronizeStream(stream));
}

int main(void)
{
    int there[2], back[2], status = -1;
    THAT(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork(); /* Before either uses the library, which does not survive a fork. */
    if (child == 0) {
        answer(there[0], back[1]);
        return finish();
    }
    send_twice(there[1], back[0]);
    THAT(waitpid(child, &status, 0) == child && status == 0);
    return finish();
}
