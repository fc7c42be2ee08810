/* CHECK: FERRY-LEAK: an exception leaves a function between the allocation of a device buffer and its
 * free. */
/* OPTIONS: --leaks */
#include <memory>
#include <stdexcept>

#include "kit.h"

struct FreeDevice {
    void operator()(void *memory) const { TRY(aclrtFree(memory)); }
};

static void load(size_t len, size_t limit)
{
    void *memory = nullptr;
    TRY(aclrtMalloc(&memory, len, ACL_MEM_MALLOC_NORMAL_ONLY)); /* ACCESS */
    FIX(std::unique_ptr<void, FreeDevice> owner(memory);)
    if (len > limit) {
        throw std::length_error("too long");
    }
    BUG(TRY(aclrtFree(memory));)
}

int main()
{
    begin();
    for (size_t len : {512, 1024, 2048}) {
        try {
            load(len, 1500);
        } catch (const std::length_error &) {
        }
    }
    return finish();
}
