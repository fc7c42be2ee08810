/*
 * What torch_npu 2.14.0 needs to be loaded, and what happens then: this program is linked with the same
 * libraries, wants the same names when it is loaded, makes the same objects, and runs an operator, which
 * fails and goes on failing.
 */
#include "../c/kit.h"

#include <dlfcn.h>
#include <sys/wait.h>

/* Wanted by the loader before the program begins, as by an object that is linked with -z now. */
#define WANTED(name) __asm__(".pushsection .data.rel,\"aw\"\n.balign 8\n.quad " #name "\n.popsection");
WANTED(aclrtBinaryGetFunction)
WANTED(aclrtBinaryLoadFromData) WANTED(aclrtCreateEventExWithFlag) WANTED(aclrtCreateStream) WANTED(
    aclrtCreateStreamWithConfig) WANTED(aclrtDestroyEvent) WANTED(aclrtDestroyStream)
    WANTED(aclrtDeviceCanAccessPeer) WANTED(aclrtDeviceEnablePeerAccess) WANTED(
        aclrtDeviceGetBareTgid) WANTED(aclrtEventElapsedTime) WANTED(aclrtFree) WANTED(aclrtFreeHost)
        WANTED(aclrtFreePhysical) WANTED(aclrtGetCurrentContext) WANTED(aclrtGetDevice) WANTED(
            aclrtGetDeviceCount) WANTED(aclrtGetFunctionAddr) WANTED(aclrtGetMemInfo) WANTED(aclrtGetSocName)
            WANTED(aclrtMalloc) WANTED(aclrtMallocHost) WANTED(aclrtMallocPhysical) WANTED(aclrtMapMem)
                WANTED(aclrtMemExportToShareableHandle) WANTED(aclrtMemImportFromShareableHandle) WANTED(
                    aclrtMemSetPidToShareableHandle) WANTED(aclrtMemcpy) WANTED(aclrtMemcpyAsync)
                    WANTED(aclrtMemset) WANTED(aclrtProcessReport) WANTED(aclrtRecordEvent) WANTED(
                        aclrtReleaseMemAddress) WANTED(aclrtReserveMemAddress) WANTED(aclrtResetDevice)
                        WANTED(aclrtResetEvent) WANTED(aclrtSetCurrentContext) WANTED(aclrtSetDevice) WANTED(
                            aclrtStreamWaitEvent) WANTED(aclrtSynchronizeEvent) WANTED(aclrtSynchronizeStream)
                            WANTED(aclrtUnmapMem) WANTED(aclInit) WANTED(aclFinalize) WANTED(
                                aclGetRecentErrMsg) WANTED(aclopCompileAndExecute) WANTED(aclopCreateAttr)
                                WANTED(aclopDestroyAttr) WANTED(aclopSetAttrBool) WANTED(
                                    aclopSetAttrInt) WANTED(aclopSetAttrFloat) WANTED(aclopSetAttrString)
                                    WANTED(aclopSetAttrDataType) WANTED(aclopSetAttrListBool) WANTED(
                                        aclopSetAttrListInt) WANTED(aclopSetAttrListFloat)
                                        WANTED(aclopSetAttrListListInt) WANTED(aclCreateTensorDesc) WANTED(
                                            aclDestroyTensorDesc) WANTED(aclGetTensorDescType)
                                            WANTED(aclGetTensorDescFormat) WANTED(
                                                aclGetTensorDescNumDims) WANTED(aclGetTensorDescDimV2)
                                                WANTED(aclSetTensorShape) WANTED(aclSetTensorFormat) WANTED(
                                                    aclSetTensorPlaceMent) WANTED(aclSetTensorDescName)
                                                    WANTED(aclCreateDataBuffer) WANTED(aclDestroyDataBuffer)
                                                        WANTED(aclmdlInitDump) WANTED(aclmdlSetDump) WANTED(
                                                            aclmdlFinalizeDump) WANTED(aclAppLog)
                                                            WANTED(aclGetDeviceCapability) WANTED(
                                                                MsprofRegisterCallback)
                                                                WANTED(MsprofReportApi) WANTED(
                                                                    MsprofReportCompactInfo)
                                                                    WANTED(MsprofReportAdditionalInfo) WANTED(
                                                                        MsprofSysCycleTime)
                                                                        WANTED(MsprofGetHashId) WANTED(
                                                                            rtDevBinaryRegister)
                                                                            WANTED(rtFunctionRegister)
                                                                                WANTED(rtKernelLaunch)
                                                                                    WANTED(rtGetC2cCtrlAddr)

    /* By name, so that the program also builds where headers declare them. */
    static void *names;
#define FUNCTION(name) ((type_##name)function(#name))

