/* One program with a part for each test of accesses; its first argument names the part. Every part ends with
   "ok" on standard output. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

#define TRY(call)                                                                     \
    do {                                                                              \
        int code = (call);                                                            \
        if (code != 0) {                                                              \
            printf("line %d: %s: %d\n%s\n", __LINE__, #call, code, aclGetRecentErrMsg()); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)
#define CHECK(what) TRY(!(what))
#define SIZE (1 << 20)

static aclrtStream stream, other;
static volatile char *host;
static char *device;

__attribute__((noinline)) static void write_byte(size_t at) { host[at] = 7; }
__attribute__((noinline)) static char read_byte(size_t at) { return host[at]; }
__attribute__((noinline)) static void fill_bytes(void) { memset((char *)host + 100, 5, 10000); }
__attribute__((noinline)) static ssize_t send_bytes(int to) { return write(to, (char *)host, 64); }
__attribute__((noinline)) static ssize_t receive_bytes(int from) { return read(from, (char *)host, 64); }

static void up(size_t at, size_t len)
{
    TRY(aclrtMemcpyAsync(device, SIZE, (char *)host + at, len, ACL_MEMCPY_HOST_TO_DEVICE, stream));
}
static void down(size_t at, size_t len)
{
    TRY(aclrtMemcpyAsync((char *)host + at, len, device, len, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}
static void join(void) { TRY(aclrtSynchronizeStream(stream)); }

static void plain(void)
{
    up(0, 4096);
    write_byte(17);
    read_byte(18); /* reading a source is fine */
    join();
    write_byte(19);
    down(0, 4096);
    read_byte(20);
    join();
    read_byte(21);
}

static void neighbours(void)
{
    up(64, 64);
    down(8192 + 64, 64);
    for (int turn = 0; turn < 3; turn++) {
        write_byte(63);
        write_byte(128);
        read_byte(8192 + 63);
        write_byte(8192 + 128);
        write_byte(4096);
    }
    read_byte(64);
    write_byte(127);
    join();
}

typedef char sixteen __attribute__((vector_size(16), aligned(1)));
__attribute__((noinline)) static void write_sixteen(size_t at)
{
    *(volatile sixteen *)(host + at) = (sixteen){7};
}

/* Accesses that begin before the bytes in flight, and some that end before them. */
static void halves(void)
{
    up(100, 4);
    write_sixteen(84);
    write_sixteen(104);
    up(8192 + 8, 4);
    write_sixteen(8192 - 8); /* its last byte is the one before */
    join();
    up(100, 4);
    write_sixteen(88);
    join();
    up(8192 - 64, 4);
    up(8192 + 8, 4);
    write_sixteen(8192 - 7);
    join();
    up(8192 + 8, 4);
    write_sixteen(8192);
    join();
}

/* Buffers of a list that begin before the bytes in flight, and one that ends before them. */
static void lists(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    memset((char *)host, 0, 4096);
    struct iovec list[] = {{(char *)host + 8, 8}, {(char *)host + 32, 68}};
    down(100, 4);
    CHECK(writev(ends[1], list, 2) == 76);
    join();
    list[1].iov_len++;
    down(100, 4);
    CHECK(writev(ends[1], list, 2) == 77);
    join();
}

/* An access behind a system call that had the page open; of neighbours, so that the call is no mistake. */
static void behind_calls(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int turn = 0; turn < 3; turn++) {
        up(100, 4);
        CHECK(send_bytes(ends[1]) == 64);
        CHECK(receive_bytes(ends[0]) == 64);
        write_byte(101);
        join();
    }
}

static void calls(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    memset((char *)host, 0, 4096); /* as on the device: the bytes that are sent do not depend on timing */
    down(0, 4096);
    CHECK(send_bytes(ends[1]) == 64);
    join();
    CHECK(send_bytes(ends[1]) == 64);
    up(0, 4096);
    CHECK(receive_bytes(ends[0]) == 64);
    join();
    CHECK(receive_bytes(ends[0]) == 64);
}

static void many(void)
{
    up(0, 65536);
    fill_bytes();
    join();
    for (size_t at = 100; at < 10100; at++)
        CHECK(host[at] == 5);
    CHECK(host[99] == 1 && host[10100] == 1);
}

