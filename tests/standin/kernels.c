// The kernels of the cuda backend and of the benchmark as C functions: the same names, the same arguments,
// the same effect; plain loops, and nothing of how a GPU does it. Whoever adds a kernel adds its twin here: a
// function, and a line in the table. Each address of a device goes through `reach`, which ends the kernel
// where a GPU would fault.
#include "stream.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// As in sealed.cu.
enum { WORDS = 7, LIST_MAX = 4096, INLINE_MAX = 480 };

typedef struct {
    u64 ticket;
    u64 words[WORDS];
} DeviceError;

typedef struct {
    u64 written;
    u64 taken;
    u64 room;
    u64 spare[5];
    DeviceError errors[];
} ErrorRing;

static void report(u64 addr, u64 ticket, const u64 *words)
{
    ErrorRing *ring = reach(addr, sizeof(ErrorRing));
    u64 written = ring->written;
    if (written - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) >= ring->room) {
        return;
    }
    DeviceError *slot = &ring->errors[written % ring->room];
    slot->ticket = ticket;
    memcpy(slot->words, words, sizeof slot->words);
    __atomic_store_n(&ring->written, written + 1, __ATOMIC_RELEASE);
}

typedef struct {
    u32 count, spare[31];
    u32 closing, taken, done, spare2[29];
    u64 at[LIST_MAX];
} GrowingList;

typedef struct {
    u64 ticket, mark, key, errors, live, scratch, list;
    u32 count, odd;
    u64 at[INLINE_MAX];
} LaunchArgs;

