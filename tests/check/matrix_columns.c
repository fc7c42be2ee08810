/* CHECK: FERRY-HOST-WRITE: the left columns of a matrix are uploaded row by row, and the CPU writes one
 * column too far to the left. Rows of the two interleave in memory, but the fixed twin touches no byte of
 * the copy. */
#include "kit.h"

enum { ROWS = 20, PITCH = 100, LEFT = 60 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *matrix = page_locked(ROWS * PITCH), *device = device_memory(ROWS * LEFT);
    TRY(aclrtMemcpy2dAsync(device, LEFT, matrix, PITCH, LEFT, ROWS, H2D, stream)); /* WORK */
    for (int row = 0; row < ROWS; row++) {
        for (int column = LEFT - PICK(1, 0); column < PITCH; column++) {
            matrix[row * PITCH + column] = 0; /* ACCESS */
        }
    }
    return finish();
}