/* One mistake with many accesses, and another one behind it where the first did not come. */
static void sweep(void)
{
    up(0, SIZE);
    memset((char *)host, 5, SIZE - 4096);
    write_byte(SIZE - 1);
    join();
    CHECK(host[0] == 5 && host[SIZE - 4097] == 5 && host[SIZE - 4096] == 1 && host[SIZE - 1] == 7);
}

/* A source may be read as often as the program likes; then it is written, and is a destination. */
static void reads(void)
{
    size_t sum = 0;
    for (int turn = 0; turn < 3; turn++) {
        up(0, SIZE);
        for (size_t at = 0; at < SIZE; at++)
            sum += (size_t)host[at];
        int ends[2];
        CHECK(pipe(ends) == 0 && send_bytes(ends[1]) == 64);
        write_byte(SIZE / 2);
        sum += (size_t)host[SIZE / 2];
        join();
        write_byte(SIZE / 2);
    }
    CHECK(sum == 3 * (SIZE + 7) + 12);
    up(0, SIZE);
    read_byte(5000);
    down(4096, 4096);
    read_byte(5000);
    join();
}

/* A page is opened with its neighbours, and the next copy is of one of these. */
static void seconds(void)
{
    for (int turn = 0; turn < 50; turn++) {
        up(100, 500);
        join();
        write_byte(200);
        up(12000, 100);
        write_byte(12005);
        join();
    }
}

/* Strings that end before bytes in flight: the C library reads beyond them, the program does not. A copy of
   the bytes beyond reads them. */
static void strings(void)
{
    char copy[64];
    strcpy((char *)host + 64, "seventeen letters");
    down(64 + 24, 4);
    CHECK(strlen((char *)host + 64) == 17);
    CHECK(strchr((char *)host + 64, 'x') == NULL && memchr((char *)host + 64, 's', 20) != NULL);
    CHECK(strcmp((char *)host + 64, "seventeen letters") == 0);
    memcpy(copy, (char *)host + 64, 48);
    join();
    CHECK(memcmp(copy, "seventeen", 9) == 0);
}

/* What is ordered by events is joined with the stream that waited. */
static void events(void)
{
    aclrtEvent event;
    TRY(aclrtCreateEvent(&event));
    up(0, 4096);
    TRY(aclrtRecordEvent(event, stream));
    up(8192, 4096);
    TRY(aclrtStreamWaitEvent(other, event));
    TRY(aclrtSynchronizeStream(other));
    write_byte(1);
    write_byte(8193);
    join();
}

static void *blocked_thread(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    write_byte(17);
    return unused;
}

static void blocked(void)
{
    pthread_t thread;
    up(0, 4096);
    CHECK(pthread_create(&thread, NULL, blocked_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    join();
}

static sigjmp_buf back;
static volatile int urgent, traps;
static void on_segv(int signal) { siglongjmp(back, signal); }
static void on_urgent(int signal) { urgent += signal == SIGURG; }
static void on_trap(int signal) { traps += signal == SIGTRAP; }

static void handlers(void)
{
    up(0, 4096);
    write_byte(17);
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)16 = 1;
        CHECK(0);
    }
    CHECK(raise(SIGURG) == 0 && urgent == 1);
    __asm__ volatile("int3");
    CHECK(traps == 1);
    write_byte(18);
    join();
}

