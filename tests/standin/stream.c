// Streams, and the threads that run what is put into them.
#include "stream.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Thread_local sigjmp_buf out;
static _Thread_local Work *current;

void nap(u64 us)
{
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    nanosleep(&time, NULL);
}

// Running
// ----------------------------------------------------------------------------------------------------------

void fault(Code code)
{
    lose(current->stream->device, code);
    siglongjmp(out, 1);
}

const Device *kernel_of(void)
{
    return current && current->run == run_kernel ? current->stream->device : NULL;
}

static void run_call(Work *work)
{
    in_callback = true;
    if (work->call.call) {
        work->call.call(work->stream, lost(work->stream->device), work->call.data);
    } else {
        work->call.plain(work->call.data);
    }
    in_callback = false;
}

// These run on a broken device too: whoever waits must hear of it.
static bool is_order(const Work *work)
{
    return work->run == run_wait || (work->run == run_call && work->call.call);
}

static void run(Work *work)
{
    static _Thread_local u32 seed = 12345;
    seed = seed * 1664525 + 1013904223;
    if (jitter && seed >> 30 == 0) {
        nap((seed >> 8) % jitter);
    }
    if (work->run == run_record) {
        return; // whoever counts it as done does it
    }
    current = work;
    if (is_order(work)) {
        work->run(work);
    } else if (!lost(work->stream->device) && sigsetjmp(out, 0) == 0) {
        Code code = injected("work");
        if (code != OK) {
            fault(code);
        }
        work->run(work);
    }
    current = NULL;
}

// Streams that are gone. They stay here, so that no other one gets their handle and whoever still uses it is
// caught.
static Stream *graves;

// Ways into the device, if they are few: the streams that hold them up.
enum { MOST_WAYS = 64 };
static Stream *blocking[MOST_WAYS];
static pthread_cond_t unblocked = PTHREAD_COND_INITIALIZER;

void block_way(Stream *stream, bool is_blocked)
{
    pthread_mutex_lock(&lock);
    if (ways && is_blocked && !blocking[stream->way]) {
        blocking[stream->way] = stream;
    } else if (ways && !is_blocked && blocking[stream->way] == stream) {
        blocking[stream->way] = NULL;
        pthread_cond_broadcast(&unblocked);
    }
    pthread_mutex_unlock(&lock);
}

static bool is_held_up(const Stream *stream)
{
    const Stream *by = ways ? blocking[stream->way] : NULL;
    return by && by != stream && !is_over;
}

static void bury(Stream *stream)
{
    Stream **place = &stream->device->streams;
    while (*place != stream) {
        place = &(*place)->next;
    }
    *place = stream->next;
    stream->mark = GONE;
    pthread_cond_destroy(&stream->more);
    pthread_cond_destroy(&stream->moved);
    // Its `next` stays: somebody may be on his way from stream to stream.
    stream->grave = graves;
    graves = stream;
}

static void *serve(void *data)
{
    Stream *stream = data;
    pthread_mutex_lock(&lock);
    while (stream->first || !stream->destroyed) {
        Work *work = stream->first;
        if (!work) {
            pthread_cond_wait(&stream->more, &lock);
            continue;
        }
        if (is_held_up(stream)) {
            wait_a_while(&unblocked);
            continue;
        }
        stream->first = work->next;
        if (!stream->first) {
            stream->last = &stream->first;
        }
        pthread_mutex_unlock(&lock);
        run(work);
        pthread_mutex_lock(&lock);
        // Whoever sees that an event was reached finds its stream to be so far.
        if (work->run == run_record) {
            run_record(work);
        }
        free(work);
        stream->done++;
        pthread_cond_broadcast(&stream->moved);
    }
    bury(stream);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void start_thread(Stream *stream)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    if (pthread_create(&thread, &attributes, serve, stream) != 0) {
        perror("stand-in: a thread of a stream");
        abort();
    }
    pthread_attr_destroy(&attributes);
    pthread_setname_np(thread, "standin-stream");
    stream->has_thread = true;
}

void wait_a_while(pthread_cond_t *moved)
{
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 1;
    pthread_cond_timedwait(moved, &lock, &soon);
}

// Waits until the stream has done so much, or the process ends. The lock is held.
static void wait_done(Stream *stream, u64 count)
{
    while (stream->done < count && !is_over) {
        wait_a_while(&stream->moved);
    }
}

void drain(Device *device)
{
    for (Stream *stream = device->streams; stream; stream = stream->next) {
        wait_done(stream, stream->given);
    }
}

// Streams
// ----------------------------------------------------------------------------------------------------------

static Stream *make_stream(Device *device, u32 flags)
{
    static u32 made;
    u32 way = ways ? made++ % (u32)ways : 0;
    // As on a GPU, where a driver has something to do there.
    while (blocking[way] && !is_over) {
        wait_a_while(&unblocked);
    }
    Stream *stream = calloc(1, sizeof *stream);
    *stream = (Stream){.mark = STREAM, .flags = flags, .device = device, .next = device->streams};
    stream->way = way;
    stream->last = &stream->first;
    pthread_cond_init(&stream->more, NULL);
    pthread_cond_init(&stream->moved, NULL);
    device->streams = stream;
    return stream;
}

// The stream with this handle among those of a device, or of those that are gone.
static Stream *find_in(const Device *device, const Stream *handle)
{
    Stream *stream = device ? device->streams : graves;
    while (stream && stream != handle) {
        stream = device ? stream->next : stream->grave;
    }
    return stream;
}

