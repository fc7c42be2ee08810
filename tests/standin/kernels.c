// The kernels of the cuda backend as C functions: the same names, the same arguments, the same effect; plain loops, and
// nothing of how a GPU does it. Whoever adds a kernel adds its twin here: a function, and a line in the table.
// Each address of a device goes through `reach`, which ends the kernel where a GPU would fault.
#include "standin.h"

#include <string.h>

// As in kernels.cu.
typedef struct {
    u64 ticket;
    u64 words[5];
    u64 spare[2];
} Report;

typedef struct {
    u64 written;
    u64 taken;
    u64 room;
    u64 spare[5];
    Report reports[];
} Reports;

static void report(u64 addr, u64 ticket, const u64 *words)
{
    Reports *ring = reach(addr, sizeof(Reports));
    u64 written = ring->written;
    if (written - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) >= ring->room) {
        return;
    }
    Report *slot = &ring->reports[written % ring->room];
    slot->ticket = ticket;
    memcpy(slot->words, words, sizeof slot->words);
    __atomic_store_n(&ring->written, written + 1, __ATOMIC_RELEASE);
}

static u64 digest(u64 key, u64 src, u64 dst, u64 len)
{
    u64 fields[3] = {src, dst, len}, sum = key;
    for (int i = 0; i < 3; i++) {
        u64 mixed = (sum ^ fields[i]) * 0x9e3779b97f4a7c15ull;
        sum = mixed ^ (mixed >> 32);
    }
    return sum;
}

static void move(u64 dst, u64 src, u64 len)
{
    if (len) {
        memmove(reach(dst, len), reach(src, len), len);
    }
}

static void ferry_move(const Launch *launch)
{
    move(ARG(launch, 0, u64), ARG(launch, 1, u64), ARG(launch, 2, u64));
}

static void ferry_copy_sealed(const Launch *launch)
{
    u64 words[5], mark = ARG(launch, 1, u64), key = ARG(launch, 2, u64);
    memcpy(words, reach(ARG(launch, 0, u64), sizeof words), sizeof words);
    if (words[0] == mark && words[4] == digest(key, words[1], words[2], words[3])) {
        move(words[2], words[1], words[3]);
    } else {
        report(ARG(launch, 3, u64), ARG(launch, 4, u64), words);
    }
}

const Kernel kernels[] = {
    {"ferry_move", {8, 8, 8}, ferry_move},
    {"ferry_copy_sealed", {8, 8, 8, 8, 8}, ferry_copy_sealed},
    {0},
};
