// The functions below AscendCL that transfer engines find by name in libascendcl.so, as those declare them:
// numbers of devices, peer access, copies whose kind nobody looks at, and memory between processes, for which
// this program starts itself again.
// proves: D26
#include "pair_kit.h"

#include <dlfcn.h>

enum { LEN = 1 << 16, NAME = 65 };

static int32_t (*bare_tgid)(uint32_t *pid);
static int32_t (*device_info)(uint32_t device, int32_t module, int32_t what, int64_t *value);
static int32_t (*set_name)(const void *ptr, uint64_t size, char *name, uint32_t len);
static int32_t (*set_pid)(const char *name, uint32_t sdid, int32_t *pids, int32_t count);
static int32_t (*open_memory)(void **ptr, const char *name);
static int32_t (*close_memory)(const void *ptr);
static int32_t (*destroy_name)(const char *name);
static int32_t (*enable_p2p)(uint32_t device, uint32_t physical, uint32_t flag);
static int32_t (*disable_p2p)(uint32_t device, uint32_t physical);
static int32_t (*logic_of_user)(const int32_t user, int32_t *logic);
static int32_t (*copy)(void *dst, uint64_t max, const void *src, uint64_t count, uint32_t kind,
                       aclrtStream stream);

// As the engines do it: one name that is missing, and they refuse to start.
static void look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    THAT(found != NULL);
    memcpy(function, &found, sizeof found);
}

static void look_all_up(void)
{
    void *library = dlopen("libascendcl.so", RTLD_NOW);
    THAT(library != NULL);
    look_up(library, "rtDeviceGetBareTgid", &bare_tgid);
    look_up(library, "rtGetDeviceInfo", &device_info);
    look_up(library, "rtIpcSetMemoryName", &set_name);
    look_up(library, "rtSetIpcMemorySuperPodPid", &set_pid);
    look_up(library, "rtIpcOpenMemory", &open_memory);
    look_up(library, "rtIpcCloseMemory", &close_memory);
    look_up(library, "rtIpcDestroyMemoryName", &destroy_name);
    look_up(library, "rtEnableP2P", &enable_p2p);
    look_up(library, "rtDisableP2P", &disable_p2p);
    look_up(library, "rtGetLogicDevIdByUserDevId", &logic_of_user);
    look_up(library, "rtMemcpyAsyncWithoutCheckKind", &copy);
}