static void (*function(const char *name))(void)
{
    union {
        void *object;
        void (*code)(void);
    } found;
    found.object = dlsym(names, name);
    if (found.object == NULL) {
        fprintf(stderr, "%s is not there\n", name);
    }
    THAT(found.object != NULL);
    return found.code;
}

typedef void *(*type_aclCreateTensorDesc)(int, int, const int64_t *, int);
typedef void (*type_aclDestroyTensorDesc)(const void *);
typedef int (*type_aclGetTensorDescType)(const void *);
typedef int (*type_aclGetTensorDescFormat)(const void *);
typedef size_t (*type_aclGetTensorDescNumDims)(const void *);
typedef aclError (*type_aclGetTensorDescDimV2)(const void *, size_t, int64_t *);
typedef aclError (*type_aclSetTensorShape)(void *, int, const int64_t *);
typedef aclError (*type_aclSetTensorFormat)(void *, int);
typedef aclError (*type_aclSetTensorPlaceMent)(void *, int);
typedef void (*type_aclSetTensorDescName)(void *, const char *);
typedef void *(*type_aclCreateDataBuffer)(void *, size_t);
typedef aclError (*type_aclDestroyDataBuffer)(const void *);
typedef void *(*type_aclopCreateAttr)(void);
typedef void (*type_aclopDestroyAttr)(const void *);
typedef aclError (*type_aclopSetAttrBool)(void *, const char *, uint8_t);
typedef aclError (*type_aclopSetAttrString)(void *, const char *, const char *);
typedef aclError (*type_aclopSetAttrListInt)(void *, const char *, int, const int64_t *);
typedef aclError (*type_aclopSetAttrListListInt)(void *, const char *, int, const int *,
                                                 const int64_t *const *);
typedef aclError (*type_aclSetCompileopt)(int, const char *);
typedef aclError (*type_aclopCompileAndExecute)(const char *, int, const void *const *, const void *const *,
                                                int, const void *const *, void *const *, const void *, int,
                                                int, const char *, aclrtStream);
typedef aclError (*type_aclrtBinaryLoadFromData)(const void *, size_t, const void *, void **);
typedef int (*type_rtKernelLaunch)(const void *, uint32_t, void *, uint32_t, void *, aclrtStream);
typedef aclError (*type_aclmdlInitDump)(void);
typedef aclError (*type_aclmdlFinalizeDump)(void);
typedef uint64_t (*type_MsprofSysCycleTime)(void);
typedef uint64_t (*type_MsprofGetHashId)(const char *, size_t);

/* A code, and a message that has this word; no message of an earlier call. */
static void refused(aclError got, aclError code, const char *word)
{
    const char *message;
    CHECK(got, code);
    message = aclGetRecentErrMsg();
    if (message == NULL || strstr(message, word) == NULL) {
        fprintf(stderr, "the message has no '%s': %s\n", word, message != NULL ? message : "(none)");
        THAT(0);
    }
}

static void only_what_works_is_in_the_library(void)
{
    static const char *const companions[] = {"libhccl.so", "libacl_op_compiler.so", "libge_runner.so",
                                             "libgraph.so", "libacl_tdt_channel.so"};
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
    size_t i;
    THAT(library != NULL);
    THAT(dlsym(library, "aclrtMemcpyAsync") != NULL);
    THAT(dlsym(library, "aclopCompileAndExecute") == NULL && dlsym(library, "aclCreateTensorDesc") == NULL);
    for (i = 0; i < sizeof companions / sizeof *companions; i++) {
        void *companion = dlopen(companions[i], RTLD_NOW | RTLD_NOLOAD);
        THAT(companion != NULL);
        THAT(dlsym(companion, "aclrtMemcpyAsync") == dlsym(library, "aclrtMemcpyAsync"));
    }
    names = dlopen("libacl_op_compiler.so", RTLD_NOW);
    /* Whoever finds it calls it in place of the other; without it, each call of that kind is refused by
     * the caller. */
    THAT(dlsym(names, "aclopCompileAndExecuteV2") == NULL);
}

