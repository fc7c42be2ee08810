/* CHECK: FERRY-HOST-WRITE: a program under a profiler's timer counts in memory beside an upload, and then
 * writes the upload's source. Signals come in the middle of many accesses. */
/* NEEDS: userfaultfd */
#include <signal.h>
#include <sys/time.h>
#include "kit.h"

enum { LEN = 100, COUNTER = 200, ROUNDS = 1500 };

static volatile sig_atomic_t samples;

static void sample(int signal)
{
    (void)signal;
    samples++;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *memory = page_locked(4096), *device = device_memory(LEN);
    struct sigaction action = {.sa_handler = sample, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    TRY(aclrtMemcpyAsync(device, LEN, memory, LEN, H2D, stream)); /* WORK */
    for (int round = 0; round < ROUNDS; round++)
        memory[COUNTER + round]++;
    FIX(TRY(aclrtSynchronizeStream(stream));)
    memory[5] = 3; /* ACCESS */
    setitimer(ITIMER_REAL, &never, NULL);
    TRY(aclrtSynchronizeStream(stream));
    return finish();
}
