/* CHECK: FERRY-HOST-WRITE: a worker puts its buffer back into the pool when the copy has been handed over,
 * and the next worker that takes it from there fills it. */
#include <mutex>
#include <thread>
#include <vector>

#include "kit.h"

constexpr size_t LEN = 4096;

class Pool {
public:
    explicit Pool(int count)
    {
        for (int i = 0; i < count; i++) {
            free_.push_back(page_locked(LEN));
        }
    }
    unsigned char *take()
    {
        std::lock_guard<std::mutex> guard(lock_);
        unsigned char *buffer = free_.back();
        free_.pop_back();
        return buffer;
    }
    void put_back(unsigned char *buffer)
    {
        std::lock_guard<std::mutex> guard(lock_);
        free_.push_back(buffer);
    }

private:
    std::mutex lock_;
    std::vector<unsigned char *> free_;
};

static void work(Pool &pool, unsigned char *device, aclrtStream stream, int number)
{
    TRY(aclrtSetDevice(0));
    unsigned char *buffer = pool.take();
    memset(buffer, number, LEN); /* ACCESS */
    TRY(aclrtMemcpyAsync(device + number * LEN, LEN, buffer, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    pool.put_back(buffer);
    TRY(aclrtResetDevice(0));
}

int main()
{
    begin();
    Pool pool(1);
    unsigned char *device = device_memory(2 * LEN);
    aclrtStream streams[2] = {new_stream(), new_stream()};
    for (int i = 0; i < 2; i++) {
        std::thread(work, std::ref(pool), device, streams[i], i).join();
    }
    return finish();
}
