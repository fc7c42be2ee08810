/* What the twins share: calls whose code is checked, memory that is initialised, a gate that holds a stream.
 *
 * FIX(...) stands for code that only the fixed twin has, BUG(...) for code that only the other one has, and
 * PICK(bug, fix) for an expression of each. Marked calls never stand in this file. */
#ifndef FERRY_TESTS_CHECK_KIT_H
#define FERRY_TESTS_CHECK_KIT_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

#ifdef FIXED
#define FIX(...) __VA_ARGS__
#define BUG(...)
#define IS_FIXED 1
#else
#define FIX(...)
#define BUG(...) __VA_ARGS__
#define IS_FIXED 0
#endif
#define PICK(bug, fix) (IS_FIXED ? (fix) : (bug))

#define H2D ACL_MEMCPY_HOST_TO_DEVICE
#define D2H ACL_MEMCPY_DEVICE_TO_HOST
#define D2D ACL_MEMCPY_DEVICE_TO_DEVICE
#define INNER ACL_MEMCPY_INNER_DEVICE_TO_DEVICE

/* The call succeeds; the call fails; something that holds. Each ends the program if not. */
#define TRY(call) kit_try(__FILE__, __LINE__, #call, (int)(call) == 0)
#define REFUSED(call) kit_try(__FILE__, __LINE__, #call " is refused", (int)(call) != 0)
#define THAT(fact) kit_try(__FILE__, __LINE__, #fact, (fact) ? 1 : 0)

#define UNUSED __attribute__((unused))

static UNUSED void kit_try(const char *file, int line, const char *what, int holds)
{
    if (!holds) {
        const char *message = aclGetRecentErrMsg();
        fprintf(stderr, "%s:%d: %s\n%s\n", file, line, what, message != NULL ? message : "");
        _exit(1);
    }
}

static UNUSED void begin(void)
{
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
}

/* Joins all work of device 0: whatever a program left in flight is in flight no longer. */
static UNUSED int finish(void)
{
    TRY(aclrtSynchronizeDevice());
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    return 0;
}

static UNUSED aclrtStream new_stream(void)
{
    aclrtStream stream = NULL;
    TRY(aclrtCreateStream(&stream));
    return stream;
}

static UNUSED aclrtEvent new_event(void)
{
    aclrtEvent event = NULL;
    TRY(aclrtCreateEvent(&event));
    return event;
}

/* Page-locked host memory in which every byte is 1. */
static UNUSED unsigned char *page_locked(size_t len)
{
    void *memory = NULL;
    TRY(aclrtMallocHost(&memory, len));
    return (unsigned char *)memset(memory, 1, len);
}

/* Writes a number, the lowest byte first. */
static UNUSED inline void put_number(unsigned char *at, uint32_t number)
{
    for (int byte = 0; byte < 4; byte++)
        at[byte] = (unsigned char)(number >> (8 * byte));
}

/* Device memory that nobody has written. */
static UNUSED unsigned char *raw_device(size_t len)
{
    void *memory = NULL;
    TRY(aclrtMalloc(&memory, len, ACL_MEM_MALLOC_NORMAL_ONLY));
    return (unsigned char *)memory;
}

/* Device memory in which every byte is 2. */
static UNUSED unsigned char *device_memory(size_t len)
{
    unsigned char *memory = raw_device(len);
    TRY(aclrtMemset(memory, len, 2, len));
    return memory;
}

/* A host function that holds its stream until the gate is opened: what is submitted behind it is certainly
 * not complete before. */
struct gate {
    sem_t opened;
};

static UNUSED void kit_wait(void *opened)
{
    while (sem_wait((sem_t *)opened) != 0) {
    }
}

static UNUSED void gate_shut(struct gate *gate, aclrtStream stream)
{
    sem_init(&gate->opened, 0, 0);
    TRY(aclrtLaunchHostFunc(stream, kit_wait, &gate->opened));
}

static UNUSED void gate_open(struct gate *gate)
{
    sem_post(&gate->opened);
}

/* A host function, or callback, that tells a waiting thread. */
static UNUSED void kit_post(void *done)
{
    sem_post((sem_t *)done);
}

static UNUSED pthread_t start(void *(*run)(void *), void *with)
{
    pthread_t thread;
    THAT(pthread_create(&thread, NULL, run, with) == 0);
    return thread;
}

static UNUSED void join(pthread_t thread)
{
    THAT(pthread_join(thread, NULL) == 0);
}

#endif
