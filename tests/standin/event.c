// Events: points of streams.
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

void leave(Event *event)
{
    if (--event->users == 0) {
        event->mark = GONE;
        pthread_cond_destroy(&event->moved);
        free(event);
    }
}

void run_record(Work *work)
{
    Event *event = work->event.event;
    pthread_mutex_lock(&lock);
    event->reached = work->event.turn > event->reached ? work->event.turn : event->reached;
    event->ms = now();
    // Whoever sees the event sees that the stream has come so far.
    work->stream->done++;
    work->is_counted = true;
    pthread_cond_broadcast(&event->moved);
    leave(event);
    pthread_mutex_unlock(&lock);
}

void run_wait(Work *work)
{
    Event *event = work->event.event;
    pthread_mutex_lock(&lock);
    while (event->reached < work->event.turn) {
        pthread_cond_wait(&event->moved, &lock);
    }
    leave(event);
    pthread_mutex_unlock(&lock);
}

static void check_event(const Event *event)
{
    if (event->mark != EVENT) {
        fprintf(stderr, "stand-in: %p is no event any more\n", (const void *)event);
        abort();
    }
}

// What a call about an event starts with; the lock is held if it returns OK.
static Code enter_event(const char *call, Event *event)
{
    Device *here = NULL;
    Code code = enter(call, &here);
    if (code == OK) {
        pthread_mutex_lock(&lock);
        check_event(event);
    }
    return code;
}

Code cuEventCreate(Event **event, u32 flags)
{
    Device *here = NULL;
    Code code = enter("cuEventCreate", &here);
    if (code != OK) {
        return code;
    }
    *event = calloc(1, sizeof **event);
    **event = (Event){.mark = EVENT, .users = 1, .timed = !(flags & 2)};
    pthread_cond_init(&(*event)->moved, NULL);
    return OK;
}

Code cuEventDestroy_v2(Event *event)
{
    Code code = enter_event("cuEventDestroy", event);
    if (code == OK) {
        leave(event);
        pthread_mutex_unlock(&lock);
    }
    return code;
}

static Code put_event(const char *call, Stream *handle, Event *event, bool is_record)
{
    Stream *stream = NULL;
    Code code = enter_stream(call, handle, &stream);
    if (code != OK) {
        return code;
    }
    check_event(event);
    Work *work = make_work(is_record ? run_record : run_wait, 0);
    event->recorded += is_record;
    event->users++;
    work->event.event = event;
    work->event.turn = event->recorded;
    enqueue(stream, work);
    pthread_mutex_unlock(&lock);
    return OK;
}

Code cuEventRecord(Event *event, Stream *stream)
{
    return put_event("cuEventRecord", stream, event, true);
}

Code cuStreamWaitEvent(Stream *stream, Event *event, u32 flags)
{
    (void)flags;
    return put_event("cuStreamWaitEvent", stream, event, false);
}

Code cuEventQuery(Event *event)
{
    Code code = enter_event("cuEventQuery", event);
    if (code == OK) {
        code = event->reached < event->recorded ? NOT_READY : OK;
        pthread_mutex_unlock(&lock);
    }
    return code;
}

Code cuEventSynchronize(Event *event)
{
    Code code = enter_event("cuEventSynchronize", event);
    if (code != OK) {
        return code;
    }
    u64 turn = event->recorded;
    event->users++;
    while (event->reached < turn && !is_over) {
        wait_a_while(&event->moved);
    }
    leave(event);
    pthread_mutex_unlock(&lock);
    // A broken device is told here.
    Device *here = NULL;
    return enter("", &here);
}

Code cuEventElapsedTime(float *ms, Event *start, Event *end)
{
    Code code = enter_event("cuEventElapsedTime", start);
    if (code != OK) {
        return code;
    }
    check_event(end);
    bool has_both = start->timed && end->timed && start->recorded && end->recorded;
    bool is_ready = start->reached == start->recorded && end->reached == end->recorded;
    *ms = (float)(end->ms - start->ms);
    pthread_mutex_unlock(&lock);
    return !has_both ? INVALID_HANDLE : is_ready ? OK : NOT_READY;
}
