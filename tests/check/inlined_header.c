/* CHECK: FERRY-HOST-WRITE: a helper of a header writes the next request over one that is being sent. With
 * optimisation it is inlined, and the line that calls it is still told. */
/* FLAGS: -O2 -Wno-dangling-pointer */
#include "kit.h"

enum { LEN = 64 };

static inline void send_request(unsigned char *device, const unsigned char *request, aclrtStream stream)
{
    TRY(aclrtMemcpyAsync(device, LEN, request, LEN, H2D, stream)); /* WORK */
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *request = page_locked(LEN), *device = device_memory(LEN);
    send_request(device, request, stream);
    FIX(TRY(aclrtSynchronizeStream(stream));)
    put_number(request + 8, 20); /* ACCESS */
    return finish();
}
