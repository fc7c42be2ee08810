/* CHECK: FERRY-HOST-WRITE: one staging buffer serves every step, and the next step's data is put into it
 * while the upload of the step before may still read it. */
#include "kit.h"

enum { STEPS = 4, LEN = 64 * 1024 };

static void prepare(unsigned char *staging, int step)
{
    for (int i = 0; i < LEN; i++) {
        staging[i] = (unsigned char)(step + i); /* ACCESS */
    }
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *staging = page_locked(LEN), *inputs = device_memory(STEPS * LEN);
    for (int step = 0; step < STEPS; step++) {
        prepare(staging, step);
        TRY(aclrtMemcpyAsync(inputs + step * LEN, LEN, staging, LEN, H2D, stream)); /* WORK */
        FIX(TRY(aclrtSynchronizeStream(stream));)
    }
    return finish();
}
