/* CHECK: FERRY-HOST-READ: memcmp of the C library compares a result while a 2-D copy is still to deliver
 * it. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { ROWS = 8, WIDTH = 96, PITCH = 128 };

static int is_expected(const unsigned char *got, const unsigned char *want)
{
    return memcmp(got, want, PITCH) == 0; /* ACCESS */
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char want[PITCH] = {0}, *got = page_locked(ROWS * PITCH), *device = device_memory(ROWS * WIDTH);
    TRY(aclrtMemcpy2dAsync(got, PITCH, device, WIDTH, WIDTH, ROWS, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeDevice());)
    printf("%d\n", is_expected(got, want));
    return finish();
}
