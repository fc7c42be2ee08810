// The main thread leaves with pthread_exit: the process ends with its last thread, as it does without acl,
// whatever acl has used threads for. A signal that comes when only threads of acl's are left has its effect.
// Each case is a process of its own.
#include "kit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { LEN = 4096 };

static aclrtContext context;
static int called;

static void count(void *argument)
{
    __atomic_add_fetch((int *)argument, 1, __ATOMIC_SEQ_CST);
}

// Copies, a function, and a large copy that several threads do.
static void use_acl(void)
{
    size_t large = (size_t)16 << 20;
    void *device = NULL;
    unsigned char *from;
    aclrtStream stream = NULL;
    begin();
    from = pinned(1, large);
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtMalloc(&device, large, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMemcpyAsync(device, large, from, large, H2D, stream));
    OK(aclrtLaunchHostFunc(stream, count, &called));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    THAT(called == 1);
}

static void export_memory(void)
{
    char key[65];
    void *device = NULL;
    OK(aclrtMalloc(&device, LEN, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtIpcMemGetExportKey(device, LEN, key, sizeof(key), 0));
}

// The main thread is gone when this is 'Z'.
static char state_of_main(void)
{
    char line[512], *name_end;
    FILE *file = fopen("/proc/self/stat", "r");
    THAT(file != NULL && fgets(line, sizeof(line), file) != NULL);
    fclose(file);
    name_end = strrchr(line, ')');
    return name_end[2];
}

static void wait_for_the_end_of_main(void)
{
    while (state_of_main() != 'Z') {
        sched_yield();
    }
}

static void *last_thread(void *unused)
{
    wait_for_the_end_of_main();
    return unused;
}

// Large pageable copies look at the mappings of the process, which has no main thread any more.
static void *last_user(void *unused)
{
    size_t large = (size_t)4 << 20;
    unsigned char *from = (unsigned char *)malloc(large);
    void *device = NULL;
    wait_for_the_end_of_main();
    memset(from, 3, large);
    OK(aclrtSetCurrentContext(context));
    OK(aclrtMalloc(&device, large, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(device, large, from, large, H2D));
    return unused;
}

// Sends a signal to the process that this thread, the last one, does not take.
static void *last_sender(void *signal)
{
    sigset_t all;
    wait_for_the_end_of_main();
    sigfillset(&all);
    THAT(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    THAT(kill(getpid(), (int)(intptr_t)signal) == 0);
    return NULL;
}

static void leave(int signal)
{
    (void)signal;
    _exit(7);
}

static void leave_to(void *(*thread)(void *), int argument)
{
    pthread_t other;
    THAT(pthread_create(&other, NULL, thread, (void *)(intptr_t)argument) == 0);
    pthread_exit(NULL);
}

static void without_acl(void) { leave_to(last_thread, 0); }

static void after_work(void)
{
    use_acl();
    leave_to(last_thread, 0);
}

// The system keeps 15 bytes of a name: the last letter is cut.
static void under_a_name_that_is_cut(void)
{
    THAT(prctl(PR_SET_NAME, "12345678901234\303\251") == 0);
    after_work();
}

static void as_exporter(void)
{
    use_acl();
    export_memory();
    leave_to(last_thread, 0);
}

static void while_another_goes_on(void)
{
    use_acl();
    leave_to(last_user, 0);
}

static void with_a_signal(void)
{
    use_acl();
    export_memory();
    leave_to(last_sender, SIGTERM);
}

static void with_a_handler(void)
{
    use_acl();
    THAT(signal(SIGUSR1, leave) != SIG_ERR);
    leave_to(last_sender, SIGUSR1);
}

static pid_t start(void (*body)(void))
{
    pid_t child = fork();
    THAT(child >= 0);
    if (child == 0) {
        alarm(120); // against a hang
        body();
    }
    return child;
}

// A child of fork has no threads of acl's, whatever the parent had.
static void in_a_forked_child(void)
{
    int status = 1;
    pid_t child;
    use_acl();
    child = fork();
    if (child == 0) {
        alarm(120);
        leave_to(last_thread, 0);
    }
    THAT(waitpid(child, &status, 0) == child);
    _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1);
}

// How a case ended: its code, or 1000 and the signal.
static int end_of(pid_t child)
{
    int status = 0;
    THAT(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void)
{
    enum { CASES = 8 };
    void (*const bodies[CASES])(void) = {without_acl,           after_work,    as_exporter,
                                         while_another_goes_on, with_a_signal, with_a_handler,
                                         in_a_forked_child,     under_a_name_that_is_cut};
    const int ends[CASES] = {0, 0, 0, 0, 1000 + SIGTERM, 7, 0, 0};
    pid_t children[CASES];
    int i;
    for (i = 0; i < CASES; i++) {
        children[i] = start(bodies[i]);
    }
    for (i = 0; i < CASES; i++) {
        printf("case %d\n", i);
        CHECK(end_of(children[i]), ends[i]);
    }
    printf("ok: the process ends with its last thread\n");
    return 0;
}
