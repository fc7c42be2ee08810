/* CHECK: FERRY-UNINITIALISED: an upload counts elements where it should count bytes, and the download of
 * the whole buffer brings three quarters that nobody wrote. */
#include "kit.h"

enum { COUNT = 100, LEN = COUNT * sizeof(float) };

int main(void)
{
    begin();
    static float values[COUNT], back[COUNT];
    unsigned char *device = raw_device(LEN);
    TRY(aclrtMemcpy(device, LEN, values, PICK(COUNT, LEN), H2D));
    TRY(aclrtMemcpy(back, LEN, device, LEN, D2H)); /* WORK ACCESS */
    return finish();
}
