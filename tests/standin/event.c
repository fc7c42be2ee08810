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

// The lock is held.
static void leave(Turn *turn)
{
    if (turn && --turn->users == 0) {
        pthread_cond_destroy(&turn->moved);
        free(turn);
    }
}

static Turn *make_turn(void)
{
    Turn *turn = calloc(1, sizeof *turn);
    turn->users = 1;
    pthread_cond_init(&turn->moved, NULL);
    return turn;
}

void run_record(Work *work)
{
    Turn *turn = work->event.turn;
    turn->reached = true;
    turn->ms = now();
    pthread_cond_broadcast(&turn->moved);
    leave(turn);
}

void run_wait(Work *work)
{
    Turn *turn = work->event.turn;
    pthread_mutex_lock(&lock);
    while (turn && !turn->reached) {
        pthread_cond_wait(&turn->moved, &lock);
    }
    leave(turn);
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
    **event = (Event){.mark = EVENT, .timed = !(flags & 2)};
    return OK;
}

Code cuEventDestroy_v2(Event *event)
{
    Code code = enter_event("cuEventDestroy", event);
    if (code == OK) {
        leave(event->turn);
        event->mark = GONE;
        free(event);
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
    if (is_record) {
        leave(event->turn);
        event->turn = make_turn();
    }
    work->event.turn = event->turn;
    if (event->turn) {
        event->turn->users++;
    }
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
        code = event->turn && !event->turn->reached ? NOT_READY : OK;
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
    Turn *turn = event->turn;
    if (turn) {
        turn->users++;
    }
    while (turn && !turn->reached && !is_over) {
        wait_a_while(&turn->moved);
    }
    leave(turn);
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
    bool has_both = start->timed && end->timed && start->turn && end->turn;
    bool is_ready = has_both && start->turn->reached && end->turn->reached;
    *ms = is_ready ? (float)(end->turn->ms - start->turn->ms) : 0;
    pthread_mutex_unlock(&lock);
    return !has_both ? INVALID_HANDLE : is_ready ? OK : NOT_READY;
}
