/* CHECK: FERRY-HOST-WRITE: a counter is changed inside the part of a struct that is being copied. In the
 * fixed twin it is the neighbour of that part, in the same page. */
#include "kit.h"

struct request {
    unsigned before;
    struct {
        unsigned tokens[64];
        unsigned retries;
    } sent;
    unsigned after;
};

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    struct request *request = (struct request *)(void *)page_locked(sizeof *request);
    unsigned char *device = device_memory(sizeof request->sent);
    size_t len = sizeof request->sent;
    TRY(aclrtMemcpyAsync(device, len, &request->sent, len, H2D, stream)); /* WORK */
    request->before++;
    *PICK(&request->sent.retries, &request->after) += 1; /* ACCESS */
    return finish();
}
