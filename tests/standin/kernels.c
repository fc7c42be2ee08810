// The kernels of the cuda backend as C functions: the same names, the same arguments, the same effect; plain loops, and
// nothing of how a GPU does it. Whoever adds a kernel adds its twin here: a function, and a line in the table.
// Each address of a device goes through `reach`, which ends the kernel where a GPU would fault.
#include "standin.h"

#include <stdlib.h>
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

typedef struct {
    u64 dst;
    u64 src;
    u64 len;
} Entry;

// From the end: a list has no order, and nobody may rely on one.
static void copy_list(const Entry *list, u32 count)
{
    while (count--) {
        Entry entry = list[count];
        if (entry.len) {
            memcpy(reach(entry.dst, entry.len), reach(entry.src, entry.len), entry.len);
        }
    }
}

static void ferry_pieces(const Launch *launch)
{
    u32 count = ARG(launch, 1, u32);
    Entry *list = malloc(count * sizeof *list);
    memcpy(list, reach(ARG(launch, 0, u64), count * sizeof *list), count * sizeof *list);
    // The slot is the host's again when the list was read, not when its pieces are copied.
    __atomic_store_n((u64 *)reach(ARG(launch, 5, u64), 8), ARG(launch, 4, u64), __ATOMIC_RELEASE);
    copy_list(list, count);
    free(list);
}

static void ferry_pieces_inline(const Launch *launch)
{
    copy_list(&ARG(launch, 0, Entry), ARG(launch, 1, u32));
}

static void ferry_rows(const Launch *launch)
{
    const u64 *rows = &ARG(launch, 0, u64);
    for (u64 row = 0; row < rows[5]; row++) {
        u64 dst = rows[0] + row * rows[1], src = rows[2] + row * rows[3];
        memcpy(reach(dst, rows[4]), reach(src, rows[4]), rows[4]);
    }
}

const Kernel kernels[] = {
    {"ferry_move", {8, 8, 8}, ferry_move},
    {"ferry_copy_sealed", {8, 8, 8, 8, 8}, ferry_copy_sealed},
    {"ferry_pieces", {8, 4, 4, 4, 8, 8}, ferry_pieces},
    {"ferry_pieces_inline", {160 * sizeof(Entry), 4, 4}, ferry_pieces_inline},
    {"ferry_rows", {48}, ferry_rows},
    {0},
};
