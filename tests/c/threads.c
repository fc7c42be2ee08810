// Eight threads, each with its own streams, events and memory, copy, fill and check at the same time, some of
// it through the default stream that they share, and every byte is right.
#include "kit.h"

enum { THREADS = 8, STREAMS = 4, ROUNDS = 40, LEN = 20000 };

static void *work(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    aclrtStream streams[STREAMS];
    aclrtEvent events[STREAMS];
    unsigned char *from, *to, *blocks[STREAMS], *want;
    int round, s;
    OK(aclrtSetDevice(0));
    from = pinned(seed, LEN), to = pinned(0, LEN), want = pageable(0, LEN);
    for (s = 0; s < STREAMS; s++) {
        OK(aclrtCreateStream(&streams[s]));
        OK(aclrtCreateEvent(&events[s]));
        blocks[s] = device_memory(0, LEN);
    }
    for (round = 0; round < ROUNDS; round++) {
        size_t len = LEN - (size_t)round * 100;
        unsigned char *extra;
        pattern(from, seed + (unsigned)round, LEN);
        // Down in the first stream, from block to block along the others, and up again in the last.
        OK(aclrtMemcpyAsync(blocks[0], len, from, len, H2D, streams[0]));
        for (s = 1; s < STREAMS; s++) {
            OK(aclrtRecordEvent(events[s], streams[s - 1]));
            OK(aclrtStreamWaitEvent(streams[s], events[s]));
            OK(aclrtMemcpyAsync(blocks[s], len, blocks[s - 1], len, D2D, streams[s]));
        }
        OK(aclrtMemcpyAsync(to, len, blocks[STREAMS - 1], len, D2H, streams[STREAMS - 1]));
        // Memory comes and goes meanwhile, and the stream that everybody shares is busy.
        extra = device_memory(seed, 3000);
        OK(aclrtMemsetAsync(extra, 3000, (int)seed, 3000, NULL));
        OK(aclrtSynchronizeStream(NULL));
        peek(want, extra, 3000);
        FILLED(want, (int)seed, 3000);
        OK(aclrtFree(extra));
        OK(aclrtSynchronizeStream(streams[STREAMS - 1]));
        SAME(to, from, len);
    }
    for (s = 0; s < STREAMS; s++) {
        OK(aclrtDestroyStream(streams[s]));
        OK(aclrtDestroyEvent(events[s]));
        OK(aclrtFree(blocks[s]));
    }
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(want);
    OK(aclrtResetDevice(0));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS], i;
    begin();
    for (i = 0; i < THREADS; i++) {
        seeds[i] = 100 * i + 1;
        THAT(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        THAT(pthread_join(threads[i], NULL) == 0);
    }
    return finish("threads");
}
