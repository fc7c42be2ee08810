/* CHECK: FERRY-STREAM-RACE: a loader thread passes device buffers through a queue to a thread that sends
 * them home. Each item carries an event, but the sender waits for it on the loader's stream and not on its
 * own. */
#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>

#include "kit.h"

constexpr size_t LEN = 4096;
constexpr int ITEMS = 3;

struct Item {
    unsigned char *device;
    aclrtEvent loaded;
};

static std::mutex lock;
static std::condition_variable more;
static std::queue<Item> items;

static void load(aclrtStream stream)
{
    TRY(aclrtSetDevice(0));
    for (int i = 0; i < ITEMS; i++) {
        Item item = {device_memory(LEN), new_event()};
        unsigned char *host = page_locked(LEN);
        TRY(aclrtMemcpyAsync(item.device, LEN, host, LEN, H2D, stream)); /* WORK */
        TRY(aclrtRecordEvent(item.loaded, stream));
        std::lock_guard<std::mutex> guard(lock);
        items.push(item);
        more.notify_one();
    }
    TRY(aclrtResetDevice(0));
}

int main()
{
    begin();
    aclrtStream loads = new_stream(), sends = new_stream();
    std::thread loader(load, loads);
    for (int i = 0; i < ITEMS; i++) {
        std::unique_lock<std::mutex> guard(lock);
        more.wait(guard, [] { return !items.empty(); });
        Item item = items.front();
        items.pop();
        guard.unlock();
        TRY(aclrtStreamWaitEvent(PICK(loads, sends), item.loaded));
        TRY(aclrtMemcpyAsync(page_locked(LEN), LEN, item.device, LEN, D2H, sends)); /* ACCESS */
    }
    loader.join();
    return finish();
}