// From here on the host adds nothing. How many descriptors there are.
static u32 close_list(GrowingList *list)
{
    __atomic_store_n(&list->closing, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    u32 count = __atomic_load_n(&list->count, __ATOMIC_SEQ_CST);
    __atomic_store_n(&list->taken, count + 1, __ATOMIC_SEQ_CST);
    return count;
}

static u64 digest(u64 key, const u64 *fields)
{
    u64 sum = key;
    for (int i = 0; i < WORDS - 2; i++) {
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

static bool is_alive(u64 live, u64 stamp)
{
    u32 slot = (u32)(stamp >> 32);
    if (slot == 0 || slot == ~0u) {
        return slot == 0;
    }
    return __atomic_load_n((u32 *)reach(live + 4 * (u64)slot, 4), __ATOMIC_SEQ_CST) == (u32)stamp;
}

// One after the other, which is what it must look like.
static void ferry_copy_sealed(const Launch *launch)
{
    const LaunchArgs *all = &ARG(launch, 0, LaunchArgs);
    GrowingList *list = all->list ? reach(all->list, sizeof(GrowingList)) : 0;
    u32 count = list ? close_list(list) : all->count;
    for (u32 number = 0; number < count; number++) {
        u64 words[WORDS], at = list ? list->at[number] : all->at[number];
        memcpy(words, reach(at, sizeof words), sizeof words);
        if (words[0] == all->mark && words[WORDS - 1] == digest(all->key, words + 1) &&
            is_alive(all->live, words[4]) && is_alive(all->live, words[5])) {
            move(words[2], words[1], words[3]);
        } else {
            report(all->errors, all->ticket + number, words);
        }
    }
    if (list) {
        __atomic_store_n(&list->done, 1, __ATOMIC_SEQ_CST);
    }
}

// As in reduce.cu: a type and a way, from which `what` is made.
enum { I8, I16, I32, U32, F16, BF16, F32 };
enum { SUM, MAX, MIN };

static const u8 sizes[] = {[I8] = 1, [I16] = 2, [I32] = 4, [U32] = 4, [F16] = 2, [BF16] = 2, [F32] = 4};

static float float_of(u32 bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static u32 bits_of(float x)
{
    u32 bits;
    memcpy(&bits, &x, 4);
    return x != x ? 0x7fc00000 : bits;
}

// The bits without the last `count`, rounded to the nearest or the even one.
static u32 rounded(u32 bits, int count)
{
    return (bits + (1u << (count - 1)) - 1 + (bits >> count & 1)) >> count;
}

static float half_to_float(u32 bits)
{
    u32 exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float size = float_of((exponent + 112) << 23 | mantissa << 13);
    if (exponent == 0) {
        size = (float)mantissa / (1 << 24);
    } else if (exponent == 31) {
        size = float_of(0x7f800000 | mantissa << 13);
    }
    return bits & 0x8000 ? -size : size;
}

static u32 half_of(float x)
{
    u32 bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (x != x) {
        return 0x7e00;
    }
    if (size >= 0x477ff000) { // half a step above the largest
        return sign | 0x7c00;
    }
    // no exponent: added to a number whose last place is theirs, they are rounded to it
    if (size < 0x38800000) {
        return sign | ((bits_of(float_of(size) + 0.5f)) - 0x3f000000);
    }
    return sign | (rounded(size, 13) - (112 << 10));
}

static float larger(float a, float b)
{
    if (a != a || b != b) {
        return float_of(0x7fc00000);
    }
    return a > b || (a == b && bits_of(a) >> 31 == 0) ? a : b;
}

static float floats(int way, float a, float b)
{
    return way == SUM ? a + b : way == MAX ? larger(a, b) : -larger(-a, -b);
}

static int64_t wide(int type, u32 bits)
{
    return type == I8    ? (int8_t)bits
           : type == I16 ? (int16_t)bits
           : type == I32 ? (int32_t)bits
                         : (int64_t)bits;
}

static u32 combined(int type, int way, u32 a, u32 b)
{
    switch (type) {
    case F16:
        return half_of(floats(way, half_to_float(a), half_to_float(b)));
    case BF16:
        return rounded(bits_of(floats(way, float_of(a << 16), float_of(b << 16))), 16);
    case F32:
        return bits_of(floats(way, float_of(a), float_of(b)));
    }
    int64_t x = wide(type, a), y = wide(type, b);
    return (u32)(way == SUM ? x + y : (x > y) == (way == MAX) ? x : y);
}

static void ferry_reduce(const Launch *launch)
{
    u64 len = ARG(launch, 2, u64), what = ARG(launch, 3, u64);
    u8 *dst = reach(ARG(launch, 0, u64), len), *src = reach(ARG(launch, 1, u64), len);
    int type = what / 3, way = what % 3, size = sizes[type];
    for (u64 done = 0; done < len; done += size) {
        u64 at = dst < src ? done : len - size - done;
        u32 a = 0, b = 0;
        memcpy(&a, dst + at, size);
        memcpy(&b, src + at, size);
        a = combined(type, way, a, b);
        memcpy(dst + at, &a, size);
    }
}

static void ferry_reduce_one(const Launch *launch)
{
    const u64 *at = &ARG(launch, 0, u64), what = ARG(launch, 1, u64);
    u32 a = 0, b = 0;
    for (int i = 0; i < sizes[what / 3]; i++) {
        a |= (u32) * (u8 *)reach(at[i], 1) << (8 * i);
        b |= (u32) * (u8 *)reach(at[4 + i], 1) << (8 * i);
    }
    a = combined(what / 3, what % 3, a, b);
    for (int i = 0; i < sizes[what / 3]; i++) {
        *(u8 *)reach(at[i], 1) = (u8)(a >> (8 * i));
    }
}

typedef struct {
    u64 dst;
    u64 src;
    u64 len;
} Entry;

// From the end: a list has no order, and nobody may rely on one. A piece whose own ends overlap would come
// out as anything.
static void copy_list(const Entry *list, u32 count)
{
    while (count--) {
        Entry entry = list[count];
        if (entry.dst < entry.src + entry.len && entry.src < entry.dst + entry.len) {
            fault(LAUNCH_FAILED);
        }
        if (entry.len) {
            memcpy(reach(entry.dst, entry.len), reach(entry.src, entry.len), entry.len);
        }
    }
}

static void ring(const Launch *launch, u64 bell, u64 number)
{
    for (u32 block = 0; bell && block < launch->blocks; block++) {
        __atomic_store_n((u64 *)reach(bell + 8 * block, 8), number, __ATOMIC_RELEASE);
    }
}

static void ferry_pieces(const Launch *launch)
{
    u32 count = ARG(launch, 1, u32);
    copy_list(reach(ARG(launch, 0, u64), count * sizeof(Entry)), count);
    ring(launch, ARG(launch, 6, u64), ARG(launch, 7, u64));
    // The slot is the host's again when all is done, and it hears of the end first.
    __atomic_store_n((u64 *)reach(ARG(launch, 5, u64), 8), ARG(launch, 4, u64), __ATOMIC_RELEASE);
}

static void ferry_pieces_inline(const Launch *launch)
{
    copy_list(&ARG(launch, 0, Entry), ARG(launch, 1, u32));
    ring(launch, ARG(launch, 3, u64), ARG(launch, 4, u64));
}

// As in resident.cu.
enum { BATCHES = 64, BATCH_WORDS = 6, STRIDE = 8 };
enum { COUNT = (1 << 13) - 1, LAST = 1 << 20 };
enum { OPEN = 1, CLOSING = 2, CLOSED = 3 };

// Whether the batch after `next` others is in the ring: its words, without the number of the batch on top.
static bool has_come(const u64 *ring, u32 next, u64 *words)
{
    for (int i = 0; i < BATCH_WORDS; i++) {
        u64 word = __atomic_load_n(&ring[next % BATCHES * STRIDE + i], __ATOMIC_ACQUIRE);
        if (word >> 48 != ((next + 1) & 0xffff)) {
            return false;
        }
        words[i] = word & (((u64)1 << 48) - 1);
    }
    return true;
}

static u64 clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

// Waits for the next batch; false if the kernel is to end.
static bool await_batch(const u64 *ring, u64 *state, u32 next, u64 own, u64 idle_ns, u64 *words)
{
    const u64 since = clock_ns();
    while (!has_come(ring, next, words)) {
        if (is_over || lost((Device *)kernel_of())) {
            return false;
        }
        if (clock_ns() - since > idle_ns) {
            __atomic_store_n(state, own | CLOSING, __ATOMIC_SEQ_CST);
            // For a while, as on a GPU.
            sched_yield();
            const u64 closed = own | (u64)(next & 0xffff) << 8 | CLOSED;
            bool is_there = has_come(ring, next, words);
            __atomic_store_n(state, is_there ? own | OPEN : closed, __ATOMIC_SEQ_CST);
            return is_there;
        }
        nap(5);
    }
    return true;
}

// Batch after batch, each whole before the next.
static void ferry_resident(const Launch *launch)
{
    const u64 *ring = reach(ARG(launch, 0, u64), BATCHES * STRIDE * 8);
    u64 *state = reach(ARG(launch, 2, u64), 8), own = (u64)ARG(launch, 4, u32) << 24, words[BATCH_WORDS];
    const u64 idle_ns = ARG(launch, 5, u64);
    __atomic_store_n(state, own | OPEN, __ATOMIC_SEQ_CST);
    for (u32 next = ARG(launch, 3, u32); await_batch(ring, state, next, own, idle_ns, words); next++) {
        if (words[1] & LAST) {
            return;
        }
        copy_list(reach(words[0], (words[1] & COUNT) * sizeof(Entry)), words[1] & COUNT);
        __atomic_store_n((u64 *)reach(words[2], 8), words[3], __ATOMIC_RELEASE);
        __atomic_store_n((u64 *)reach(words[4], 8), words[5], __ATOMIC_RELEASE);
    }
}

static void ferry_rows(const Launch *launch)
{
    const u64 *rows = &ARG(launch, 0, u64);
    for (u64 row = 0; row < rows[5]; row++) {
        u64 dst = rows[0] + row * rows[1], src = rows[2] + row * rows[3];
        memcpy(reach(dst, rows[4]), reach(src, rows[4]), rows[4]);
    }
}

// As product.cu of the benchmark: a row times a row.
static void ferry_product(const Launch *launch)
{
    u64 side = ARG(launch, 3, u32), len = side * side * 2;
    const uint16_t *left = reach(ARG(launch, 0, u64), len), *right = reach(ARG(launch, 1, u64), len);
    uint16_t *out = reach(ARG(launch, 2, u64), len);
    const u32 *counters = reach(ARG(launch, 4, u64), 8);
    if (counters[0] || counters[1] || launch->threads != 256) {
        fault(LAUNCH_FAILED);
    }
    for (u64 i = 0; i < side * side; i++) {
        float sum = 0;
        for (u64 k = 0; k < side; k++) {
            u32 one = left[i / side * side + k], other = right[i % side * side + k];
            sum += float_of(one << 16) * float_of(other << 16);
        }
        out[i] = (uint16_t)rounded(bits_of(sum), 16);
    }
}

const Kernel kernels[] = {
    {"ferry_move", {8, 8, 8}, ferry_move},
    {"ferry_copy_sealed", {sizeof(LaunchArgs)}, ferry_copy_sealed},
    {"ferry_reduce", {8, 8, 8, 8}, ferry_reduce},
    {"ferry_reduce_one", {64, 8}, ferry_reduce_one},
    {"ferry_pieces", {8, 4, 4, 4, 8, 8, 8, 8}, ferry_pieces},
    {"ferry_pieces_inline", {160 * sizeof(Entry), 4, 4, 8, 8}, ferry_pieces_inline},
    {"ferry_rows", {48}, ferry_rows},
    {"ferry_resident", {8, 8, 8, 4, 4, 8}, ferry_resident},
    {"ferry_product", {8, 8, 8, 4, 8}, ferry_product},
    {0},
};
