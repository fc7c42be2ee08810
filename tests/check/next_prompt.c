/* CHECK: FERRY-HOST-WRITE: the next prompt is copied with strcpy over the one whose upload nobody has
 * waited for. */
#include "kit.h"

enum { LEN = 128 };

int main(void)
{
    begin();
    static const char *prompts[] = {"the first prompt", "the second one"};
    aclrtStream stream = new_stream();
    char *text = (char *)page_locked(LEN);
    unsigned char *device = device_memory(2 * LEN);
    for (int i = 0; i < 2; i++) {
        strcpy(text, prompts[i]); /* ACCESS */
        TRY(aclrtMemcpyAsync(device + i * LEN, LEN, text, strlen(text) + 1, H2D, stream)); /* WORK */
        FIX(TRY(aclrtSynchronizeStreamWithTimeout(stream, -1));)
    }
    return finish();
}
