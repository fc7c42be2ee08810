/* CHECK: FERRY-STREAM-RACE: two streams fill the left and the right columns of a matrix. The fixed twin's
 * rows interleave and share no byte; here the left part is one column too wide. */
#include "kit.h"

enum { ROWS = 30, PITCH = 64, SPLIT = 40 };

int main(void)
{
    begin();
    aclrtStream left = new_stream(), right = new_stream();
    unsigned char *a = page_locked(ROWS * PITCH), *b = page_locked(ROWS * PITCH);
    unsigned char *matrix = device_memory(ROWS * PITCH);
    const size_t width = SPLIT + PICK(1, 0), rest = PITCH - SPLIT;
    TRY(aclrtMemcpy2dAsync(matrix, PITCH, a, width, width, ROWS, H2D, left)); /* WORK */
    TRY(aclrtMemcpy2dAsync(matrix + SPLIT, PITCH, b, rest, rest, ROWS, H2D, right)); /* ACCESS */
    return finish();
}
