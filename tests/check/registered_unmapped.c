/* CHECK: FERRY-FREE: memory of the program's own that it has registered is unmapped during its upload, and
 * never unregistered: the upload may find nothing there. */
/* NEEDS: userfaultfd */
#include <sys/mman.h>

#include "kit.h"

enum { LEN = 4 * 4096 };

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
    FIX(TRY(aclrtSynchronizeStream(stream)); TRY(aclrtHostUnregister(own));)
    THAT(munmap(own, LEN) == 0); /* ACCESS */
    /* Whether the upload was faster than the program is not known. */
    aclError code = aclrtSynchronizeStream(stream);
    FIX(TRY(code);)
    printf("%s\n", code == ACL_SUCCESS ? "uploaded" : "failed");
    return finish();
}
