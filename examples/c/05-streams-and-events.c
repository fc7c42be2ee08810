// 05: two streams that work at the same time, and an event that puts one behind the other.
//
// Tasks of one stream run one after the other. Tasks of different streams run whenever they can, unless an
// event says otherwise: recorded in one stream it stands for everything submitted there so far, and a stream
// that waits for it goes on when that is done. The program itself does not wait for any of this until it
// wants the result.
#include "try.h"

enum { CHUNKS = 8, CHUNK = 256 * 1024, BYTES = CHUNKS * CHUNK };

// A host function: the stream calls it, on a thread of the library, between the tasks before and after it. It
// may do anything but use the library.
static void tell(void *arg)
{
    printf("%s\n", (const char *)arg);
}

int main(void)
{
    static char down_done[] = "all chunks are on the device", up_done[] = "all chunks are back";
    void *source = NULL, *result = NULL, *device = NULL;
    unsigned char *from, *to, *middle;
    aclrtStream down = NULL, up = NULL;
    aclrtEvent arrived[CHUNKS], begin = NULL, end = NULL;
    float ms = 0;
    int i;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&down));
    TRY(aclrtCreateStream(&up));
    TRY(aclrtMallocHost(&source, BYTES));
    TRY(aclrtMallocHost(&result, BYTES));
    TRY(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    from = (unsigned char *)source, to = (unsigned char *)result, middle = (unsigned char *)device;
    for (i = 0; i < BYTES; i++) {
        from[i] = (unsigned char)(i / 1000 + i);
    }
    memset(to, 0, BYTES);

    // Each chunk goes down in one stream and comes back in the other, as soon as it has arrived: while chunk
    // 3 comes back, chunk 4 goes down.
    TRY(aclrtCreateEvent(&begin));
    TRY(aclrtCreateEvent(&end));
    TRY(aclrtRecordEvent(begin, down));
    for (i = 0; i < CHUNKS; i++) {
        TRY(aclrtCreateEvent(&arrived[i]));
        TRY(aclrtMemcpyAsync(middle + i * CHUNK, CHUNK, from + i * CHUNK, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE,
                             down));
        TRY(aclrtRecordEvent(arrived[i], down));
        TRY(aclrtStreamWaitEvent(up, arrived[i]));
        TRY(aclrtMemcpyAsync(to + i * CHUNK, CHUNK, middle + i * CHUNK, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST,
                             up));
    }
    TRY(aclrtRecordEvent(end, down));
    TRY(aclrtLaunchHostFunc(down, tell, down_done));
    TRY(aclrtLaunchHostFunc(up, tell, up_done));

    // Waiting for the second stream is enough: its last task waits for the last chunk of the first.
    TRY(aclrtSynchronizeStream(up));
    if (memcmp(to, from, BYTES) != 0) {
        fprintf(stderr, "the bytes that came back are not the ones that went\n");
        return 1;
    }
    // The time between two events of a stream, once both are done.
    TRY(aclrtSynchronizeStream(down));
    TRY(aclrtEventElapsedTime(&ms, begin, end));
    printf("going down took %.3f ms\n", ms);

    for (i = 0; i < CHUNKS; i++) {
        TRY(aclrtDestroyEvent(arrived[i]));
    }
    TRY(aclrtDestroyEvent(begin));
    TRY(aclrtDestroyEvent(end));
    TRY(aclrtDestroyStream(down));
    TRY(aclrtDestroyStream(up));
    TRY(aclrtFreeHost(source));
    TRY(aclrtFreeHost(result));
    TRY(aclrtFree(device));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    printf("ok: %d bytes down and up, chunk by chunk\n", BYTES);
    return 0;
}
