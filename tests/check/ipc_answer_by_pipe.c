/* CHECK: FERRY-HOST-WRITE: this process uploads and records an event that another process waits for. That
 * one answers through a pipe when the event is complete, and only then the staging buffer may be filled
 * anew: here it is filled before the answer has come. Nobody in this process ever joins the upload. */
/* NEEDS: userfaultfd */
#include <sys/wait.h>

#include "kit.h"

enum { LEN = 4096 };

static void answer(int from, int to)
{
    aclrtIpcEventHandle handle;
    aclrtEvent sent = NULL;
    begin();
    THAT(read(from, &handle, sizeof handle) == sizeof handle);
    TRY(aclrtIpcOpenEventHandle(handle, &sent));
    TRY(aclrtSynchronizeEvent(sent));
    THAT(write(to, "d", 1) == 1);
}

static void send_twice(int to, int from)
{
    aclrtIpcEventHandle handle;
    aclrtEvent sent = NULL;
    char done;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtCreateEventExWithFlag(&sent, ACL_EVENT_IPC));
    TRY(aclrtIpcGetEventHandle(sent, &handle));
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    TRY(aclrtRecordEvent(sent, stream));
    FIX(THAT(write(to, &handle, sizeof handle) == sizeof handle && read(from, &done, 1) == 1);)
    host[0] = 2; /* ACCESS */
    BUG(THAT(write(to, &handle, sizeof handle) == sizeof handle && read(from, &done, 1) == 1);)
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
