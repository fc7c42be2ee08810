// Signals that are sent to the process are for the program's threads: those that all of them block wait for
// sigtimedwait, though threads of the library copy meanwhile. A copy that meets memory which is gone still
// fails and no more.
#include "kit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LEN = 1 << 20 };

static aclrtStream stream;
static void *device, *locked;

// Done by threads of the library: nobody waits before the event is complete.
static void copy(void)
{
    aclrtEvent event = NULL;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    OK(aclrtCreateEvent(&event));
    OK(aclrtMemcpyAsync(device, LEN, locked, LEN, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtRecordEvent(event, stream));
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
        OK(aclrtQueryEventStatus(event, &status));
    }
    OK(aclrtDestroyEvent(event));
}

// Waits for a signal that has just been sent, while threads of the library copy.
static siginfo_t taken(int signal)
{
    struct timespec limit = {60, 0};
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    copy();
    CHECK(sigtimedwait(&set, &info, &limit), signal);
    copy();
    return info;
}

static void waits_for_the_program(int signal)
{
    union sigval value = {.sival_int = 42};
    siginfo_t info;
    pid_t child;
    copy();
    THAT(sigqueue(getpid(), signal, value) == 0);
    info = taken(signal);
    CHECK(info.si_code, SI_QUEUE);
    CHECK(info.si_value.sival_int, 42);
    THAT(kill(getpid(), signal) == 0);
    info = taken(signal);
    CHECK(info.si_code, SI_USER);
    CHECK(info.si_pid, getpid());
    child = fork();
    if (child == 0) {
        _exit(kill(getppid(), signal));
    }
    THAT(waitpid(child, NULL, 0) == child);
    CHECK(taken(signal).si_pid, child);
}

static void memory_that_is_gone(void)
{
    void *mine = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(aclrtHostRegisterV2(mine, LEN, ACL_HOST_REG_PINNED));
    THAT(munmap(mine, LEN) == 0);
    OK(aclrtMemcpyAsync(device, LEN, mine, LEN, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    REFUSED(aclrtSynchronizeStream(stream));
    OK(aclrtHostUnregister(mine));
}

int main(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGTERM};
    const char *backend = getenv("FERRY_BACKEND");
    sigset_t all;
    size_t i;
    sigfillset(&all);
    THAT(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    // The threads of a GPU's driver are not ours.
    if (backend != NULL && strcmp(backend, "host") != 0) {
        return finish("signals that are sent: not asked here");
    }
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc(&device, LEN, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&locked, LEN));
    for (i = 0; i < sizeof signals / sizeof *signals; i++) {
        waits_for_the_program(signals[i]);
    }
    // Whoever waits may help with the copy, and then meets the fault.
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    THAT(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    memory_that_is_gone();
    return finish("signals that are sent are the program's");
}
