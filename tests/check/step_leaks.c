/* CHECK: FERRY-LEAK: each step allocates a workspace on the device, and only the last one is freed. */
/* OPTIONS: --leaks */
/* SAYS: 4096 bytes were allocated */
#include "kit.h"

enum { STEPS = 3, LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    void *workspace = NULL;
    for (int step = 0; step < STEPS; step++) {
        FIX(if (workspace != NULL) TRY(aclrtFree(workspace));)
        TRY(aclrtMalloc(&workspace, LEN, ACL_MEM_MALLOC_HUGE_FIRST)); /* ACCESS */
        TRY(aclrtMemsetAsync(workspace, LEN, 0, LEN, stream));
        TRY(aclrtSynchronizeStream(stream));
    }
    TRY(aclrtFree(workspace));
    return finish();
}
