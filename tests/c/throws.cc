// A C++ exception that leaves a function of the program's ends the process, with a message that names the call that was given the
// function, and the function. Each case is a process of its own.
#include "check.h"

#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern "C" void thrower(void *)
{
    throw std::runtime_error("from the callback");
}

static aclrtStream begin()
{
    aclrtStream stream = NULL;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    return stream;
}

static void in_process_report()
{
    aclrtStream stream = begin();
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    OK(aclrtLaunchCallback(thrower, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    try {
        (void)aclrtProcessReport(-1);
    } catch (const std::exception &) {
    }
}

static void uncaught_in_process_report()
{
    aclrtStream stream = begin();
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    OK(aclrtLaunchCallback(thrower, NULL, ACL_CALLBACK_BLOCK, stream));
    (void)aclrtProcessReport(-1);
}

static void in_host_function()
{
    aclrtStream stream = begin();
    OK(aclrtLaunchHostFunc(stream, thrower, NULL));
    (void)aclrtSynchronizeStream(stream);
}

static void end_thread(void *)
{
    pthread_exit(NULL);
}

static void ends_our_thread()
{
    aclrtStream stream = begin();
    OK(aclrtLaunchHostFunc(stream, end_thread, NULL));
    (void)aclrtSynchronizeStream(stream);
}

// What the case says, which must end by abort().
static std::string said_by(void (*body)())
{
    int ends[2], status = 0;
    char bytes[4096];
    std::string said;
    THAT(pipe(ends) == 0);
    pid_t child = fork();
    THAT(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        body();
        _exit(3);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], bytes, sizeof(bytes))) > 0;) {
        said.append(bytes, (size_t)got);
    }
    close(ends[0]);
    THAT(waitpid(child, &status, 0) == child);
    fprintf(stderr, "%s", said.c_str());
    THAT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return said;
}

static void names(const std::string &said, const char *call, void (*function)(void *))
{
    char address[64];
    snprintf(address, sizeof(address), "%p", (void *)function);
    THAT(said.find(call) != std::string::npos);
    THAT(said.find(address) != std::string::npos);
    THAT(said.find("Rust") == std::string::npos);
}

int main()
{
    names(said_by(in_process_report), "aclrtLaunchCallback", thrower);
    names(said_by(uncaught_in_process_report), "aclrtLaunchCallback", thrower);
    names(said_by(in_host_function), "aclrtLaunchHostFunc", thrower);
    names(said_by(ends_our_thread), "aclrtLaunchHostFunc", end_thread);
    printf("ok: exceptions that leave functions\n");
    return 0;
}
