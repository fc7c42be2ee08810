/* CHECK: FERRY-UNINITIALISED: rows are uploaded with a pitch, and the download takes the padding between
 * them along. */
#include "kit.h"

enum { ROWS = 10, WIDTH = 100, PITCH = 128 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(ROWS * PITCH), *back = page_locked(ROWS * PITCH);
    unsigned char *device = raw_device(ROWS * PITCH);
    TRY(aclrtMemcpy2dAsync(device, PITCH, host, WIDTH, WIDTH, ROWS, H2D, stream));
    const size_t width = PICK(PITCH, WIDTH);
    TRY(aclrtMemcpy2dAsync(back, PITCH, device, PITCH, width, ROWS, D2H, stream)); /* WORK ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    return finish();
}
