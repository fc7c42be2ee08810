/* CHECK: FERRY-HOST-WRITE: a message is received, with recvmsg(2), into the place to which a download is
 * in flight. */
#include <sys/socket.h>
#include <sys/uio.h>

#include "kit.h"

enum { HEAD = 16, BODY = 4000 };

int main(void)
{
    begin();
    int ends[2];
    char head[HEAD], bytes[HEAD + BODY] = {0};
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(2 * BODY), *device = device_memory(BODY);
    /* The fixed twin receives behind the bytes that are in flight. */
    struct iovec parts[2] = {{head, HEAD}, {host + PICK(0, BODY), BODY}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    THAT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    THAT(send(ends[1], bytes, sizeof bytes, 0) == sizeof bytes);
    TRY(aclrtMemcpyAsync(host, BODY, device, BODY, D2H, stream)); /* WORK */
    THAT(recvmsg(ends[0], &message, MSG_WAITALL) == sizeof bytes); /* ACCESS */
    return finish();
}
