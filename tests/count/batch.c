/* Submits batches of page-locked copies to one stream, for `cargo xtask count`, which counts the
 * instructions of aclrtMemcpyBatchAsync. The copies lie in as many device allocations as asked for, in turn,
 * and none goes on where the one before it ended, so that every piece is looked up, checked and listed. A
 * gate holds the stream meanwhile, so that what is counted is submitting and nothing else; it is opened at
 * the end, and the bytes are checked so that the copies are known to be real. */
#include "../c/kit.h"

#define BYTES 64
#define PIECES 4096

static void *dsts[PIECES], *srcs[PIECES];
static size_t sizes[PIECES];

int main(int argc, char **argv)
{
    long submits = argc > 1 ? atol(argv[1]) : 10;
    long blocks = argc > 2 ? atol(argv[2]) : 1;
    char **devices = malloc(blocks * sizeof *devices);
    unsigned char *host, back[BYTES];
    struct gate gate = GATE;
    aclrtStream stream = NULL;
    aclrtMemcpyBatchAttr attr;
    size_t first = 0, fail = 0;

    begin();
    OK(aclrtCreateStream(&stream));
    host = pinned(1, PIECES * BYTES);
    for (long i = 0; i < blocks; i++) {
        OK(aclrtMalloc((void **)&devices[i], PIECES * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    for (long i = 0; i < PIECES; i++) {
        dsts[i] = devices[i % blocks] + i * BYTES;
        srcs[i] = host + i * 2531 % PIECES * BYTES;
        sizes[i] = BYTES;
    }
    memset(&attr, 0, sizeof attr);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;

    gate_shut(&gate, stream);
    for (long i = 0; i < submits; i++) {
        OK(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, PIECES, &attr, &first, 1, &fail, stream));
    }
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));

    for (long i = 0; i < PIECES; i++) {
        peek(back, dsts[i], BYTES);
        SAME(back, srcs[i], BYTES);
    }
    for (long i = 0; i < blocks; i++) {
        OK(aclrtFree(devices[i]));
    }
    free(devices);
    OK(aclrtFreeHost(host));
    OK(aclrtDestroyStream(stream));
    return finish("batches");
}
