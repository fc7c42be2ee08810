/* CHECK: FERRY-HOST-WRITE: a ring of three buffers waits for a slot's event only after it has refilled the
 * slot. */
#include "kit.h"

enum { CHUNKS = 7, SLOTS = 3, LEN = 5000 };

static unsigned char *slots[SLOTS];
static aclrtEvent sent[SLOTS];

static void refill(int chunk)
{
    unsigned *numbers = (unsigned *)(void *)slots[chunk % SLOTS];
    for (unsigned i = 0; i < LEN / sizeof *numbers; i++) {
        numbers[i] = i * (unsigned)chunk; /* ACCESS */
    }
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(CHUNKS * LEN);
    for (int i = 0; i < SLOTS; i++) {
        slots[i] = page_locked(LEN);
        sent[i] = new_event();
    }
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        int slot = chunk % SLOTS;
        FIX(if (chunk >= SLOTS) TRY(aclrtSynchronizeEvent(sent[slot]));)
        refill(chunk);
        BUG(if (chunk >= SLOTS) TRY(aclrtSynchronizeEvent(sent[slot]));)
        TRY(aclrtMemcpyAsync(device + chunk * LEN, LEN, slots[slot], LEN, H2D, stream)); /* WORK */
        TRY(aclrtRecordEvent(sent[slot], stream));
    }
    return finish();
}
