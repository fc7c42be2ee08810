/* CHECK: FERRY-STREAM-RACE: a tensor is uploaded in shards, one stream each. The length of a shard is
 * rounded up to a multiple of 16, so that the last bytes of each are the first of the next one. */
#include "kit.h"

enum { SHARDS = 3, SHARD = 1000, ROUNDED = (SHARD + 15) / 16 * 16 };

int main(void)
{
    begin();
    unsigned char *host = page_locked(SHARDS * ROUNDED), *tensor = device_memory(SHARDS * ROUNDED);
    for (int i = 0; i < SHARDS; i++) {
        size_t len = PICK(ROUNDED, SHARD);
        void *to = tensor + i * SHARD, *from = host + i * SHARD;
        TRY(aclrtMemcpyAsync(to, len, from, len, H2D, new_stream())); /* WORK ACCESS */
    }
    return finish();
}
