// Streams shared with other libraries. On the cuda backend the driver itself plays the other library: what
// either side puts into a shared stream runs after what the other put there before, whatever has to be done
// by the host, and with no synchronisation in between. Where nobody else could know a stream both functions
// refuse, in words.
#include "kit.h"

#include "acl/ferry_ext.h"

#include <dlfcn.h>

enum { LEN = 1 << 16, ROUNDS = 100 };

// The host backend
// ---------------------------------------------------------------------------------------------------

static void refused(void)
{
    aclrtStream stream = NULL, adopted = &stream;
    void *native = &stream;
    OK(aclrtCreateStream(&stream));
    CHECK(ferryStreamAdopt(NULL, &adopted), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    THAT(strstr(aclGetRecentErrMsg(), "no other library knows the streams of this backend") != NULL);
    CHECK(ferryStreamNative(stream, &native), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(ferryStreamNative(NULL, &native), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    THAT(adopted == (aclrtStream)&stream && native == (void *)&stream);
    OK(aclrtDestroyStream(stream));
    CHECK(ferryStreamNative(stream, &native), ACL_ERROR_RT_INVALID_HANDLE);
}

// The other library: the CUDA driver
// -----------------------------------------------------------------------------------

typedef void (*callback)(void *stream, int code, void *arg);

static struct {
    void *library;
    int (*get)(int *, int), (*retain)(void **, int), (*push)(void *);
    int (*make)(void **, unsigned), (*destroy)(void *), (*query)(void *), (*synchronize)(void *);
    int (*copy)(uintptr_t, uintptr_t, size_t, void *), (*set)(uintptr_t, unsigned char, size_t, void *);
    int (*call)(void *, callback, void *, unsigned);
    int (*capture)(void *, int), (*end)(void *, void **);
} cu;

#define DRIVER(call) CHECK(call, 0)
#define FIND(field, name) *(void **)&cu.field = dlsym(cu.library, name)

static void find_driver(void)
{
    int device = 0;
    void *context = NULL;
    cu.library = dlopen("libcuda.so.1", RTLD_NOW);
    THAT(cu.library != NULL);
    FIND(get, "cuDeviceGet");
    FIND(retain, "cuDevicePrimaryCtxRetain");
    FIND(push, "cuCtxPushCurrent_v2");
    FIND(make, "cuStreamCreate");
    FIND(destroy, "cuStreamDestroy_v2");
    FIND(query, "cuStreamQuery");
    FIND(synchronize, "cuStreamSynchronize");
    FIND(copy, "cuMemcpyAsync");
    FIND(set, "cuMemsetD8Async");
    FIND(call, "cuStreamAddCallback");
    FIND(capture, "cuStreamBeginCapture_v2");
    FIND(end, "cuStreamEndCapture");
    DRIVER(cu.get(&device, 0));
    DRIVER(cu.retain(&context, device));
    DRIVER(cu.push(context));
}

static void copy(void *to, const void *from, size_t len, void *native)
{
    DRIVER(cu.copy((uintptr_t)to, (uintptr_t)from, len, native));
}

// A shared stream, and the memory of both sides.
struct pair {
    aclrtStream stream;
    void *native;
    unsigned char *source, *device, *target;
};

static struct pair pair_of(aclrtStream stream, void *native)
{
    struct pair p = {stream, native, pinned(1, LEN), device_memory(2, LEN), pinned(3, LEN)};
    return p;
}

static struct pair adopted(void *native)
{
    aclrtStream stream = NULL;
    void *same = &stream;
    OK(ferryStreamAdopt(native, &stream));
    OK(ferryStreamNative(stream, &same));
    THAT(same == native);
    return pair_of(stream, native);
}

static struct pair shared(void)
{
    aclrtStream stream = NULL;
    void *native = NULL, *same = NULL;
    OK(aclrtCreateStream(&stream));
    OK(ferryStreamNative(stream, &native));
    OK(ferryStreamNative(stream, &same));
    THAT(native != NULL && same == native);
    return pair_of(stream, native);
}

static void release(struct pair *p)
{
    OK(aclrtDestroyStream(p->stream));
    OK(aclrtFreeHost(p->source));
    OK(aclrtFreeHost(p->target));
    OK(aclrtFree(p->device));
}

// Copies of ours and of theirs, in turns
// -------------------------------------------------------------------------------

static void in_turns(struct pair *p)
{
    int i;
    for (i = 0; i < ROUNDS; i++) {
        pattern(p->source, (unsigned)i, LEN);
        OK(aclrtMemcpyAsync(p->device, LEN, p->source, LEN, H2D, p->stream));
        copy(p->target, p->device, LEN, p->native);
        DRIVER(cu.synchronize(p->native));
        SAME(p->target, p->source, LEN);

        pattern(p->source, (unsigned)i + 7, LEN);
        copy(p->device, p->source, LEN, p->native);
        OK(aclrtMemcpyAsync(p->target, LEN, p->device, LEN, D2H, p->stream));
        OK(aclrtSynchronizeStream(p->stream));
        SAME(p->target, p->source, LEN);
    }
}

// Many small ones, none of which is held back.
static void small_ones(struct pair *p)
{
    size_t at;
    pattern(p->source, 11, LEN);
    for (at = 0; at < LEN; at += 64) {
        OK(aclrtMemcpyAsync(p->device + at, 64, p->source + at, 64, H2D, p->stream));
    }
    copy(p->target, p->device, LEN, p->native);
    DRIVER(cu.synchronize(p->native));
    SAME(p->target, p->source, LEN);
}

// What the host has to do
// ------------------------------------------------------------------------------------------------

struct writer {
    struct gate *gate;
    unsigned char *to;
};

// Writes only when the gate is open.
static void write_late(void *arg)
{
    struct writer *w = (struct writer *)arg;
    gate_hold(w->gate);
    memset(w->to, 0x5a, LEN);
}

static void a_function_holds_up_their_work(struct pair *p)
{
    struct gate gate = GATE;
    struct writer writer = {&gate, p->source};
    int i;
    memset(p->source, 0, LEN);
    OK(aclrtLaunchHostFunc(p->stream, write_late, &writer));
    for (i = 0; i < 3; i++) {
        copy(p->device, p->source, LEN, p->native);
        copy(p->target, p->device, LEN, p->native);
    }
    CHECK(cu.query(p->native), 600);
    gate_open(&gate);
    DRIVER(cu.synchronize(p->native));
    FILLED(p->target, 0x5a, LEN);
}

// Pageable memory both ways, and a fill of host memory: between work of theirs.
static void the_host_takes_its_turn(struct pair *p)
{
    unsigned char *heap = pageable(9, LEN), *back = pageable(10, LEN);
    int i;
    for (i = 0; i < ROUNDS / 4; i++) {
        OK(aclrtMemcpyAsync(p->device, LEN, heap, LEN, H2D, p->stream));
        copy(p->source, p->device, LEN, p->native);
        DRIVER(cu.set((uintptr_t)p->device, (unsigned char)i, LEN, p->native));
        copy(p->device, p->source, LEN / 2, p->native);
        OK(aclrtMemcpyAsync(back, LEN, p->device, LEN, D2H, p->stream));
        OK(aclrtSynchronizeStream(p->stream));
        SAME(back, heap, LEN / 2);
        FILLED(back + LEN / 2, i, LEN / 2);

        OK(aclrtMemsetAsync(p->source, LEN, 0x33 + i, LEN, p->stream));
        copy(p->device, p->source, LEN, p->native);
        copy(p->target, p->device, LEN, p->native);
        DRIVER(cu.synchronize(p->native));
        FILLED(p->target, 0x33 + i, LEN);
        pattern(heap, (unsigned)i, LEN);
    }
    free(heap);
    free(back);
}

// The event is behind a function in a stream of ours: the shared stream waits, and so does what they put
// there.
static void their_work_waits_for_our_event(struct pair *p)
{
    struct gate gate = GATE;
    struct writer writer = {&gate, p->source};
    aclrtStream other = NULL;
    aclrtEvent event = NULL;
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&event));
    memset(p->source, 0, LEN);
    OK(aclrtLaunchHostFunc(other, write_late, &writer));
    OK(aclrtRecordEvent(event, other));
    OK(aclrtStreamWaitEvent(p->stream, event));
    copy(p->device, p->source, LEN, p->native);
    copy(p->target, p->device, LEN, p->native);
    CHECK(cu.query(p->native), 600);
    gate_open(&gate);
    DRIVER(cu.synchronize(p->native));
    FILLED(p->target, 0x5a, LEN);
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(other));
}

