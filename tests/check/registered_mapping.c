/* CHECK: FERRY-HOST-WRITE: memory of the program's own, made with mmap and registered as page-locked, is
 * changed during its upload. */
#include <sys/mman.h>

#include "kit.h"

enum { LEN = 3 * 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN);
    unsigned char *own = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    THAT(own != MAP_FAILED);
    memset(own, 3, LEN);
    TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
    TRY(aclrtMemcpyAsync(device, LEN, own, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    own[LEN - 1] ^= 1; /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtHostUnregister(own));
    return finish();
}
