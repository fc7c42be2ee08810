/* CHECK: FERRY-FREE: other memory is mapped over registered memory during its upload. The fixed twin
 * maps it elsewhere. */
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
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | PICK(MAP_FIXED, 0);
    THAT(mmap(own, LEN, PROT_READ, flags, -1, 0) != MAP_FAILED); /* ACCESS */
    /* Whether the upload was faster than the program is not known. */
    aclError code = aclrtSynchronizeStream(stream);
    FIX(TRY(code); TRY(aclrtHostUnregister(own));)
    printf("%s\n", code == ACL_SUCCESS ? "uploaded" : "failed");
    return finish();
}
