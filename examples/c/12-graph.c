// 12: a step of copies that is captured once and run a thousand times.
//
// A step that is always the same need not be submitted copy by copy: it is captured as a model, and each
// execution runs all of it as one task of a stream. Addresses are those of the capture, bytes are those of
// the execution: between two of them the program writes what the next one uploads. Streams that take part run
// side by side.
#include "try.h"

enum { ROWS = 64, BYTES = 4096, ALL = ROWS * BYTES, STEPS = 250, AGAIN = 4 };

// What a capture is given is stored and not run. Page-locked memory is a must: pageable memory is refused.
static void capture(aclrtStream stream, aclrtStream side, aclrtEvent fork, aclrtEvent join,
                    unsigned char *host[2], unsigned char *device[2], aclmdlRI *model)
{
    int row;

    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(aclrtMemcpyAsync(device[0], ALL, host[0], ALL, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    // A wait for an event of the captured stream draws the second stream into the capture, behind the upload.
    TRY(aclrtRecordEvent(fork, stream));
    TRY(aclrtStreamWaitEvent(side, fork));
    // Inside the device the rows change places: the even ones in one stream, the odd ones in the other.
    for (row = 0; row < ROWS; row++) {
        TRY(aclrtMemcpyAsync(device[1] + (ROWS - 1 - row) * BYTES, BYTES, device[0] + row * BYTES, BYTES,
                             ACL_MEMCPY_DEVICE_TO_DEVICE, row % 2 == 0 ? stream : side));
    }
    // The second stream must lead back to the first before the end, or the end fails (107025).
    TRY(aclrtRecordEvent(join, side));
    TRY(aclrtStreamWaitEvent(stream, join));
    TRY(aclrtMemcpyAsync(host[1], ALL, device[1], ALL, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    TRY(aclmdlRICaptureEnd(stream, model));
}

static void check(const unsigned char *result, int step)
{
    int i;

    for (i = 0; i < ALL; i++) {
        if (result[i] != (unsigned char)(step ^ (ROWS - 1 - i / BYTES))) {
            fprintf(stderr, "step %d: byte %d is %d\n", step, i, result[i]);
            exit(1);
        }
    }
}

int main(void)
{
    void *memory[4] = {NULL, NULL, NULL, NULL};
    unsigned char *host[2], *device[2];
    aclrtStream stream = NULL, side = NULL;
    aclrtEvent fork = NULL, join = NULL;
    aclmdlRI model = NULL;
    int step, row, i;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));
    TRY(aclrtCreateStream(&side));
    TRY(aclrtCreateEvent(&fork));
    TRY(aclrtCreateEvent(&join));
    for (i = 0; i < 2; i++) {
        TRY(aclrtMallocHost(&memory[i], ALL));
        TRY(aclrtMalloc(&memory[2 + i], ALL, ACL_MEM_MALLOC_HUGE_FIRST));
        host[i] = (unsigned char *)memory[i], device[i] = (unsigned char *)memory[2 + i];
    }

    capture(stream, side, fork, join, host, device, &model);
    for (step = 0; step < STEPS; step++) {
        for (row = 0; row < ROWS; row++) {
            memset(host[0] + row * BYTES, step ^ row, BYTES);
        }
        // An execution returns at once. The next one of the same model runs behind it.
        for (i = 0; i < AGAIN; i++) {
            TRY(aclmdlRIExecuteAsync(model, stream));
        }
        // Only now may the program touch the memory of the model.
        TRY(aclrtSynchronizeStream(stream));
        check(host[1], step);
    }

    // Memory of a model must stay until the model is destroyed.
    TRY(aclmdlRIDestroy(model));
    for (i = 0; i < 2; i++) {
        TRY(aclrtFreeHost(memory[i]));
        TRY(aclrtFree(memory[2 + i]));
    }
    TRY(aclrtDestroyEvent(fork));
    TRY(aclrtDestroyEvent(join));
    TRY(aclrtDestroyStream(side));
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    printf("ok: captured once, run %d times\n", STEPS * AGAIN);
    return 0;
}