// A driver may crash, or take it for the next stream with that handle.
static void refuse_dead(const char *call, const Stream *stream)
{
    if (stream && stream->destroyed) {
        fprintf(stderr, "stand-in: %s: the stream %p was destroyed before\n", call, (const void *)stream);
        abort();
    }
}

// The stream with this handle, if there is one: 0, 1 and 2 are the default one here. The lock is held.
static Stream *look_up(const char *call, Device *here, Stream *handle)
{
    if ((u64)handle <= 2) {
        return here->legacy ? here->legacy : (here->legacy = make_stream(here, 0));
    }
    Stream *stream = NULL;
    for (Device *device = devices; device < devices + device_count && !stream; device++) {
        stream = find_in(device, handle);
    }
    refuse_dead(call, stream ? stream : find_in(NULL, handle));
    return stream;
}

// What a call about a stream starts with; the lock is held if it returns OK.
Code enter_stream(const char *call, Stream *handle, Stream **stream)
{
    Device *here = NULL;
    Code code = enter(call, &here);
    if (code == OK) {
        pthread_mutex_lock(&lock);
        *stream = look_up(call, here, handle);
        if (!*stream) {
            pthread_mutex_unlock(&lock);
            fprintf(stderr, "stand-in: %s: %p is no stream\n", call, (void *)handle);
            return INVALID_HANDLE;
        }
    }
    return code;
}

// The stream for which work waits that lets nobody else in, if there is one.
static const Stream *in_the_way;

void enqueue(Stream *stream, Work *work)
{
    while (in_the_way && in_the_way != stream && !is_over) {
        wait_a_while(&unblocked);
    }
    while (stream->given - stream->done >= DEPTH && !is_over) {
        in_the_way = full_blocks ? stream : in_the_way;
        wait_a_while(&stream->moved);
    }
    if (in_the_way == stream) {
        in_the_way = NULL;
        pthread_cond_broadcast(&unblocked);
    }
    work->stream = stream;
    *stream->last = work;
    stream->last = &work->next;
    stream->given++;
    if (!stream->has_thread) {
        start_thread(stream);
    }
    pthread_cond_signal(&stream->more);
}

Code put(const char *call, Stream *handle, Work *work, bool waits)
{
    Stream *stream = NULL;
    Code code = enter_stream(call, handle, &stream);
    if (code != OK) {
        free(work);
        return code;
    }
    enqueue(stream, work);
    if (waits) {
        wait_done(stream, stream->given);
        code = lost(stream->device);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

Work *make_work(void (*run)(Work *work), size_t more)
{
    Work *work = calloc(1, sizeof *work + more);
    work->run = run;
    return work;
}

Code cuStreamCreate(Stream **stream, u32 flags)
{
    Device *here = NULL;
    Code code = enter("cuStreamCreate", &here);
    if (code == OK) {
        pthread_mutex_lock(&lock);
        *stream = make_stream(here, flags);
        pthread_mutex_unlock(&lock);
    }
    return code;
}

Code cuStreamCreateWithPriority(Stream **stream, u32 flags, int priority)
{
    (void)priority;
    return cuStreamCreate(stream, flags);
}

Code cuStreamDestroy_v2(Stream *handle)
{
    Stream *stream = NULL;
    Code code = enter_stream("cuStreamDestroy", handle, &stream);
    if (code != OK) {
        return code;
    }
    stream->destroyed = true;
    pthread_cond_signal(&stream->more);
    if (!stream->has_thread) {
        bury(stream);
    }
    pthread_mutex_unlock(&lock);
    return OK;
}

Code cuStreamSynchronize(Stream *handle)
{
    Stream *stream = NULL;
    Code code = enter_stream("cuStreamSynchronize", handle, &stream);
    if (code != OK) {
        return code;
    }
    wait_done(stream, stream->given);
    code = is_over ? DEINITIALIZED : lost(stream->device);
    pthread_mutex_unlock(&lock);
    return code;
}

Code cuStreamQuery(Stream *handle)
{
    Stream *stream = NULL;
    Code code = enter_stream("cuStreamQuery", handle, &stream);
    if (code != OK) {
        return code;
    }
    code = lost(stream->device) ? lost(stream->device) : stream->done < stream->given ? NOT_READY : OK;
    pthread_mutex_unlock(&lock);
    return code;
}

Code cuStreamGetCtx(Stream *handle, Device **context)
{
    Stream *stream = NULL;
    Code code = enter_stream("cuStreamGetCtx", handle, &stream);
    if (code == OK) {
        *context = stream->device;
        pthread_mutex_unlock(&lock);
    }
    return code;
}

Code cuStreamGetFlags(Stream *handle, u32 *flags)
{
    Stream *stream = NULL;
    Code code = enter_stream("cuStreamGetFlags", handle, &stream);
    if (code == OK) {
        *flags = stream->flags;
        pthread_mutex_unlock(&lock);
    }
    return code;
}

Code cuStreamIsCapturing(Stream *handle, int *status)
{
    Stream *stream = NULL;
    Code code = enter_stream("cuStreamIsCapturing", handle, &stream);
    if (code == OK) {
        *status = 0;
        pthread_mutex_unlock(&lock);
    }
    return code;
}

Code cuStreamAddCallback(Stream *stream, Callback call, void *data, u32 flags)
{
    Work *work = make_work(run_call, 0);
    (void)flags;
    work->call.call = call;
    work->call.data = data;
    return put("cuStreamAddCallback", stream, work, false);
}

Code cuLaunchHostFunc(Stream *stream, void (*call)(void *data), void *data)
{
    Work *work = make_work(run_call, 0);
    work->call.plain = call;
    work->call.data = data;
    return put("cuLaunchHostFunc", stream, work, false);
}
