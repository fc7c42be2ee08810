/* Executes a captured graph of copies within a device, for `cargo xtask count`, which counts the instructions
 * of aclmdlRIExecuteAsync. With 1 as the second argument no copy touches what another one writes, and they
 * are submitted as one op; with 2 each writes what the next one reads, and they are submitted one by one. A
 * gate holds the stream meanwhile, so that what is counted is submitting and nothing else; it is opened at
 * the end, and the bytes are checked so that the copies are known to be real. */
#include "../c/kit.h"

#define BYTES 64
#define COPIES 1024

int main(int argc, char **argv)
{
    long executions = argc > 1 ? atol(argv[1]) : 10;
    int is_chain = argc > 2 && atol(argv[2]) == 2;
    unsigned char *from, *to, *want, back[BYTES];
    struct gate gate = GATE;
    aclrtStream stream = NULL;
    aclmdlRI model = NULL;

    begin();
    OK(aclrtCreateStream(&stream));
    from = device_memory(1, 2 * COPIES * BYTES);
    to = device_memory(2, 2 * COPIES * BYTES);

    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    for (long i = 0; i < COPIES; i++) {
        /* Every second place, so that no copy goes on where another one ends. */
        unsigned char *source = is_chain ? (i % 2 ? to : from) : from + 2 * i * BYTES;
        unsigned char *target = is_chain ? (i % 2 ? from : to) : to + 2 * (COPIES - 1 - i) * BYTES;
        OK(aclrtMemcpyAsync(target, BYTES, source, BYTES, INNER, stream));
    }
    OK(aclmdlRICaptureEnd(stream, &model));

    gate_shut(&gate, stream);
    for (long i = 0; i < executions; i++) {
        OK(aclmdlRIExecuteAsync(model, stream));
    }
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));

    want = pageable(1, 2 * COPIES * BYTES);
    for (long i = 0; i < (is_chain ? 1 : COPIES); i++) {
        peek(back, is_chain ? to : to + 2 * (COPIES - 1 - i) * BYTES, BYTES);
        SAME(back, want + 2 * i * BYTES, BYTES);
    }
    free(want);
    OK(aclmdlRIDestroy(model));
    OK(aclrtFree(to));
    OK(aclrtFree(from));
    OK(aclrtDestroyStream(stream));
    return finish("graphs");
}
