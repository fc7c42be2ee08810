// Callbacks: a thread of the program runs them, in the order of their stream. A blocking one holds up the
// tasks behind it, the other kind does not. The program ends while its thread still waits for the next one
// and a stream for a callback.
#include "kit.h"

enum { LEN = 4096, CALLS = 200 };

static pthread_t server;
static int next_call, stop;

struct call {
    int seen;
    int in_server;
};

static void in_order(void *arg)
{
    struct call *call = (struct call *)arg;
    call->seen = next_call++;
    call->in_server = pthread_equal(pthread_self(), server);
}

// The loop of the documents: a limit, so that the thread can see that it is to end.
static void *serve(void *unused)
{
    (void)unused;
    while (!watch_get(&stop)) {
        aclError code = aclrtProcessReport(100);
        THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_REPORT_TIMEOUT ||
             code == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    }
    return NULL;
}

static void *serve_for_ever(void *unused)
{
    (void)unused;
    for (;;) {
        (void)aclrtProcessReport(-1);
    }
    return NULL;
}

struct look {
    const unsigned char *at;
    unsigned char seen;
};

static void look(void *arg)
{
    struct look *l = (struct look *)arg;
    l->seen = l->at[LEN - 1];
}

static void they_run_in_order(aclrtStream stream)
{
    static struct call calls[CALLS];
    int i;
    for (i = 0; i < CALLS; i++) {
        OK(aclrtLaunchCallback(in_order, &calls[i], i % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK,
                               stream));
    }
    // The last one blocks: when the stream is done, all of them have run.
    OK(aclrtSynchronizeStream(stream));
    for (i = 0; i < CALLS; i++) {
        CHECK(calls[i].seen, i);
        THAT(calls[i].in_server);
    }
}

static void they_stand_between_copies(aclrtStream stream)
{
    unsigned char *host = pinned(1, LEN), *a = device_memory(2, LEN), *b = device_memory(3, LEN);
    struct look looks[2];
    int i;
    for (i = 0; i < 2; i++) {
        looks[i].at = host;
        looks[i].seen = 0;
    }
    OK(aclrtMemset(a, LEN, 0xaa, LEN));
    OK(aclrtMemset(b, LEN, 0xbb, LEN));
    OK(aclrtMemcpyAsync(host, LEN, a, LEN, D2H, stream));
    OK(aclrtLaunchCallback(look, &looks[0], ACL_CALLBACK_BLOCK, stream));
    OK(aclrtMemcpyAsync(host, LEN, b, LEN, D2H, stream));
    OK(aclrtLaunchCallback(look, &looks[1], ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK(looks[0].seen, 0xaa);
    CHECK(looks[1].seen, 0xbb);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

static void bad_calls(aclrtStream stream)
{
    aclrtStream unbound = NULL;
    OK(aclrtCreateStream(&unbound));
    CHECK(aclrtSubscribeReport((uint64_t)server, stream), ACL_ERROR_REPEAT_SUBSCRIBE);
    CHECK(aclrtSubscribeReport((uint64_t)server, (aclrtStream)LOW_GARBAGE), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtLaunchCallback(in_order, NULL, ACL_CALLBACK_BLOCK, unbound), ACL_ERROR_RT_STREAM_NO_CB_REG);
    CHECK(aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtLaunchCallback(in_order, NULL, (aclrtCallbackBlockType)7, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtUnSubscribeReport((uint64_t)server, unbound), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK(aclrtProcessReport(0), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtDestroyStream(unbound));
}

int main(void)
{
    aclrtStream stream = NULL, held = NULL;
    pthread_t idle;
    begin();
    OK(aclrtCreateStream(&stream));
    THAT(pthread_create(&server, NULL, serve, NULL) == 0);
    OK(aclrtSubscribeReport((uint64_t)server, stream));
    they_run_in_order(stream);
    they_stand_between_copies(stream);
    bad_calls(stream);
    OK(aclrtUnSubscribeReport((uint64_t)server, stream));
    watch_set(&stop);
    THAT(pthread_join(server, NULL) == 0);
    OK(aclrtDestroyStream(stream));

    // One thread waits for a callback that is never launched, one stream for a thread that never comes.
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&held));
    THAT(pthread_create(&idle, NULL, serve_for_ever, NULL) == 0);
    OK(aclrtSubscribeReport((uint64_t)idle, stream));
    OK(aclrtSubscribeReport(1, held));
    OK(aclrtLaunchCallback(in_order, NULL, ACL_CALLBACK_BLOCK, held));
    printf("ok: callbacks, and leaving in the middle of them\n");
    return 0;
}
