// 02: one call for any host memory, with aclrtMemcpyAsyncWithCondition.
//
// The call looks at the host memory that it is given. Did acl allocate it (aclrtMallocHost), then the copy is
// only handed over to the stream and the call returns at once. Is it any other memory (malloc, an array, a
// mapped file), then the call returns when the copy is done, so that the memory may be changed or freed right
// away. Code that does not know where its memory comes from can use it for both.
#include "try.h"

enum { COUNT = 1000, BYTES = COUNT * sizeof(int) };

int main(void)
{
    void *locked = NULL, *device = NULL;
    int *numbers, *back;
    aclrtStream stream = NULL;
    aclError code;
    int i;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));
    TRY(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));

    // Ordinary memory: when the call is back, the copy is done, and the memory may go.
    numbers = (int *)malloc(BYTES);
    if (numbers == NULL) {
        return 1;
    }
    for (i = 0; i < COUNT; i++) {
        numbers[i] = i * i;
    }
    TRY(aclrtMemcpyAsyncWithCondition(device, BYTES, numbers, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    free(numbers);
    printf("ordinary memory: copied when the call came back\n");

    // Page-locked memory: the call hands the copy over; the numbers are there after the synchronise.
    // ACL_MEMCPY_DEFAULT leaves it to the library to see from the two addresses which way to go.
    TRY(aclrtMallocHost(&locked, BYTES));
    back = (int *)locked;
    memset(back, 0, BYTES);
    TRY(aclrtMemcpyAsyncWithCondition(back, BYTES, device, BYTES, ACL_MEMCPY_DEFAULT, stream));
    TRY(aclrtSynchronizeStream(stream));
    printf("page-locked memory: handed over, and there after the synchronise\n");
    for (i = 0; i < COUNT; i++) {
        if (back[i] != i * i) {
            fprintf(stderr, "number %d is %d\n", i, back[i]);
            return 1;
        }
    }

    // What does not work: a copy inside the host. There is memcpy for that. Every failed call leaves a
    // message that says what was wrong.
    code = aclrtMemcpyAsyncWithCondition(back, BYTES, back, BYTES, ACL_MEMCPY_HOST_TO_HOST, stream);
    if (code != ACL_ERROR_RT_FEATURE_NOT_SUPPORT) {
        fprintf(stderr, "host to host returned %d\n", code);
        return 1;
    }
    printf("host to host: refused with %d. The message:\n%s\n", code, aclGetRecentErrMsg());

    TRY(aclrtFreeHost(locked));
    TRY(aclrtFree(device));
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    printf("ok: %d numbers there and back\n", COUNT);
    return 0;
}
