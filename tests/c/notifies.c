// proves: Y2 Y3 Y5 Y6 Y7 Y8 Y9
// Notifies: one record releases one wait, before or after it; what is taken back, what takes too long, and
// what another process records.
#include "pair_kit.h"

enum { LEN = 4096, KEY = 65 };

static struct gate gate = GATE;
static aclrtStream one, two;

static aclrtNotify notify_of(uint64_t flag)
{
    aclrtNotify notify = NULL;
    OK(aclrtCreateNotify(&notify, flag));
    THAT(notify != NULL);
    return notify;
}

static void record(aclrtNotify notify, aclrtStream stream)
{
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtSynchronizeStream(stream));
}

static void stands(aclrtStream stream)
{
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

// The second stream copies what the first has written; its wait comes first.
static void they_order_streams(void)
{
    aclrtNotify notify = notify_of(ACL_NOTIFY_DEFAULT);
    unsigned char *from = pinned(1, LEN), *to = pinned(2, LEN), *old = pageable(2, LEN),
                  *device = device_memory(3, LEN);
    gate_shut(&gate, one);
    OK(aclrtWaitAndResetNotify(notify, two, 0));
    OK(aclrtMemcpyAsync(to, LEN, device, LEN, D2H, two));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one));
    OK(aclrtRecordNotify(notify, one));
    stands(two);
    SAME(to, old, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(two));
    SAME(to, from, LEN);
    OK(aclrtSynchronizeStream(one));
    OK(aclrtDestroyNotify(notify));
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(old);
    OK(aclrtFree(device));
}

// The state is one bit: records that no wait has used up are one.
static void one_record_releases_one_wait(void)
{
    aclrtNotify notify = notify_of(ACL_NOTIFY_DEVICE_USE_ONLY), other = notify_of(ACL_NOTIFY_DEFAULT);
    uint32_t id = 0, other_id = 0;
    OK(aclrtGetNotifyId(notify, &id));
    OK(aclrtGetNotifyId(other, &other_id));
    THAT(id != other_id);
    record(notify, one);
    record(notify, one);
    OK(aclrtWaitAndResetNotify(notify, two, 0));
    OK(aclrtSynchronizeStream(two));
    OK(aclrtWaitAndResetNotify(notify, two, 0));
    stands(two);
    record(other, one); // another one releases nothing
    stands(two);
    record(notify, one);
    OK(aclrtSynchronizeStream(two));
    // Taken back.
    record(notify, one);
    OK(aclrtNotifyBatchReset(&notify, 1));
    OK(aclrtWaitAndResetNotify(notify, two, 1));
    CHECK(aclrtSynchronizeStream(two), ACL_ERROR_RT_WAIT_TIMEOUT);
    // A wait that is pending fails when its notify goes.
    OK(aclrtWaitAndResetNotify(notify, two, 0));
    stands(two);
    OK(aclrtDestroyNotify(notify));
    CHECK(aclrtSynchronizeStream(two), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtDestroyNotify(other));
}

static void refused_calls(void)
{
    aclrtNotify notify = notify_of(ACL_NOTIFY_DEFAULT), none = NULL;
    char key[KEY];
    REFUSED(aclrtCreateNotify(NULL, 0));
    REFUSED(aclrtCreateNotify(&none, 2));
    THAT(none == NULL);
    REFUSED(aclrtRecordNotify(NULL, one));
    REFUSED(aclrtNotifyBatchReset(&notify, 0));
    REFUSED(aclrtNotifyGetExportKey(notify, key, KEY - 1, 0));
    REFUSED(aclrtNotifyImportByKey(&none, "no key", 0));
    OK(aclrtDestroyNotify(notify));
    REFUSED(aclrtRecordNotify(notify, one));
    REFUSED(aclrtWaitAndResetNotify(notify, one, 0));
}

// The other process: started with the key and two pipe ends.
static int importer(const char *key, int from, int to)
{
    aclrtNotify notify = NULL;
    begin();
    OK(aclrtCreateStream(&one));
    REFUSED(aclrtNotifyImportByKey(&notify, key, 0));
    say(to);
    hear(from); // now it is listed
    OK(aclrtNotifyImportByKey(&notify, key, 0));
    REFUSED(aclrtWaitAndResetNotify(notify, one, 0)); // those who import it record it
    record(notify, one);
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyStream(one));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}

static void another_process_records(const char *program)
{
    aclrtNotify notify = notify_of(ACL_NOTIFY_DEFAULT);
    int there[2], back[2], status = -1;
    char key[KEY];
    pid_t child;
    int32_t listed;
    OK(aclrtNotifyGetExportKey(notify, key, sizeof key, 0));
    THAT(strlen(key) == KEY - 1);
    THAT(pipe(there) == 0 && pipe(back) == 0);
    child = start(program, key, there[0], back[1]);
    OK(aclrtWaitAndResetNotify(notify, two, 0));
    hear(back[0]);
    stands(two);
    listed = (int32_t)child;
    OK(aclrtNotifySetImportPid(notify, &listed, 1));
    say(there[1]);
    OK(aclrtSynchronizeStream(two));
    THAT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(aclrtDestroyNotify(notify));
}

int main(int count, char **words)
{
    if (count == 4) {
        return importer(words[1], atoi(words[2]), atoi(words[3]));
    }
    begin();
    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&two));
    they_order_streams();
    one_record_releases_one_wait();
    refused_calls();
    another_process_records(words[0]);
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(two));
    return finish("notifies");
}
