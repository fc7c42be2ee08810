/* CHECK: FERRY-HOST-WRITE: a helper thread waits on the main thread's behalf, but for a stream that holds
 * nothing. A wait by any thread counts for all, if it is for the right stream. */
#include <algorithm>
#include <thread>

#include "kit.h"

constexpr size_t LEN = 10000;

static void wait_for(aclrtStream stream)
{
    TRY(aclrtSetDevice(0));
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtResetDevice(0));
}

int main()
{
    begin();
    aclrtStream uploads = new_stream(), idle = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, uploads)); /* WORK */
    std::thread(wait_for, PICK(idle, uploads)).join();
    std::fill(host + 100, host + 200, static_cast<unsigned char>(0)); /* ACCESS */
    return finish();
}