static void forks(void)
{
    int status = 0;
    up(0, 4096);
    pid_t child = fork();
    if (child == 0) {
        int right = host[0] == 1 && host[SIZE - 1] == 1;
        host[0] = 9;
        host[5000] = 9;
        _exit(right ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    join();
    CHECK(host[0] == 1 && host[5000] == 1);
    up(0, 4096);
    write_byte(17);
    join();
}

static volatile int stop;
static void *counting(void *words)
{
    volatile unsigned *at = words;
    unsigned turns = 0;
    while (!stop) {
        turns++;
        for (int page = 0; page < 16; page++)
            at[page * 1024 + 1]++;
    }
    return (void *)(size_t)turns;
}

/* Memory of the program's own, which another thread uses all the time. */
static void registered(void)
{
    const size_t bytes = 65536;
    char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    void *turns;
    CHECK(own != MAP_FAILED);
    memset(own, 0, bytes);
    strcpy(own + 100, "kept");
    CHECK(pthread_create(&thread, NULL, counting, own) == 0);
    host = own;
    for (int turn = 0; turn < 50; turn++) {
        TRY(aclrtHostRegisterV2(own, bytes, ACL_HOST_REG_PINNED));
        CHECK(strcmp(own + 100, "kept") == 0);
        TRY(aclrtHostUnregister(own));
    }
    stop = 1;
    CHECK(pthread_join(thread, &turns) == 0);
    for (int page = 0; page < 16; page++)
        CHECK(((unsigned *)own)[page * 1024 + 1] == (unsigned)(size_t)turns);
    TRY(aclrtHostRegisterV2(own, bytes, ACL_HOST_REG_PINNED));
    up(0, 4096);
    write_byte(17);
    join();
    memset(own, 3, bytes);
    up(0, bytes);
    join();
    memset(own, 4, bytes);
    down(0, bytes);
    join();
    TRY(aclrtHostUnregister(own));
    for (size_t at = 0; at < bytes; at++)
        CHECK(own[at] == 3);
    write_byte(18);
    CHECK(munmap(own, bytes) == 0);
}

static void *registering(void *unused)
{
    const size_t bytes = 65536;
    TRY(aclrtSetDevice(0));
    while (!stop) {
        char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(own != MAP_FAILED);
        TRY(aclrtHostRegisterV2(own, bytes, ACL_HOST_REG_PINNED));
        own[0] = 1;
        TRY(aclrtHostUnregister(own));
        CHECK(munmap(own, bytes) == 0);
    }
    return unused;
}

/* While a thread unmaps what was watched, the kernel lets nobody open a page. */
static void moves(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, registering, NULL) == 0);
    for (size_t turn = 0; turn < 1000; turn++) {
        size_t at = turn * 8192 % SIZE;
        up(at, 8192);
        read_byte(at);
        join();
        write_byte(at);
    }
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Another process reads memory in flight, as debuggers do: it gets an answer, and we have not accessed it. */
/* Registered memory that is moved away, or mapped anew, before it is unregistered: what is there then is the
   program's. */
static void remapped(void)
{
    enum { LEN = 65536 };
    for (int turn = 0; turn < 40; turn++) {
        char *own = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(own != MAP_FAILED);
        memset(own, 1, LEN);
        TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
        TRY(aclrtMemcpyAsync(device, LEN, own, LEN, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        join();
        if (turn % 2 == 0) {
            char *other = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(other != MAP_FAILED);
            CHECK(mremap(own, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
            aclrtHostUnregister(own);
            CHECK(other[5] == 1);
            CHECK(munmap(other, LEN) == 0);
        } else {
            int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
            CHECK(mmap(own, LEN, PROT_READ | PROT_WRITE, flags, -1, 0) == own);
            own[5] = 3;
            aclrtHostUnregister(own);
            CHECK(own[4] == 0 && own[5] == 3);
            CHECK(munmap(own, LEN) == 0);
        }
    }
}

/* Memory that is registered again while copies of its first registration wait. */
static void gate(void *open) { while (!*(volatile int *)open) usleep(100); }
static void registered_again(void)
{
    static int is_open;
    const size_t bytes = 65536;
    char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    memset(own, 3, bytes);
    TRY(aclrtHostRegisterV2(own, bytes, ACL_HOST_REG_PINNED));
    TRY(aclrtLaunchHostFunc(stream, gate, &is_open));
    TRY(aclrtMemcpyAsync(device, SIZE, own, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    TRY(aclrtHostUnregister(own));
    TRY(aclrtHostRegisterV2(own, bytes, ACL_HOST_REG_PINNED));
    is_open = 1;
    join();
    TRY(aclrtMemcpyAsync(own, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    join();
    CHECK(own[bytes - 1] == 3);
    TRY(aclrtHostUnregister(own));
    CHECK(munmap(own, bytes) == 0);
}

/* Memory that the program shares with its children, and registers. */
static void shared(void)
{
    const size_t bytes = 65536;
    char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    memset(own, 1, bytes);
    host = own;
    TRY(aclrtHostRegisterV2(own, bytes, ACL_HOST_REG_PINNED));
    up(4096, 4096);
    pid_t child = fork();
    if (child == 0) {
        own[4096] = 5;
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(own[4096] == 5);
    write_byte(4096 + 17);
    join();
    up(0, bytes);
    join();
    memset(own, 4, bytes);
    down(0, bytes);
    join();
    CHECK(own[4096] == 5 && own[4096 + 17] == 7 && own[0] == 1);
    TRY(aclrtHostUnregister(own));
    write_byte(0);
    CHECK(own[0] == 7 && munmap(own, bytes) == 0);
}

static void others(void)
{
    int status = 0;
    pid_t this = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    down(0, 4096);
    pid_t child = fork();
    if (child == 0) {
        char bytes[64];
        struct iovec to = {bytes, sizeof bytes}, from = {(char *)host, sizeof bytes};
        alarm(30);
        process_vm_readv(this, &to, 1, &from, 1, 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    join();
    CHECK(read_byte(0) == 0);
}

/* A handler that came after the library's, and calls that are given an address of a device. */
__attribute__((noinline)) static void poke(volatile char *at) { *at = 1; }
static void device_handler(void)
{
    int ends[2], status = 0;
    CHECK(pipe(ends) == 0);
    signal(SIGSEGV, on_segv);
    for (int turn = 0; turn < 3; turn++)
        if (sigsetjmp(back, 1) == 0) {
            poke(device);
            CHECK(0);
        }
    errno = 0;
    CHECK(write(ends[1], device + 8192, 64) == -1 && errno == EFAULT);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(read(ends[0], device + 16384, 1) == -1 && errno == EFAULT);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        poke(device + 32768);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    /* Locking all memory touches all pages, and is no use of any. */
    mlockall(MCL_CURRENT);
    munlockall();
    up(0, 4096);
    join();
}

/* Parts of the memory get other rights or advice, so that the kernel has several mappings of it. */
static void rights(void)
{
    for (int turn = 0; turn < 3; turn++) {
        char *part = (char *)host + (size_t)turn * 65536;
        up(0, SIZE);
        join();
        CHECK(mprotect(part + 4096, 4096, PROT_READ) == 0);
        read_byte((size_t)turn * 65536 + 4096);
        CHECK(mprotect(part + 4096, 4096, PROT_READ | PROT_WRITE) == 0);
        CHECK(madvise(part + 12288, 4096, MADV_DONTDUMP) == 0);
        CHECK(mlock(part, 16384) == 0 || errno == ENOMEM || errno == EPERM);
        write_byte((size_t)turn * 65536);
        memset(part, turn, 65536);
        CHECK(part[20000] == turn);
    }
    up(0, SIZE);
    write_byte(131072 + 8192);
    join();
}

static void device_pointer(void) { *(volatile char *)device = 1; }

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"plain", plain},       {"neighbours", neighbours}, {"halves", halves}, {"lists", lists},
    {"calls", calls},       {"behind_calls", behind_calls}, {"many", many}, {"sweep", sweep},
    {"seconds", seconds},   {"strings", strings}, {"reads", reads},       {"shared", shared},
    {"registered_again", registered_again},
    {"events", events},     {"blocked", blocked},       {"handlers", handlers}, {"forks", forks},
    {"registered", registered}, {"moves", moves}, {"device_pointer", device_pointer},
    {"rights", rights},     {"remapped", remapped}, {"others", others},
    {"device_handler", device_handler},
};

int main(int count, char **words)
{
    CHECK(count == 2);
    alarm(300); /* no part takes that long, unless it hangs */
    if (strcmp(words[1], "handlers") == 0) {
        signal(SIGSEGV, on_segv);
        signal(SIGURG, on_urgent);
        signal(SIGTRAP, on_trap);
    }
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));
    TRY(aclrtCreateStream(&other));
    TRY(aclrtMallocHost((void **)&host, SIZE));
    TRY(aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    memset((char *)host, 1, SIZE);
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        if (strcmp(parts[part].name, words[1]) == 0)
            parts[part].run();
    TRY(aclFinalize());
    puts("ok");
    return 0;
}
