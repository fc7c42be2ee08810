/* CHECK: FERRY-BATCH-RACE: the blocks of two requests are restored by one batch, and the block tables of
 * both name the same block of the cache. */
#include <algorithm>
#include <vector>

#include "kit.h"

constexpr size_t BLOCK = 512;

int main()
{
    begin();
    aclrtStream stream = new_stream();
    std::vector<int> first = {3, 5, 6}, second = {PICK(5, 4), 9};
    std::vector<int> table(first);
    table.insert(table.end(), second.begin(), second.end());
    unsigned char *saved = page_locked(table.size() * BLOCK), *cache = device_memory(10 * BLOCK);
    std::vector<void *> dsts, srcs;
    std::vector<size_t> sizes(table.size(), BLOCK);
    for (size_t i = 0; i < table.size(); i++) {
        dsts.push_back(cache + table[i] * BLOCK);
        srcs.push_back(saved + i * BLOCK);
    }
    aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0}};
    size_t index = 0, count = table.size(), *lens = sizes.data();
    void **to = dsts.data(), **of = srcs.data();
    TRY(aclrtMemcpyBatchAsyncV2(to, lens, of, lens, count, &attr, &index, 1, stream)); /* WORK ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    return finish();
}
