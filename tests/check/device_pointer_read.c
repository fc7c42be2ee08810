/* CHECK: FERRY-DEVICE-POINTER: the CPU reads a result at its device address. */
/* EXIT: 139 */
#include "kit.h"

enum { COUNT = 16, LEN = COUNT * sizeof(int) };

static int first_of(const int *numbers)
{
    return numbers[0]; /* ACCESS */
}

int main(void)
{
    begin();
    int *device = (int *)(void *)device_memory(LEN), host[COUNT];
    TRY(aclrtMemcpy(host, LEN, device, LEN, D2H));
    printf("%d\n", first_of(PICK(device, host)));
    return finish();
}
