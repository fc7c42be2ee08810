/* CHECK: FERRY-HOST-READ: a std::async task adds up a result while the thread that started it has yet to
 * wait for the download. */
#include <future>
#include <numeric>

#include "kit.h"

constexpr size_t COUNT = 5000, LEN = COUNT * sizeof(int);

static long sum_of(const int *numbers)
{
    return std::accumulate(numbers, numbers + COUNT, 0L); /* ACCESS */
}

int main()
{
    begin();
    aclrtStream stream = new_stream();
    int *numbers = reinterpret_cast<int *>(page_locked(LEN));
    unsigned char *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(numbers, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    std::future<long> sum = std::async(std::launch::async, sum_of, numbers);
    printf("%ld\n", sum.get());
    BUG(TRY(aclrtSynchronizeStream(stream));)
    return finish();
}
