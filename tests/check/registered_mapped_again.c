/* CHECK: FERRY-HOST-WRITE: registered memory was unmapped and never unregistered, and the program got the
 * same addresses again: copies use what is there now, which is changed before the upload is done. */
#include <sys/mman.h>

#include "kit.h"

enum { LEN = 4 * 4096 };

static unsigned char *map_at(void *wish, int flags)
{
    flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *own = mmap(wish, LEN, PROT_READ | PROT_WRITE, flags, -1, 0);
    THAT(own != MAP_FAILED);
    return own;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN), *own = map_at(NULL, 0);
    TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
    THAT(munmap(own, LEN) == 0);
    THAT(map_at(own, MAP_FIXED_NOREPLACE) == own);
    memset(own, 3, LEN);
    TRY(aclrtMemcpyAsync(device, LEN, own, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    own[100] = 4; /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtMemcpy(own, LEN, device, LEN, D2H));
    THAT(own[99] == 3 && own[LEN - 1] == 3);
    TRY(aclrtHostUnregister(own));
    THAT(munmap(own, LEN) == 0);
    return finish();
}
