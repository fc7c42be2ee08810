/* CHECK: FERRY-HOST-READ: printf prints a text while the copy that brings it is in flight. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 64 };

int main(void)
{
    begin();
    char *text = (char *)page_locked(LEN);
    unsigned char *device = device_memory(LEN);
    strcpy(text, "text of the device");
    TRY(aclrtMemcpy(device, LEN, text, LEN, H2D));
    TRY(aclrtMemcpyAsync(text, LEN, device, LEN, D2H, NULL)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(NULL));)
    printf("%s\n", text); /* ACCESS */
    return finish();
}
