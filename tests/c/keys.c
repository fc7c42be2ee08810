// Another library takes every pthread key of the process that is left before the first call: the calls work
// in any thread, no value of the other library's is touched, and threads end as they should.
#include "kit.h"

enum { MOST = 4096 };

static pthread_key_t keys[MOST];
static int count, destroyed;
static struct gate gate = GATE;

static void destroy(void *value)
{
    THAT(value == (void *)keys);
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void set_all(void)
{
    int i;
    for (i = 0; i < count; i++) {
        THAT(pthread_setspecific(keys[i], keys) == 0);
    }
}

static void all_are_set(void)
{
    int i;
    for (i = 0; i < count; i++) {
        THAT(pthread_getspecific(keys[i]) == (void *)keys);
    }
}

static void *use(void *unused)
{
    aclrtStream stream = NULL;
    void *device;
    set_all();
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    gate_shut(&gate, stream);
    device = device_memory(1, 4096);
    OK(aclrtMemsetAsync(device, 4096, 7, 4096, stream));
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    REFUSED(aclrtFree(LOW_GARBAGE));
    THAT(aclGetRecentErrMsg() != NULL);
    OK(aclrtFree(device));
    all_are_set();
    return unused;
}

int main(void)
{
    pthread_t thread;
    while (count < MOST && pthread_key_create(&keys[count], destroy) == 0) {
        count++;
    }
    THAT(0 < count && count < MOST);
    OK(aclInit(NULL));
    THAT(pthread_create(&thread, NULL, use, NULL) == 0);
    THAT(pthread_join(thread, NULL) == 0);
    CHECK(destroyed, count);
    use(NULL);
    return finish("all other pthread keys are taken");
}
