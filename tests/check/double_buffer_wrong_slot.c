/* CHECK: FERRY-HOST-WRITE: a pipeline with two buffers, each with a stream of its own, waits for the other
 * slot's stream before it refills a slot. */
#include "kit.h"

enum { CHUNKS = 4, LEN = 8192 };

int main(void)
{
    begin();
    aclrtStream streams[2] = {new_stream(), new_stream()};
    unsigned char *slots[2] = {page_locked(LEN), page_locked(LEN)}, *device = device_memory(CHUNKS * LEN);
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        int slot = chunk % 2;
        if (chunk >= 2) {
            TRY(aclrtSynchronizeStream(streams[PICK(1 - slot, slot)]));
        }
        memset(slots[slot], chunk, LEN); /* ACCESS */
        TRY(aclrtMemcpyAsync(device + chunk * LEN, LEN, slots[slot], LEN, H2D, streams[slot])); /* WORK */
    }
    return finish();
}
