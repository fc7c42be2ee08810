/* CHECK: FERRY-LEAK: a function that returns early forgets its page-locked buffer, and the program ends by
 * exit without finalising. */
/* OPTIONS: --leaks */
#include "kit.h"

enum { LEN = 512 };

static int load(int has_data)
{
    void *staging = NULL;
    TRY(aclrtMallocHost(&staging, LEN)); /* ACCESS */
    if (!has_data) {
        FIX(TRY(aclrtFreeHost(staging));)
        return -1;
    }
    memset(staging, 0, LEN);
    TRY(aclrtFreeHost(staging));
    return 0;
}

int main(void)
{
    begin();
    THAT(load(1) == 0);
    THAT(load(0) == -1);
    exit(0);
}
