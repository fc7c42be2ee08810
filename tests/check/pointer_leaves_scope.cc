/* CHECK: FERRY-FREE: a unique_ptr owns the page-locked destination of a download and frees it at the end
 * of its scope, before the download is joined. */
#include <memory>

#include "kit.h"

constexpr size_t LEN = 2048;

struct FreeHost {
    void operator()(void *memory) const
    {
        TRY(aclrtFreeHost(memory)); /* ACCESS */
    }
};

static void peek(unsigned char *device, aclrtStream stream)
{
    std::unique_ptr<void, FreeHost> host(page_locked(LEN));
    TRY(aclrtMemcpyAsync(host.get(), LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
}

int main()
{
    begin();
    peek(device_memory(LEN), new_stream());
    return finish();
}
