// 06: device memory that two processes share, with events, callbacks and the IPC functions.
//
// One process makes the memory and asks for a key: a string that stands for it. The other turns the key into
// a pointer of its own, to the same bytes. How the key gets across is the program's business; here it is a
// pipe, and what writes into it is a callback, a task of a stream. An event puts the callback behind the
// copy, so the other process hears of the memory when there is something in it.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "try.h"

enum { COUNT = 100000, BYTES = COUNT * sizeof(int), KEY = 65 };

struct courier {
    char key[KEY];
    int to;             // the pipe to the other process
    int sent;           // written by the callback, read by the thread that runs it: the same thread
    sem_t subscribed;
};

static void send_all(int to, const void *bytes, size_t size)
{
    if (write(to, bytes, size) != (ssize_t)size) {
        fprintf(stderr, "the other process is gone\n");
        exit(1);
    }
}

static void receive_all(int from, void *bytes, size_t size)
{
    size_t have = 0;
    while (have < size) {
        ssize_t more = read(from, (char *)bytes + have, size - have);
        if (more <= 0) {
            fprintf(stderr, "the other process is gone\n");
            exit(1);
        }
        have += (size_t)more;
    }
}

// A callback: runs when the stream gets to it, on the thread that was named for it. It may do anything but
// use the library.
static void send_key(void *arg)
{
    struct courier *courier = (struct courier *)arg;
    send_all(courier->to, courier->key, KEY);
    courier->sent = 1;
}

// The thread that runs the callbacks. It has to ask for them.
static void *run_callbacks(void *arg)
{
    struct courier *courier = (struct courier *)arg;
    sem_wait(&courier->subscribed);
    TRY(aclrtSetDevice(0));
    while (!courier->sent) {
        aclError code = aclrtProcessReport(1000);
        if (code != ACL_ERROR_RT_REPORT_TIMEOUT) {
            TRY(code);
        }
    }
    TRY(aclrtResetDevice(0));
    return NULL;
}

// The process that makes the memory, fills it, and gets it back with every number doubled.
static void owner(int from, int to)
{
    struct courier courier;
    pthread_t thread;
    aclrtStream copies = NULL, callbacks = NULL;
    aclrtEvent filled = NULL;
    void *host = NULL, *device = NULL;
    int *numbers;
    int32_t partner = 0;
    char done = 0;
    int i;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&copies));
    TRY(aclrtCreateStream(&callbacks));
    TRY(aclrtCreateEvent(&filled));
    TRY(aclrtMallocHost(&host, BYTES));
    TRY(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    numbers = (int *)host;
    for (i = 0; i < COUNT; i++) {
        numbers[i] = i;
    }

    // A key for the memory, and the one process that may use it. Each process knows itself by what this
    // library tells it, which in a container need not be getpid().
    memset(&courier, 0, sizeof courier);
    courier.to = to;
    receive_all(from, &partner, sizeof partner);
    TRY(aclrtIpcMemGetExportKey(device, BYTES, courier.key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
    TRY(aclrtIpcMemSetImportPid(courier.key, &partner, 1));

    // A thread for the callbacks of one stream.
    sem_init(&courier.subscribed, 0, 0);
    if (pthread_create(&thread, NULL, run_callbacks, &courier) != 0) {
        exit(1);
    }
    TRY(aclrtSubscribeReport((uint64_t)thread, callbacks));
    sem_post(&courier.subscribed);

    // Fill the memory in one stream; in the other, when that is done, send the key. None of these calls
    // waits.
    TRY(aclrtMemcpyAsync(device, BYTES, numbers, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, copies));
    TRY(aclrtRecordEvent(filled, copies));
    TRY(aclrtStreamWaitEvent(callbacks, filled));
    TRY(aclrtLaunchCallback(send_key, &courier, ACL_CALLBACK_BLOCK, callbacks));

    // The other process says when it is through with the memory.
    receive_all(from, &done, 1);
    TRY(aclrtMemcpyAsync(numbers, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, copies));
    TRY(aclrtSynchronizeStream(copies));
    for (i = 0; i < COUNT; i++) {
        if (numbers[i] != 2 * i) {
            fprintf(stderr, "number %d came back as %d\n", i, numbers[i]);
            exit(1);
        }
    }

    // The process that made the key closes it last, and frees the memory after that.
    TRY(aclrtIpcMemClose(courier.key));
    pthread_join(thread, NULL);
    TRY(aclrtUnSubscribeReport((uint64_t)thread, callbacks));
    sem_destroy(&courier.subscribed);
    TRY(aclrtFree(device));
    TRY(aclrtFreeHost(host));
    TRY(aclrtDestroyEvent(filled));
    TRY(aclrtDestroyStream(copies));
    TRY(aclrtDestroyStream(callbacks));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
}

// The process that gets the key: it reads the memory, doubles every number, and writes them back.
static void guest(int from, int to)
{
    char key[KEY];
    aclrtStream stream = NULL;
    void *host = NULL, *shared = NULL;
    int *numbers;
    int32_t me = 0;
    int i;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));
    TRY(aclrtMallocHost(&host, BYTES));
    numbers = (int *)host;
    TRY(aclrtDeviceGetBareTgid(&me));
    send_all(to, &me, sizeof me);

    receive_all(from, key, KEY);
    TRY(aclrtIpcMemImportByKey(&shared, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    TRY(aclrtMemcpyAsync(numbers, BYTES, shared, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    TRY(aclrtSynchronizeStream(stream));
    printf("the other process: numbers %d to %d have come\n", numbers[0], numbers[COUNT - 1]);
    fflush(stdout);
    for (i = 0; i < COUNT; i++) {
        numbers[i] *= 2;
    }
    TRY(aclrtMemcpyAsync(shared, BYTES, numbers, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    TRY(aclrtSynchronizeStream(stream));

    // Not freed, but closed: the memory is the other's. Then say so.
    TRY(aclrtIpcMemClose(key));
    send_all(to, "d", 1);

    TRY(aclrtFreeHost(host));
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
}

int main(void)
{
    int there[2], back[2], status = 0;
    pid_t child;

    if (pipe(there) != 0 || pipe(back) != 0) {
        return 1;
    }
    // Two processes before either uses the library: what it holds does not survive a fork.
    child = fork();
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        guest(there[0], back[1]);
        return 0;
    }
    close(there[0]);
    close(back[1]);
    owner(back[0], there[1]);
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the other process ended with status %d\n", status);
        return 1;
    }
    printf("ok: %d numbers filled here, doubled there\n", COUNT);
    return 0;
}