static void numbers(void)
{
    static const struct {
        int32_t what;
        int64_t want;
    } rows[] = {{18, 1}, {19, 0}, {26, 1}, {27, 0x3ff}, {28, 0}, {29, 0xffffffff}, {30, 0}};
    uint32_t pid = 0;
    int64_t value = -1;
    int32_t logic = -1;
    size_t i;
    OK(bare_tgid(&pid));
    THAT(pid == (uint32_t)getpid());
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(device_info(1, 0, rows[i].what, &value));
        THAT(value == rows[i].want);
    }
    CHECK(device_info(1, 0, 17, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(device_info(1, 1, 18, &value), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(device_info(2, 0, 18, &value), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(device_info(1, 0, 18, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(bare_tgid(NULL), ACL_ERROR_INVALID_PARAM);
    OK(logic_of_user(1, &logic));
    THAT(logic == 1);
    CHECK(logic_of_user(2, &logic), ACL_ERROR_RT_INVALID_DEVICEID);
}

static void peers(void)
{
    int32_t status[2] = {-1, -1};
    OK(enable_p2p(0, 1, 0));
    OK(aclrtDevicePeerAccessStatus(0, 1, &status[0]));
    OK(aclrtDevicePeerAccessStatus(1, 0, &status[1]));
    THAT(status[0] == 1 && status[1] == 1);
    OK(disable_p2p(0, 1));
    OK(aclrtDevicePeerAccessStatus(0, 1, &status[0]));
    OK(aclrtDevicePeerAccessStatus(1, 0, &status[1]));
    THAT(status[0] == 0 && status[1] == 0);
    OK(enable_p2p(1, 1, 0)); // a device reaches itself
    CHECK(enable_p2p(0, 1, 1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(enable_p2p(2, 1, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(disable_p2p(0, 2), ACL_ERROR_RT_INVALID_DEVICEID);
}

static void copies(void)
{
    unsigned char *device = device_memory(1, LEN), *bytes = pageable(3, LEN);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(copy(device, LEN, bytes, LEN, 2, stream)); // says the other way
    OK(copy(device, LEN, bytes, LEN, 99, stream)); // says nothing at all
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 3, LEN);
    CHECK(copy(device, LEN - 1, bytes, LEN, 1, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(NULL, LEN, bytes, LEN, 1, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(device, LEN, bytes, LEN, 1, device), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(device));
    free(bytes);
}

static int importer(const char *name, int from, int to)
{
    void *memory = NULL;
    unsigned char *bytes = pageable(2, LEN);
    begin();
    CHECK(open_memory(&memory, name), ACL_ERROR_RT_NO_PERMISSION);
    say(to);
    hear(from); // now it is listed
    OK(open_memory(&memory, name));
    HOLDS(memory, 1, LEN);
    poke(memory, bytes, LEN);
    CHECK(destroy_name(name), ACL_ERROR_RT_PARAM_INVALID); // which is the exporter's
    CHECK(close_memory((char *)memory + 1), ACL_ERROR_RT_PARAM_INVALID);
    // with the marks that callers put there
    OK(close_memory((void *)((uintptr_t)memory | (uintptr_t)0x1234 << 48)));
    CHECK(close_memory(memory), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(close_memory(NULL), ACL_ERROR_INVALID_PARAM);
    say(to);
    free(bytes);
    return finish("rt, importer");
}

static void between_processes(const char *program)
{
    unsigned char *memory = device_memory(1, LEN);
    int down[2], up[2], status = 0;
    char name[NAME] = "";
    void *mine = NULL;
    pid_t child;
    int32_t pid;
    CHECK(set_name(memory, LEN, name, NAME - 1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(set_name(memory, 2 * LEN, name, NAME), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(set_name(NULL, LEN, name, NAME), ACL_ERROR_INVALID_PARAM);
    CHECK(set_name(memory, LEN, NULL, NAME), ACL_ERROR_INVALID_PARAM);
    OK(set_name(memory, LEN, name, NAME));
    THAT(strlen(name) == NAME - 1);
    THAT(pipe(down) == 0 && pipe(up) == 0);
    child = start(program, name, down[0], up[1]);
    THAT(close(down[0]) == 0 && close(up[1]) == 0); // if the other dies, hearing it fails
    hear(up[0]); // it was refused
    pid = (int32_t)child;
    CHECK(set_pid(name, 0, &pid, -1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(set_pid(name, 0, NULL, 1), ACL_ERROR_INVALID_PARAM);
    OK(set_pid(name, 7, &pid, 1));
    say(down[1]);
    hear(up[0]); // it has written, and closed what it had
    HOLDS(memory, 2, LEN);
    THAT(waitpid(child, &status, 0) == child);
    CHECK(status, 0);
    CHECK(close_memory(memory), ACL_ERROR_RT_PARAM_INVALID); // which was never imported
    OK(destroy_name(name));
    CHECK(destroy_name(name), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(open_memory(&mine, name), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(open_memory(NULL, name), ACL_ERROR_INVALID_PARAM);
    CHECK(open_memory(&mine, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtFree(memory));
}

int main(int argc, char **argv)
{
    look_all_up();
    if (argc == 4) {
        return importer(argv[1], atoi(argv[2]), atoi(argv[3]));
    }
    begin();
    numbers();
    peers();
    copies();
    between_processes(argv[0]);
    return finish("rt");
}
