/* CHECK: FERRY-HOST-WRITE: a message is received beside the source of an upload, in the same page of
 * registered memory, which is right; then the program changes the source. */
/* OPTIONS: --precise */
#include <sys/mman.h>

#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    int ends[2];
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN);
    unsigned char *own = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    THAT(own != MAP_FAILED && pipe(ends) == 0);
    TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
    TRY(aclrtMemcpyAsync(device, 64, own, 64, H2D, stream)); /* WORK */
    THAT(write(ends[1], "message", 8) == 8);
    THAT(read(ends[0], own + 64, 8) == 8);
    FIX(TRY(aclrtSynchronizeStream(stream));)
    memcpy(own, own + 64, 8); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtHostUnregister(own));
    THAT(memcmp(own, "message", 8) == 0);
    return finish();
}
