/* What all parts of the program use: a stream, memory, accesses to it with stacks of their own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
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

typedef char sixteen __attribute__((vector_size(16), aligned(1)));
__attribute__((noinline)) static void write_sixteen(size_t at)
{
    *(volatile sixteen *)(host + at) = (sixteen){7};
}
