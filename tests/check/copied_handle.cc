/* CHECK: FERRY-DOUBLE-FREE: a class that owns device memory has a destructor and the copy constructor of
 * the compiler, so a copy of an object frees the same memory again. */
#include <utility>

#include "kit.h"

static int refused;

class Buffer {
public:
    explicit Buffer(size_t len) : memory_(device_memory(len)) {}
    BUG(Buffer(const Buffer &) = default;)
    FIX(Buffer(Buffer &&other) : memory_(std::exchange(other.memory_, nullptr)) {})
    ~Buffer()
    {
        if (memory_ != nullptr) {
            refused += aclrtFree(memory_) != ACL_SUCCESS; /* ACCESS WORK */
        }
    }

private:
    void *memory_;
};

int main()
{
    begin();
    {
        Buffer buffer(4096);
        Buffer other(std::move(buffer));
    }
    THAT(refused == PICK(1, 0));
    return finish();
}
