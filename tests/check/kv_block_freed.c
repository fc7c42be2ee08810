/* CHECK: FERRY-FREE: a block of a key-value cache is freed when its request ends, while a step that was
 * launched before gathers from it. */
#include "kit.h"

enum { BLOCKS = 4, BLOCK = 4096 };

struct cache {
    unsigned char *blocks[BLOCKS], *gathered;
    aclrtStream steps;
    aclrtEvent stepped;
};

static void step(struct cache *cache)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *to = cache->gathered + i * BLOCK;
        TRY(aclrtMemcpyAsync(to, BLOCK, cache->blocks[i], BLOCK, D2D, cache->steps)); /* WORK */
    }
    TRY(aclrtRecordEvent(cache->stepped, cache->steps));
}

static void end_request(struct cache *cache, int block)
{
    FIX(TRY(aclrtSynchronizeEvent(cache->stepped));)
    TRY(aclrtFree(cache->blocks[block])); /* ACCESS */
}

int main(void)
{
    begin();
    struct cache cache = {{NULL}, device_memory(BLOCKS * BLOCK), new_stream(), new_event()};
    for (int i = 0; i < BLOCKS; i++) {
        cache.blocks[i] = device_memory(BLOCK);
    }
    step(&cache);
    end_request(&cache, 2);
    return finish();
}
