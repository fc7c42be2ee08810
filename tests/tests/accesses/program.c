/* One program with a part for each test of accesses; its first argument names the part. Every part ends with
   "ok" on standard output. */
#include "base.h"
#include "calls.h"
#include "registered.h"

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

/* Another process reads memory in flight, as debuggers do: it gets an answer, and we have not accessed it. */
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
    {"calls", calls},       {"behind_calls", behind_calls}, {"registered_calls", registered_calls},
    {"long_calls", long_calls}, {"masks", masks}, {"interrupted_calls", interrupted_calls},
    {"many", many},         {"sweep", sweep},           {"seconds", seconds},
    {"strings", strings}, {"reads", reads},       {"shared", shared},
    {"registered_again", registered_again}, {"unmapped_again", unmapped_again},
    {"stack_below", stack_below}, {"file_again", file_again}, {"unmapped_during_call", unmapped_during_call},
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
