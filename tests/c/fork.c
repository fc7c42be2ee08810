// In the child of a process that has used the library every call answers 107002 and says why, the child ends
// as it likes, and the parent does not notice. A child that is made before that is a process like any other.
#include "kit.h"

#include <sys/wait.h>

enum { LEN = 4096 };

static unsigned char *device, *host;
static aclrtStream stream;
static aclrtEvent event;
static aclrtContext context;

#define GONE(call) CHECK(call, ACL_ERROR_RT_CONTEXT_NULL)

static void calls_in_a_child(void)
{
    unsigned char bytes[64];
    const char *message;
    void *memory = NULL;
    uint32_t count = 0;
    int32_t id = 0;
    size_t size = 0;
    aclrtStream other = NULL;
    GONE(aclrtMemcpy(bytes, 64, device, 64, D2H));
    message = aclGetRecentErrMsg();
    THAT(message != NULL && strstr(message, "fork") != NULL);
    GONE(aclInit(NULL));
    GONE(aclrtSetDevice(0));
    GONE(aclrtGetDevice(&id));
    GONE(aclrtGetDeviceCount(&count));
    GONE(aclrtSetCurrentContext(context));
    GONE(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    GONE(aclrtMallocHost(&memory, 64));
    GONE(aclrtFree(device));
    GONE(aclrtFreeHost(host));
    GONE(aclrtGetMemcpyDescSize(INNER, &size));
    GONE(aclrtCreateStream(&other));
    GONE(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream));
    GONE(aclrtMemcpyAsync(bytes, 64, device, 64, D2H, NULL));
    GONE(aclrtMemset(device, LEN, 0, LEN));
    GONE(aclrtRecordEvent(event, stream));
    GONE(aclrtSynchronizeEvent(event));
    GONE(aclrtSynchronizeStream(stream));
    GONE(aclrtSynchronizeDevice());
    GONE(aclrtDestroyStream(stream));
    GONE(aclrtResetDevice(0));
    GONE(aclFinalize());
}

// Runs a function in a child and waits for its end, which must be good.
static void in_child(void (*body)(void), int quietly)
{
    int status = 0;
    pid_t child;
    fflush(NULL);
    child = fork();
    THAT(child >= 0);
    if (child == 0) {
        body();
        if (quietly) {
            _exit(0);
        }
        exit(0);
    }
    THAT(waitpid(child, &status, 0) == child);
    CHECK(status, 0);
}

static void a_process_of_its_own(void)
{
    unsigned char *memory;
    begin();
    memory = device_memory(9, LEN);
    HOLDS(memory, 9, LEN);
    OK(aclrtFree(memory));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static void *fork_from_a_thread(void *arg)
{
    (void)arg;
    in_child(calls_in_a_child, 0);
    return NULL;
}

int main(void)
{
    static struct gate gate = GATE;
    in_child(a_process_of_its_own, 0);
    begin();
    device = device_memory(1, LEN), host = pinned(2, LEN);
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtGetCurrentContext(&context));

    in_child(calls_in_a_child, 1);
    in_child(calls_in_a_child, 0);
    in_thread(fork_from_a_thread, NULL);
    // With work under way.
    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream));
    in_child(calls_in_a_child, 0);
    HOLDS(device, 1, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 2, LEN);

    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyEvent(event));
    OK(aclrtFree(device));
    OK(aclrtFreeHost(host));
    return finish("fork");
}
