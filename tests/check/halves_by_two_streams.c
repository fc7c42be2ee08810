/* CHECK: FERRY-HOST-READ: two streams bring a half of the result each, and only one of them is waited for. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 2048, HALF = LEN / 2 };

static unsigned sum_of(const unsigned char *bytes)
{
    unsigned sum = 0;
    for (int i = 0; i < LEN; i++) {
        sum += bytes[i]; /* ACCESS */
    }
    return sum;
}

int main(void)
{
    begin();
    aclrtStream lower = new_stream(), upper = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, HALF, device, HALF, D2H, lower));
    TRY(aclrtMemcpyAsync(host + HALF, HALF, device + HALF, HALF, D2H, upper)); /* WORK */
    TRY(aclrtSynchronizeStream(lower));
    FIX(TRY(aclrtSynchronizeStream(upper));)
    printf("%u\n", sum_of(host));
    return finish();
}
