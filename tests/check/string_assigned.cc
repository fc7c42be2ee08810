/* CHECK: FERRY-HOST-WRITE: a std::string whose characters are page-locked gets its next value while the
 * one before is uploaded. */
#include <string>

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
    void deallocate(T *memory, size_t) { TRY(aclrtFreeHost(memory)); }
    bool operator==(const PageLocked &) const { return true; }
    bool operator!=(const PageLocked &) const { return false; }
};

using Text = std::basic_string<char, std::char_traits<char>, PageLocked<char>>;

int main()
{
    begin();
    {
        aclrtStream stream = new_stream();
        Text text("the text of a first request, too long for the string itself");
        unsigned char *device = device_memory(text.size());
        TRY(aclrtMemcpyAsync(device, text.size(), text.data(), text.size(), H2D, stream)); /* WORK */
        FIX(TRY(aclrtSynchronizeStream(stream));)
        text.assign("the text of another request, somewhat shorter"); /* ACCESS */
        TRY(aclrtSynchronizeStream(stream));
    }
    return finish();
}
