/* CHECK: FERRY-HOST-READ: a line begins with text of the program's and goes on with a download. The C library
 * looks for its end before that has arrived. */
/* OPTIONS: --schedule late */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { HEAD = 8, LEN = 16 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *line = page_locked(HEAD + LEN), *device = raw_device(LEN);
    char text[LEN] = "forty-two";
    memset(line, 0, HEAD + LEN);
    TRY(aclrtMemcpy(device, LEN, text, LEN, H2D));
    memcpy(line, "result: ", HEAD);
    TRY(aclrtMemcpyAsync(line + HEAD, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    size_t length = strlen((char *)line); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    THAT(length >= HEAD);
    return finish();
}
