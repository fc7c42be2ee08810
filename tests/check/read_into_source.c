/* CHECK: FERRY-HOST-WRITE: read(2) puts the next packet into a buffer that is still being uploaded: the
 * kernel writes it on the program's behalf. */
#include "kit.h"

enum { LEN = 2048 };

int main(void)
{
    begin();
    int ends[2];
    char packet[LEN];
    aclrtStream stream = new_stream();
    unsigned char *buffer = page_locked(LEN), *device = device_memory(LEN);
    THAT(pipe(ends) == 0);
    memset(packet, 5, LEN);
    THAT(write(ends[1], packet, LEN) == LEN);
    TRY(aclrtMemcpyAsync(device, LEN, buffer, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    THAT(read(ends[0], buffer, LEN) == LEN); /* ACCESS */
    return finish();
}
