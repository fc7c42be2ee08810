// Another library has taken every pthread key before this one is loaded: calls answer with a code and touch
// no value of the other library's, threads end as they should, and once there are keys again the calls work.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// Without the headers' functions: the program must not be linked with the library.
#define THAT(fact)                                                                       \
    do {                                                                                 \
        if (!(fact)) {                                                                   \
            fprintf(stderr, "%s:%d: expected to hold: %s\n", __FILE__, __LINE__, #fact); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

enum { MOST = 4096, NO_RESOURCE = 207005 };

typedef int (*on_device)(int);

static pthread_key_t keys[MOST];
static int count, wanted;
static on_device set_device, reset_device;

static void *call(void *unused)
{
    int i;
    for (i = 0; i < count; i++) {
        THAT(pthread_setspecific(keys[i], keys) == 0);
    }
    THAT(set_device(0) == wanted);
    THAT(set_device(0) == wanted);
    for (i = 0; i < count; i++) {
        THAT(pthread_getspecific(keys[i]) == (void *)keys);
    }
    return unused;
}

static void call_in_a_thread(int code)
{
    pthread_t thread;
    wanted = code;
    THAT(pthread_create(&thread, NULL, call, NULL) == 0);
    THAT(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    void *library;
    int freed;
    while (count < MOST && pthread_key_create(&keys[count], NULL) == 0) {
        count++;
    }
    library = dlopen("libascendcl.so", RTLD_NOW);
    THAT(library != NULL);
    *(void **)&set_device = dlsym(library, "aclrtSetDevice");
    *(void **)&reset_device = dlsym(library, "aclrtResetDevice");
    THAT(set_device != NULL && reset_device != NULL);
    call_in_a_thread(NO_RESOURCE);
    wanted = NO_RESOURCE, call(NULL);
    THAT(pthread_key_delete(keys[--count]) == 0);
    call_in_a_thread(NO_RESOURCE); // one is not enough
    for (freed = 0; freed < 8; freed++) {
        THAT(pthread_key_delete(keys[--count]) == 0);
    }
    call_in_a_thread(0);
    wanted = 0, call(NULL);
    THAT(reset_device(0) == 0);
    printf("ok: no pthread key is left\n");
    return 0;
}
