/* CHECK: FERRY-FREE: a vector in page-locked memory grows while a copy reads it. It moves to a larger
 * block and frees the one in flight. The fixed twin has reserved room. */
#include <vector>

#include "kit.h"

template <class T> struct PageLocked {
    using value_type = T;
    PageLocked() = default;
    template <class U> PageLocked(const PageLocked<U> &) {}
    T *allocate(size_t count)
    {
        void *memory = nullptr;
        TRY(aclrtMallocHost(&memory, count * sizeof(T)));
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, size_t)
    {
        TRY(aclrtFreeHost(memory)); /* ACCESS */
    }
    bool operator==(const PageLocked &) const { return true; }
    bool operator!=(const PageLocked &) const { return false; }
};

int main()
{
    begin();
    {
        aclrtStream stream = new_stream();
        std::vector<int, PageLocked<int>> tokens(100, 1);
        tokens.reserve(PICK(100, 200));
        size_t len = tokens.size() * sizeof(int);
        unsigned char *device = device_memory(len);
        TRY(aclrtMemcpyAsync(device, len, tokens.data(), len, H2D, stream)); /* WORK */
        tokens.push_back(2);
        TRY(aclrtSynchronizeStream(stream));
    }
    return finish();
}