static void descriptors(void)
{
    const int64_t dims[] = {2, 3, 5}, other[] = {7};
    int64_t dim = -1;
    void *desc = FUNCTION(aclCreateTensorDesc)(ACL_FLOAT, 3, dims, 2), *none;
    THAT(desc != NULL && FUNCTION(aclGetTensorDescType)(desc) == ACL_FLOAT &&
         FUNCTION(aclGetTensorDescFormat)(desc) == 2);
    THAT(FUNCTION(aclGetTensorDescNumDims)(desc) == 3);
    OK(FUNCTION(aclGetTensorDescDimV2)(desc, 2, &dim));
    THAT(dim == 5);
    refused(FUNCTION(aclGetTensorDescDimV2)(desc, 3, &dim), ACL_ERROR_INVALID_PARAM,
            "index is 3 of 3 dimensions");
    refused(FUNCTION(aclGetTensorDescDimV2)(desc, 0, NULL), ACL_ERROR_INVALID_PARAM, "dimSize is NULL");
    OK(FUNCTION(aclSetTensorShape)(desc, 1, other));
    OK(FUNCTION(aclSetTensorFormat)(desc, 29));
    OK(FUNCTION(aclSetTensorPlaceMent)(desc, 1));
    FUNCTION(aclSetTensorDescName)(desc, "x");
    OK(FUNCTION(aclGetTensorDescDimV2)(desc, 0, &dim));
    THAT(dim == 7 && FUNCTION(aclGetTensorDescNumDims)(desc) == 1 &&
         FUNCTION(aclGetTensorDescFormat)(desc) == 29);
    refused(FUNCTION(aclSetTensorShape)(desc, 4, (const int64_t *)LOW_GARBAGE), ACL_ERROR_INVALID_PARAM,
            "dims");
    refused(FUNCTION(aclSetTensorShape)(desc, -1, dims), ACL_ERROR_INVALID_PARAM, "-1 elements of dims");
    none = FUNCTION(aclCreateTensorDesc)(ACL_DT_UNDEFINED, 0, NULL, -1);
    THAT(none != NULL && none != desc && FUNCTION(aclGetTensorDescNumDims)(none) == 0);
    FUNCTION(aclDestroyTensorDesc)(none);
    FUNCTION(aclDestroyTensorDesc)(NULL);
    THAT(FUNCTION(aclCreateTensorDesc)(ACL_FLOAT, 2, NULL, 2) == NULL);
    FUNCTION(aclDestroyTensorDesc)(desc);
    THAT(FUNCTION(aclGetTensorDescType)(desc) == ACL_DT_UNDEFINED);
    THAT(strstr(aclGetRecentErrMsg(), "no tensor descriptor, or one that was destroyed") != NULL);
}

static void handles_live_once(void)
{
    enum { MANY = 1000 };
    static void *buffers[MANY];
    void *stale, *attr = FUNCTION(aclopCreateAttr)(), *wrong[] = {LOW_GARBAGE, HIGH_GARBAGE, attr, &stale};
    size_t i, j;
    for (i = 0; i < MANY; i++) {
        buffers[i] = FUNCTION(aclCreateDataBuffer)(NULL, 0);
        THAT(buffers[i] != NULL);
    }
    stale = buffers[7];
    OK(FUNCTION(aclDestroyDataBuffer)(stale));
    buffers[7] = FUNCTION(aclCreateDataBuffer)(&i, sizeof i);
    THAT(buffers[7] != stale);
    refused(FUNCTION(aclDestroyDataBuffer)(stale), ACL_ERROR_INVALID_PARAM, "destroyed");
    for (j = 0; j < sizeof wrong / sizeof *wrong; j++) {
        refused(FUNCTION(aclDestroyDataBuffer)(wrong[j]), ACL_ERROR_INVALID_PARAM, "no data buffer");
    }
    for (i = 0; i < MANY; i++) {
        OK(FUNCTION(aclDestroyDataBuffer)(buffers[i]));
    }
    FUNCTION(aclopDestroyAttr)(attr);
}

static void *makes_descriptors(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        FUNCTION(aclDestroyTensorDesc)(FUNCTION(aclCreateTensorDesc)(ACL_FLOAT, 0, NULL, 2));
    }
    return NULL;
}

