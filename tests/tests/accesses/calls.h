/* Parts in which system calls access memory in flight. */
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
    /* The list is in the page, too. */
    struct iovec *there = memcpy((char *)host + 2048, list, sizeof list);
    down(100, 4);
    CHECK(writev(ends[1], there, 2) == 77);
    join();
    up(100, 4);
    CHECK(readv(ends[0], there, 2) == 77);
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

/* The same with memory of the program's own, whether it is private or shared. */
static void registered_calls(void)
{
    for (int kind = 0; kind < 2; kind++) {
        int flags = (kind == 0 ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS;
        char *own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
        CHECK(own != MAP_FAILED);
        memset(own, 1, SIZE);
        TRY(aclrtHostRegisterV2(own, SIZE, ACL_HOST_REG_PINNED));
        host = own;
        behind_calls();
        TRY(aclrtHostUnregister(own));
        CHECK(munmap(own, SIZE) == 0);
    }
}

static int pair[2];
static void *receiving(void *unused)
{
    CHECK(recv(pair[1], (char *)host, 64, MSG_WAITALL) == 64);
    return unused;
}

/* Whether the first page is in the page table. */
static int is_open(void)
{
    uint64_t entry = 0;
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    CHECK(pagemap >= 0);
    CHECK(pread(pagemap, &entry, sizeof entry, (off_t)((size_t)host / 4096 * sizeof entry)) == sizeof entry);
    close(pagemap);
    return entry >> 63;
}

/* An access by another thread during a call that has had the page open, and waits for more. */
static void long_calls(void)
{
    pthread_t thread;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    up(100, 4);
    CHECK(pthread_create(&thread, NULL, receiving, NULL) == 0);
    CHECK(write(pair[0], "half of what the other thread is..", 32) == 32);
    int left = 32;
    while (left > 0) /* until the thread has taken it */
        CHECK(ioctl(pair[1], FIONREAD, &left) == 0);
    while (is_open())
        sched_yield();
    write_byte(101);
    CHECK(write(pair[0], "it waits for the rest of this...", 32) == 32);
    CHECK(pthread_join(thread, NULL) == 0);
    write_byte(102);
    join();
    CHECK(memcmp((char *)host, "half of what the other thread isit waits", 40) == 0);
}

static volatile int ticks;
static int ticked[2];
static void on_tick(int signal)
{
    ticks += signal == SIGUSR1;
    char byte[2] = {0};
    /* A call in the handler, which has the page open as well; errno is not changed by us. */
    int before = errno;
    if (write(ticked[1], (char *)host + 8, 1) != 1 || read(ticked[0], byte, 1) != 1 || byte[0] != 1)
        _exit(3);
    if (errno != before)
        _exit(4);
}

static void *sending(void *unused)
{
    for (int turn = 0; turn < 400; turn++)
        CHECK(write(pair[0], (char[64]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 64) == 64);
    return unused;
}

/* Calls that a signal of the program's interrupts, each at another moment, and that begin again. */
static void interrupted_calls(void)
{
    pthread_t thread;
    timer_t timer;
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    sigset_t tick;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ticked) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    sigemptyset(&tick);
    sigaddset(&tick, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &tick, NULL);
    CHECK(pthread_create(&thread, NULL, sending, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
    for (int turn = 0; turn < 400; turn++) {
        struct itimerspec once = {.it_value = {0, 1 + turn % 40 * 20000}};
        down(2048, 4);
        CHECK(timer_settime(timer, 0, &once, NULL) == 0);
        CHECK(recv(pair[1], (char *)host, 64, 0) == 64);
        CHECK(host[8] == 1 && host[9] == 0);
        join();
    }
    CHECK(timer_delete(timer) == 0 && pthread_join(thread, NULL) == 0);
    down(2048, 4);
    CHECK(write(pair[0], (char *)host, 64) == 64);
    write_byte(2049);
    write_sixteen(2048); /* the page is armed again: the thread could be asked */
    join();
}

/* A call that changes which signals are blocked has its page open, and its thread cannot be caught. */
static void masks(void)
{
    sigset_t all, before;
    sigfillset(&all);
    memcpy((char *)host, &all, sizeof all);
    down(1000, 4);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (char *)host, &before, 8) == 0);
    errno = 77;
    write_byte(1001);
    CHECK(errno == 77);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    write_byte(1002);
    CHECK(errno == 77);
    join();
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
