// 04: a copy whose addresses are read when it runs, with aclrtMemcpyAsyncWithDesc.
//
// A descriptor is a piece of device memory that says: from here, to there, so many bytes. The task that uses
// it looks into it when its turn comes, not when it is submitted. So the same submitted task can be pointed
// elsewhere, by the host or by a task that runs before it.
#include "try.h"

enum { BYTES = 256 };

// Device memory cannot be touched by the program; this copies it to where it can.
static int holds(const void *device, int value)
{
    unsigned char bytes[BYTES];
    int i;
    TRY(aclrtMemcpy(bytes, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (i = 0; i < BYTES; i++) {
        if (bytes[i] != value) {
            fprintf(stderr, "byte %d is %d, not %d\n", i, bytes[i], value);
            return 0;
        }
    }
    return 1;
}

int main(void)
{
    void *first = NULL, *second = NULL, *target = NULL, *desc = NULL, *spare = NULL;
    size_t size = 0;
    aclrtStream stream = NULL;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));

    // Step 1: how large is a descriptor? Step 2: device memory for it. We make two.
    TRY(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &size));
    printf("a descriptor takes %zu bytes\n", size);
    TRY(aclrtMalloc(&desc, size, ACL_MEM_MALLOC_HUGE_FIRST));
    TRY(aclrtMalloc(&spare, size, ACL_MEM_MALLOC_HUGE_FIRST));

    // Step 3: memory to copy from and to, all of it on the device.
    TRY(aclrtMalloc(&first, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    TRY(aclrtMalloc(&second, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    TRY(aclrtMalloc(&target, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    TRY(aclrtMemset(first, BYTES, 1, BYTES));
    TRY(aclrtMemset(second, BYTES, 2, BYTES));
    TRY(aclrtMemset(target, BYTES, 0, BYTES));

    // Step 4: fill the descriptors in. Mind the order: the source comes first here.
    TRY(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, first, target, BYTES, NULL));
    TRY(aclrtSetMemcpyDesc(spare, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, second, target, BYTES, NULL));

    // Step 5: copy.
    TRY(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    TRY(aclrtSynchronizeStream(stream));
    if (!holds(target, 1)) {
        return 1;
    }
    printf("copied what the descriptor pointed at\n");

    // A descriptor is plain bytes: an earlier task of the stream writes the spare one over it, and the copy
    // behind that task goes where the spare one says.
    TRY(aclrtMemcpyAsync(desc, size, spare, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    TRY(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    TRY(aclrtSynchronizeStream(stream));
    if (!holds(target, 2)) {
        return 1;
    }
    printf("copied what it pointed at when its turn came\n");

    TRY(aclrtFree(first));
    TRY(aclrtFree(second));
    TRY(aclrtFree(target));
    TRY(aclrtFree(desc));
    TRY(aclrtFree(spare));
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    printf("ok: one descriptor, two sources\n");
    return 0;
}
