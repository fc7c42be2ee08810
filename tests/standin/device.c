// Devices, contexts, modules, settings and error texts.
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16, DEPTH = 64, NAME = 64 };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Device devices[MOST_DEVICES];
int device_count;
volatile bool is_over;
u64 jitter, ways, full_blocks;
static bool is_ready, is_forked;
_Thread_local bool in_callback;
// Contexts that this thread has pushed; a context is its device.
static _Thread_local Device *contexts[DEPTH];
static _Thread_local int depth;

// Settings
// ---------------------------------------------------------------------------------------------------------

u64 setting(const char *name, u64 otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

typedef struct {
    char what[NAME];
    u64 turn, seen;
    Code code;
} Failure;

static Failure failures[16];

// Whether every later call fails with this code, as after a fault of a kernel.
static bool loses_the_device(Code code)
{
    switch (code) {
    case DEVICE_UNAVAILABLE:
    case ECC_UNCORRECTABLE:
    case ILLEGAL_ADDRESS:
    case LAUNCH_TIMEOUT:
    case CONTEXT_IS_DESTROYED:
    case LAUNCH_FAILED:
    case UNKNOWN:
        return true;
    default:
        return false;
    }
}

static void read_failures(void)
{
    const char *text = getenv("STANDIN_FAIL");
    for (int i = 0; text && *text && i < 16; i++) {
        Failure *next = &failures[i];
        unsigned long long turn = 0;
        if (sscanf(text, "%63[^:]:%llu:%d", next->what, &turn, &next->code) != 3) {
            fprintf(stderr, "stand-in: STANDIN_FAIL is not what:n:code but %s\n", text);
            abort();
        }
        if (strcmp(next->what, "work") == 0 && !loses_the_device(next->code)) {
            fprintf(stderr, "stand-in: work that fails loses its device, which %d does not\n", next->code);
            abort();
        }
        next->turn = turn;
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
}

Code injected(const char *what)
{
    Code code = OK;
    for (Failure *next = failures; next < failures + 16 && next->turn; next++) {
        if (strcmp(next->what, what) == 0 &&
            __atomic_add_fetch(&next->seen, 1, __ATOMIC_RELAXED) == next->turn) {
            code = next->code;
        }
    }
    return code;
}

// What was called
// -------------------------------------------------------------------------------------------------

enum { MOST_CALLS = 128 };

typedef struct {
    const char *name;
    u64 count;
} Calls;

static Calls calls[MOST_CALLS];

// The place of a name, which the first call of it takes.
static Calls *find_calls(const char *name, bool takes)
{
    for (Calls *next = calls; next < calls + MOST_CALLS; next++) {
        const char *there = __atomic_load_n(&next->name, __ATOMIC_ACQUIRE), *none = NULL;
        if (!there && takes &&
            __atomic_compare_exchange_n(&next->name, &none, name, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            return next;
        }
        there = __atomic_load_n(&next->name, __ATOMIC_ACQUIRE);
        if (!there || there == name || strcmp(there, name) == 0) {
            return there ? next : NULL;
        }
    }
    return NULL;
}

static void count_call(const char *name)
{
    Calls *found = find_calls(name, true);
    if (found) {
        __atomic_add_fetch(&found->count, 1, __ATOMIC_RELAXED);
    }
}

u64 cuStandinCalls(const char *name)
{
    const Calls *found = find_calls(name, false);
    return found ? __atomic_load_n(&found->count, __ATOMIC_RELAXED) : 0;
}

// The start and the end
// --------------------------------------------------------------------------------------------

static void at_exit(void)
{
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
}

static void in_child(void)
{
    is_forked = true;
}

static void start(void)
{
    read_failures();
    jitter = setting("STANDIN_JITTER", 0);
    full_blocks = setting("STANDIN_FULL_BLOCKS", 0);
    ways = setting("STANDIN_WAYS", 0);
    ways = ways > 64 ? 64 : ways;
    u64 count = setting("STANDIN_DEVICES", 1);
    for (device_count = 0; (u64)device_count < count && device_count < MOST_DEVICES; device_count++) {
        Device *device = &devices[device_count];
        device->number = device_count;
        device->total = setting("STANDIN_MEMORY", (u64)16 << 30);
        if (!open_arena(device)) {
            perror("stand-in: an arena");
            abort();
        }
    }
    atexit(at_exit);
    pthread_atfork(NULL, NULL, in_child);
    is_ready = true;
}

static Code basics(const char *call)
{
    count_call(call);
    if (is_forked || !is_ready) {
        return NOT_INITIALIZED;
    }
    if (__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        return DEINITIALIZED;
    }
    return in_callback ? NOT_PERMITTED : injected(call);
}

Code enter(const char *call, Device **device)
{
    Code code = basics(call);
    if (code == OK && depth == 0) {
        return INVALID_CONTEXT;
    }
    if (depth > 0) {
        *device = contexts[depth - 1];
        lose(*device, code);
    }
    return code != OK ? code : lost(*device);
}

Code lost(Device *device)
{
    return __atomic_load_n(&device->lost, __ATOMIC_SEQ_CST);
}

void lose(Device *device, Code code)
{
    Code none = OK;
    if (loses_the_device(code)) {
        __atomic_compare_exchange_n(&device->lost, &none, code, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
}

Code cuInit(u32 flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (flags != 0) {
        return INVALID_VALUE;
    }
    pthread_once(&once, start);
    return basics("cuInit");
}

Code cuDriverGetVersion(int *version)
{
    *version = 13000;
    return OK;
}

// Devices
// ----------------------------------------------------------------------------------------------------------

Code cuDeviceGetCount(int *count)
{
    *count = device_count;
    return basics("cuDeviceGetCount");
}

Code cuDeviceGet(int *device, int number)
{
    *device = number;
    return number < 0 || number >= device_count ? INVALID_DEVICE : basics("cuDeviceGet");
}

Code cuDeviceGetName(char *name, int len, int device)
{
    (void)device;
    snprintf(name, (size_t)len, "stand-in");
    return basics("cuDeviceGetName");
}

Code cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = devices[device].total;
    return basics("cuDeviceTotalMem");
}

// By their numbers: multiprocessors, unified addresses, the version of the architecture (9.0), host pointers
// as the device's for registered memory, and memory operations of streams.
Code cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) {
    case 16: *value = 8; break;
    case 75: *value = 9; break;
    case 41: case 91: case 92: case 94: case 123: *value = 1; break;
    case 122: *value = !setting("STANDIN_NO_WAITS", 0); break;
    default: *value = 0;
    }
    return basics("cuDeviceGetAttribute");
}

Code cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return basics("cuDeviceCanAccessPeer");
}

// Contexts: each device has one, and its handle is the device's address
// ---------------------------------------------

Code cuDevicePrimaryCtxRetain(Device **context, int device)
{
    *context = &devices[device];
    return basics("cuDevicePrimaryCtxRetain");
}

Code cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return basics("cuDevicePrimaryCtxRelease");
}

