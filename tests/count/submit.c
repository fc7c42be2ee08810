/* Submits page-locked copies to one stream, for `cargo xtask count`, which counts the instructions of
 * aclrtMemcpyAsync. The copies go to as many allocations as asked for, in turn, so that the cost of finding
 * one shows. A gate holds the stream meanwhile, so that what is counted is submitting and nothing else; it is
 * opened at the end, and the last bytes are checked so that the copies are known to be real. */
#include "../c/kit.h"

#define BYTES 64

int main(int argc, char **argv)
{
    long submits = argc > 1 ? atol(argv[1]) : 1000;
    long blocks = argc > 2 ? atol(argv[2]) : 1;
    char **devices = malloc(blocks * sizeof *devices);
    unsigned char *host, back[BYTES];
    struct gate gate = GATE;
    aclrtStream stream = NULL;

    begin();
    OK(aclrtCreateStream(&stream));
    host = pinned(1, BYTES);
    for (long i = 0; i < blocks; i++) {
        OK(aclrtMalloc((void **)&devices[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    }

    gate_shut(&gate, stream);
    for (long i = 0; i < submits; i++) {
        OK(aclrtMemcpyAsync(devices[i * 7919 % blocks], BYTES, host, BYTES, H2D, stream));
    }
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));

    for (long i = 0; i < submits && i < blocks; i += 97) {
        memset(back, 0, BYTES);
        peek(back, devices[i * 7919 % blocks], BYTES);
        SAME(back, host, BYTES);
    }
    for (long i = 0; i < blocks; i++) {
        OK(aclrtFree(devices[i]));
    }
    free(devices);
    OK(aclrtFreeHost(host));
    OK(aclrtDestroyStream(stream));
    return finish("copies");
}