// Waiting for what they put there
// ----------------------------------------------------------------------------------------

static void hold_theirs(void *stream, int code, void *gate)
{
    (void)stream;
    (void)code;
    gate_hold(gate);
}

static void our_waits_see_their_work(struct pair *p)
{
    struct gate gate = GATE;
    aclrtEvent event = NULL;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    OK(aclrtSynchronizeStream(p->stream));
    OK(aclrtStreamQuery(p->stream, &status));
    THAT(status == ACL_STREAM_STATUS_COMPLETE);
    OK(aclrtCreateEvent(&event));
    DRIVER(cu.call(p->native, hold_theirs, &gate, 0));
    OK(aclrtStreamQuery(p->stream, &status));
    THAT(status == ACL_STREAM_STATUS_NOT_READY);
    CHECK(aclrtSynchronizeStreamWithTimeout(p->stream, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordEvent(event, p->stream));
    OK(aclrtQueryEventStatus(event, &recorded));
    THAT(recorded == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(p->stream));
    THAT(gate.left == 1);
    OK(aclrtQueryEventStatus(event, &recorded));
    THAT(recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtDestroyEvent(event));
}

// An abort drops what the host has not begun, and the stream can be used again.
static void an_abort_lets_go(struct pair *p)
{
    aclrtStream other = NULL;
    aclrtEvent event = NULL;
    struct gate gate = GATE;
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&event));
    gate_shut(&gate, other);
    OK(aclrtRecordEvent(event, other));
    OK(aclrtStreamWaitEvent(p->stream, event));
    OK(aclrtStreamAbort(p->stream));
    DRIVER(cu.synchronize(p->native));
    CHECK(aclrtSynchronizeStream(p->stream), ACL_ERROR_RT_STREAM_ABORT);
    in_turns(p);
    gate_open(&gate);
    OK(aclrtDestroyStream(other));
    OK(aclrtDestroyEvent(event));
}

