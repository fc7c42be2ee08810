/* CHECK: FERRY-USE-AFTER-FREE: a cache of device buffers evicts the one whose address the caller has kept,
 * and the caller uploads to it. */
#include <list>

#include "kit.h"

constexpr size_t LEN = 1024;

class Cache {
public:
    explicit Cache(size_t room) : room_(room) {}
    ~Cache() { shrink(0); }
    void *add()
    {
        buffers_.push_back(device_memory(LEN));
        shrink(room_);
        return buffers_.back();
    }

private:
    void shrink(size_t room)
    {
        while (buffers_.size() > room) {
            TRY(aclrtFree(buffers_.front())); /* WORK */
            buffers_.pop_front();
        }
    }
    size_t room_;
    std::list<void *> buffers_;
};

int main()
{
    begin();
    {
        aclrtStream stream = new_stream();
        unsigned char *host = page_locked(LEN);
        Cache cache(PICK(1, 2));
        void *kept = cache.add();
        cache.add();
        aclError code = aclrtMemcpyAsync(kept, LEN, host, LEN, H2D, stream); /* ACCESS */
        THAT((code == ACL_SUCCESS) == IS_FIXED);
        TRY(aclrtSynchronizeStream(stream));
    }
    return finish();
}
