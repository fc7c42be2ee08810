/* CHECK: FERRY-DEVICE-POINTER: a thread of a program with a SIGSEGV handler of its own writes to a device
 * address. The handler jumps out of the access, and the program goes on. */
/* NEEDS: userfaultfd */
#include <setjmp.h>
#include <signal.h>

#include "kit.h"

static sigjmp_buf out;

static void leave(int signal)
{
    siglongjmp(out, signal);
}

static void *poke(void *address)
{
    if (sigsetjmp(out, 1) == 0) {
        *(volatile char *)address = 1; /* ACCESS */
    }
    return NULL;
}

int main(void)
{
    begin();
    struct sigaction action = {.sa_handler = leave};
    unsigned char *device = device_memory(64), *host = page_locked(64);
    THAT(sigaction(SIGSEGV, &action, NULL) == 0);
    join(start(poke, PICK(device, host)));
    return finish();
}