Code cuCtxPushCurrent_v2(Device *context)
{
    Code code = basics("cuCtxPushCurrent");
    if (code != OK) {
        return code;
    }
    if (context < devices || context >= devices + device_count) {
        return INVALID_CONTEXT;
    }
    if (depth == DEPTH) {
        fprintf(stderr, "stand-in: %d contexts pushed and none popped\n", DEPTH);
        abort();
    }
    contexts[depth++] = context;
    return OK;
}

Code cuCtxPopCurrent_v2(Device **context)
{
    count_call("cuCtxPopCurrent");
    // A thread may clean up whatever else is wrong.
    if (depth == 0) {
        return INVALID_CONTEXT;
    }
    *context = contexts[--depth];
    return OK;
}

Code cuCtxGetDevice(int *device)
{
    Device *here = NULL;
    Code code = enter("cuCtxGetDevice", &here);
    *device = here ? here->number : -1;
    return code;
}

Code cuCtxSynchronize(void)
{
    Device *here = NULL;
    Code code = enter("cuCtxSynchronize", &here);
    if (code != OK) {
        return code;
    }
    pthread_mutex_lock(&lock);
    drain(here);
    pthread_mutex_unlock(&lock);
    return lost(here);
}

Code cuCtxEnablePeerAccess(Device *peer, u32 flags)
{
    Device *here = NULL;
    (void)flags;
    Code code = enter("cuCtxEnablePeerAccess", &here);
    return code != OK ? code : peer == here ? INVALID_DEVICE : OK;
}

Code cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return OK;
}

// Modules: a module is its text, a function is its twin in kernels.c
// -----------------------------------------------

Code cuModuleLoadData(char **module, const char *text)
{
    Device *here = NULL;
    Code code = enter("cuModuleLoadData", &here);
    if (code != OK) {
        return code;
    }
    if (!strstr(text, ".version") || !strstr(text, ".entry ")) {
        return INVALID_PTX;
    }
    *module = strdup(text);
    return OK;
}

Code cuModuleUnload(char *module)
{
    free(module);
    return OK;
}

Code cuModuleGetFunction(const Kernel **function, const char *module, const char *name)
{
    char entry[NAME + 16];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (!strstr(module, entry)) {
        return NOT_FOUND;
    }
    for (*function = kernels; (*function)->name; ++*function) {
        if (strcmp((*function)->name, name) == 0) {
            return basics("cuModuleGetFunction");
        }
    }
    fprintf(stderr, "stand-in: tests/standin/kernels.c has no twin of the kernel %s\n", name);
    return NOT_FOUND;
}

// Shared memory is of no concern here.
Code cuFuncSetAttribute(const Kernel *function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    return basics("cuFuncSetAttribute");
}

// Errors
// -----------------------------------------------------------------------------------------------------------

static const struct {
    Code code;
    const char *name, *text;
} texts[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device busy or unavailable"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "invalid PTX"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal address"},
    {LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "launch timed out"},
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {HOST_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory already registered"},
    {HOST_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory not registered"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "launch failed"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static Code find_text(Code code, const char **text, bool is_name)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].code == code) {
            *text = is_name ? texts[i].name : texts[i].text;
            return OK;
        }
    }
    *text = NULL;
    return INVALID_VALUE;
}

Code cuGetErrorName(Code code, const char **name)
{
    return find_text(code, name, true);
}

Code cuGetErrorString(Code code, const char **text)
{
    return find_text(code, text, false);
}