static void everything(struct pair *p)
{
    in_turns(p);
    small_ones(p);
    a_function_holds_up_their_work(p);
    the_host_takes_its_turn(p);
    their_work_waits_for_our_event(p);
    our_waits_see_their_work(p);
    an_abort_lets_go(p);
}

// A stream that is shared while a function holds it: what waited behind the function comes before what they
// put there.
static void shared_while_it_is_held(void)
{
    struct gate gate = GATE;
    struct pair p = pair_of(NULL, NULL);
    OK(aclrtCreateStream(&p.stream));
    gate_shut(&gate, p.stream);
    OK(aclrtMemcpyAsync(p.device, LEN, p.source, LEN, H2D, p.stream));
    OK(ferryStreamNative(p.stream, &p.native));
    copy(p.target, p.device, LEN, p.native);
    CHECK(cu.query(p.native), 600);
    gate_open(&gate);
    DRIVER(cu.synchronize(p.native));
    SAME(p.target, p.source, LEN);
    in_turns(&p);
    release(&p);
}

static void the_stream_of_theirs_stays(void)
{
    void *native = NULL;
    struct pair p;
    DRIVER(cu.make(&native, 1));
    p = adopted(native);
    everything(&p);
    release(&p);
    DRIVER(cu.query(native));
    p = adopted(native);
    in_turns(&p);
    release(&p);
    DRIVER(cu.destroy(native));
}

static void bad_ones_are_refused(void)
{
    aclrtStream stream = NULL;
    void *native = NULL;
    CHECK(ferryStreamAdopt((void *)2, &stream), ACL_ERROR_RT_PARAM_INVALID);
    THAT(strstr(aclGetRecentErrMsg(), "per-thread") != NULL);
    CHECK(ferryStreamAdopt(LOW_GARBAGE, &stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(ferryStreamAdopt(HIGH_GARBAGE, &stream), ACL_ERROR_RT_PARAM_INVALID);
    THAT(stream == NULL);
    OK(aclrtCreateStream(&stream));
    OK(aclrtDestroyStream(stream));
    CHECK(ferryStreamNative(stream, &native), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(ferryStreamNative(LOW_GARBAGE, &native), ACL_ERROR_RT_INVALID_HANDLE);
    THAT(native == NULL);
}

static void captured_ones_are_refused(void)
{
    void *native = NULL, *graph = NULL;
    aclrtStream stream = NULL;
    struct pair p;
    DRIVER(cu.make(&native, 1));
    p = adopted(native);
    DRIVER(cu.capture(native, 1));
    CHECK(ferryStreamAdopt(native, &stream), ACL_ERROR_RT_STREAM_CAPTURED);
    CHECK(aclrtMemcpyAsync(p.device, LEN, p.source, LEN, H2D, p.stream), ACL_ERROR_RT_STREAM_CAPTURED);
    THAT(strstr(aclGetRecentErrMsg(), "captured") != NULL);
    DRIVER(cu.end(native, &graph));
    in_turns(&p);
    release(&p);
    DRIVER(cu.destroy(native));
}

static void on_cuda(void)
{
    struct pair p;
    find_driver();
    p = shared();
    everything(&p);
    release(&p);
    // The legacy default stream, and the default stream of our context.
    p = adopted(NULL);
    everything(&p);
    release(&p);
    p = pair_of(NULL, NULL);
    OK(ferryStreamNative(NULL, &p.native));
    in_turns(&p);
    OK(aclrtFreeHost(p.source));
    OK(aclrtFreeHost(p.target));
    OK(aclrtFree(p.device));
    the_stream_of_theirs_stays();
    shared_while_it_is_held();
    bad_ones_are_refused();
    // A driver that knows no graphs captures nothing.
    if (cu.capture != NULL && cu.end != NULL) {
        captured_ones_are_refused();
    }
}

int main(void)
{
    const char *backend = getenv("FERRY_BACKEND");
    begin();
    if (backend != NULL && strcmp(backend, "cuda") == 0) {
        on_cuda();
    } else {
        refused();
    }
    return finish("ferryStreamAdopt, ferryStreamNative");
}