/* Workers of a DataLoader are forked while torch_npu's thread prepares operators. */
static void a_forked_child_does_not_wait_for_the_parents_threads(void)
{
    int stop = 0, status = 0, i;
    pthread_t thread;
    THAT(pthread_create(&thread, NULL, makes_descriptors, &stop) == 0);
    for (i = 0; i < 200; i++) {
        pid_t child = fork();
        THAT(child >= 0);
        if (child == 0) {
            alarm(30); /* one that waits has to end somehow */
            _exit(FUNCTION(aclCreateTensorDesc)(ACL_FLOAT, 0, NULL, 2) == NULL);
        }
        THAT(waitpid(child, &status, 0) == child);
        CHECK(status, 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    THAT(pthread_join(thread, NULL) == 0);
}

static void attributes(void)
{
    const int64_t one[] = {1, 2}, two[] = {3};
    const int64_t *const lists[] = {one, two}, *const bad[] = {one, (const int64_t *)HIGH_GARBAGE};
    const int counts[] = {2, 1};
    void *attr = FUNCTION(aclopCreateAttr)();
    OK(FUNCTION(aclopSetAttrBool)(attr, "keep_dims", 1));
    OK(FUNCTION(aclopSetAttrString)(attr, "mode", "nearest"));
    OK(FUNCTION(aclopSetAttrListInt)(attr, "axes", 2, one));
    OK(FUNCTION(aclopSetAttrListInt)(attr, "axes", 0, NULL));
    OK(FUNCTION(aclopSetAttrListListInt)(attr, "pads", 2, counts, lists));
    refused(FUNCTION(aclopSetAttrListListInt)(attr, "pads", 2, counts, bad), ACL_ERROR_INVALID_PARAM,
            "a list of values");
    refused(FUNCTION(aclopSetAttrBool)(attr, NULL, 1), ACL_ERROR_INVALID_PARAM, "attrName is NULL");
    refused(FUNCTION(aclopSetAttrBool)(NULL, "keep_dims", 1), ACL_ERROR_INVALID_PARAM,
            "no list of attributes");
    FUNCTION(aclopDestroyAttr)(attr);
    refused(FUNCTION(aclopSetAttrBool)(attr, "keep_dims", 1), ACL_ERROR_INVALID_PARAM, "destroyed");
}

static void what_it_cannot_do(void)
{
    void *handle = &handle;
    refused(FUNCTION(aclrtBinaryLoadFromData)("", 1, NULL, &handle), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "no kernels");
    THAT(handle == NULL);
    refused(FUNCTION(rtKernelLaunch)(NULL, 1, NULL, 0, NULL, NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "no kernels");
    refused(FUNCTION(aclmdlInitDump)(), ACL_ERROR_API_NOT_SUPPORT, "no operators");
    OK(FUNCTION(aclmdlFinalizeDump)());
    OK(FUNCTION(aclSetCompileopt)(10, "disable"));
    THAT(FUNCTION(MsprofSysCycleTime)() <= FUNCTION(MsprofSysCycleTime)());
    THAT(FUNCTION(MsprofGetHashId)("Add", 3) != FUNCTION(MsprofGetHashId)("Mul", 3));
}

static aclError run_operator(aclrtStream stream)
{
    return FUNCTION(aclopCompileAndExecute)("Add", 0, NULL, NULL, 0, NULL, NULL, NULL, 0, 0, NULL, stream);
}

static void an_operator_fails_and_goes_on_failing(void)
{
    enum { LEN = 4096, CODE = ACL_ERROR_API_NOT_SUPPORT };
    unsigned char *from = pinned(1, LEN), *to = device_memory(2, LEN);
    aclrtStream stream = NULL, other = NULL;
    aclrtEvent event = NULL;
    aclrtStreamStatus status;
    int round;
    CHECK(run_operator((aclrtStream)LOW_GARBAGE), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtSynchronizeDevice());
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&event));
    OK(aclrtMemcpyAsync(to, LEN, from, LEN, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    for (round = 0; round < 2; round++) {
        refused(run_operator(stream), CODE,
                "200001 ACL_ERROR_API_NOT_SUPPORT: operator Add: this runtime copies memory and has no "
                "operators; ferry run --torch has the CPU run them, or set TASK_QUEUE_ENABLE=0 for the "
                "Python line");
        CHECK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), CODE);
        refused(aclrtSynchronizeStream(stream), CODE, "operator Add");
        CHECK(aclrtSynchronizeStreamWithTimeout(other, 1000), CODE);
        CHECK(aclrtSynchronizeDevice(), CODE);
        CHECK(aclrtSynchronizeDeviceWithTimeout(1000), CODE);
        CHECK(aclrtSynchronizeStream(NULL), CODE);
        CHECK(aclrtStreamQuery(stream, &status), CODE);
        refused(aclrtMemcpyAsync(to, LEN, from, LEN, H2D, other), CODE, "take no more work");
        CHECK(aclrtRecordEvent(event, stream), CODE);
    }
    /* What was there before is there still, and memory can be given back. */
    HOLDS(to, 1, LEN);
    OK(aclrtFree(to));
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    to = device_memory(2, LEN);
    OK(aclrtMemcpyAsync(to, LEN, from, LEN, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeDevice());
    HOLDS(to, 1, LEN);
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(to));
    OK(aclrtFreeHost(from));
}

static void other_devices_go_on(void)
{
    uint32_t count = 0;
    OK(aclrtGetDeviceCount(&count));
    if (count < 2) {
        return;
    }
    CHECK(run_operator(NULL), ACL_ERROR_API_NOT_SUPPORT);
    OK(aclrtSetDevice(1));
    OK(aclrtSynchronizeDevice());
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(0));
    CHECK(aclrtSynchronizeDevice(), ACL_ERROR_API_NOT_SUPPORT);
    OK(aclrtResetDevice(0));
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtSynchronizeDevice());
}

int main(void)
{
    begin();
    only_what_works_is_in_the_library();
    descriptors();
    handles_live_once();
    a_forked_child_does_not_wait_for_the_parents_threads();
    attributes();
    what_it_cannot_do();
    an_operator_fails_and_goes_on_failing();
    other_devices_go_on();
    return finish("what torch_npu needs to be loaded, and an operator that fails");
}
