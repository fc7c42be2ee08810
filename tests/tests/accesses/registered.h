/* Parts in which the program registers memory of its own. */
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

/* Bytes of the program's own go to the device and come back. */
static void there_and_back(char *own, size_t len, char value)
{
    memset(own, value, len);
    TRY(aclrtMemcpyAsync(device, SIZE, own, len, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    join();
    memset(own, 0, len);
    TRY(aclrtMemcpyAsync(own, len, device, len, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    join();
    for (size_t at = 0; at < len; at++)
        CHECK(own[at] == value);
}

static char *map_there(char *at, size_t len, int flags)
{
    char *own = mmap(at, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED && (at == NULL || own == at));
    return own;
}

/* Registered memory that is unmapped and never unregistered: other memory at the same addresses takes its
   place in copies, all of it or a part. */
static void unmapped_again(void)
{
    enum { LEN = 65536, HALF = LEN / 2 };
    const int again = MAP_FIXED_NOREPLACE;
    for (int turn = 0; turn < 24; turn++) {
        int kind = turn % 2 == 0 ? MAP_PRIVATE : MAP_SHARED;
        char *own = map_there(NULL, LEN, kind), *other = NULL;
        TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
        there_and_back(own, LEN, 1);
        switch (turn / 2 % 6) {
        case 0: /* the same again */
            CHECK(munmap(own, LEN) == 0);
            map_there(own, LEN, kind | again);
            break;
        case 1: /* a part, of the other kind */
            CHECK(munmap(own + HALF, HALF) == 0);
            there_and_back(own, HALF, 2);
            map_there(own + HALF, HALF, (kind ^ MAP_PRIVATE ^ MAP_SHARED) | again);
            CHECK(own[0] == 2);
            break;
        case 2: /* at once, in two mappings */
            map_there(own, HALF, kind | MAP_FIXED);
            map_there(own + HALF, HALF, MAP_SHARED | MAP_FIXED);
            break;
        case 3: /* the first part, and the old one is used elsewhere */
            other = map_there(NULL, HALF, MAP_PRIVATE);
            CHECK(mremap(own, HALF, HALF, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
            map_there(own, HALF, kind | again);
            break;
        case 4: /* twice */
            CHECK(munmap(own, LEN) == 0);
            map_there(own, LEN, kind | again);
            there_and_back(own, LEN, 3);
            CHECK(munmap(own, LEN) == 0);
            map_there(own, LEN, kind | again);
            break;
        case 5: /* a part that nothing comes to */
            CHECK(munmap(own + HALF, HALF) == 0);
            there_and_back(own, HALF, 4);
            CHECK(aclrtMemcpy(device, SIZE, own, LEN, ACL_MEMCPY_HOST_TO_DEVICE) != 0);
            TRY(aclrtHostUnregister(own));
            CHECK(own[0] == 4);
            CHECK(munmap(own, HALF) == 0);
            continue;
        }
        int status = 0;
        own[5] = 6;
        pid_t child = fork();
        if (child == 0)
            _exit(own[5] == 6 ? 0 : 1);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        there_and_back(own, LEN, 5);
        /* It is watched in its turn. */
        host = own;
        up(0, LEN);
        write_byte(17);
        join();
        CHECK(other == NULL || (other[0] == 1 && other[HALF - 1] == 1 && munmap(other, HALF) == 0));
        TRY(aclrtHostUnregister(own));
        CHECK(own[17] == 7 && own[LEN - 1] == 5);
        write_byte(18);
        CHECK(own[18] == 7 && munmap(own, LEN) == 0);
    }
}

static void *below(void *at)
{
    *(volatile char *)at = 7;
    CHECK(write(-1, at, 1) == -1);
    ((volatile char *)at)[1] = 7;
    return at;
}

/* The stack of a thread lies below memory in flight, which nobody reads who reads the stack. */
static void stack_below(void)
{
    enum { STACK = 262144, LEN = 65536 };
    char *both = map_there(NULL, STACK + LEN, MAP_PRIVATE);
    pthread_attr_t attributes;
    pthread_t thread;
    TRY(aclrtHostRegisterV2(both + STACK, LEN, ACL_HOST_REG_PINNED));
    host = both + STACK;
    up(0, LEN);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, both, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, below, both + STACK) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    join();
    TRY(aclrtHostUnregister(both + STACK));
    CHECK(both[STACK] == 7 && munmap(both, STACK + LEN) == 0);
}

/* Registered memory is unmapped during a call that has a page of it open, and other memory comes there: what
   is written to that stays, when the call returns. */
static void unmapped_during_call(void)
{
    enum { LEN = 65536 };
    for (int turn = 0; turn < 20; turn++) {
        pthread_t thread;
        char *own = map_there(NULL, LEN, turn % 2 == 0 ? MAP_PRIVATE : MAP_SHARED);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
        host = own;
        up(100, 4);
        CHECK(pthread_create(&thread, NULL, receiving, NULL) == 0);
        CHECK(write(pair[0], "half of what the other thread is..", 32) == 32);
        int left = 32;
        while (left > 0)
            CHECK(ioctl(pair[1], FIONREAD, &left) == 0);
        CHECK(munmap(own, LEN) == 0);
        map_there(own, LEN, MAP_PRIVATE | MAP_FIXED_NOREPLACE);
        memset(own, 9, LEN);
        CHECK(write(pair[0], "it waits for the rest of this...", 32) == 32);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(own[0] == 9 && own[31] == 9 && own[32] == 'i' && own[64] == 9 && own[LEN - 1] == 9);
        aclrtSynchronizeStream(stream); /* whether the copy was faster than the program is not known */
        TRY(aclrtHostUnregister(own));
        CHECK(own[0] == 9 && own[64] == 9 && munmap(own, LEN) == 0);
        CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    }
}

/* A file in memory that is unmapped, and mapped at the same address again: as it was, or another part. */
static void file_again(void)
{
    enum { LEN = 65536 };
    const int again = MAP_SHARED | MAP_FIXED_NOREPLACE, rights = PROT_READ | PROT_WRITE;
    int file = memfd_create("own", 0);
    CHECK(file >= 0 && ftruncate(file, 2 * LEN) == 0);
    char *own = mmap(NULL, LEN, rights, MAP_SHARED, file, 0);
    CHECK(own != MAP_FAILED);
    TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
    there_and_back(own, LEN, 1);
    host = own;
    for (int turn = 0; turn < 2; turn++) {
        CHECK(munmap(own, LEN) == 0);
        CHECK(mmap(own, LEN, rights, again, file, turn * LEN) == own);
        CHECK(own[0] == 1 - turn);
        up(0, LEN);
        write_byte(17);
        join();
        there_and_back(own, LEN, 2);
    }
    TRY(aclrtHostUnregister(own));
    CHECK(own[5] == 2 && munmap(own, LEN) == 0);
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
