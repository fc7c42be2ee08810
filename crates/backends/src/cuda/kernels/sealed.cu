// Copies through descriptors, which are read when the copy runs. One launch does many that were queued one
// after the other, as if one after the other: all descriptors are read, and if no copy writes what another
// one reads or writes all blocks copy at once. If one does, one block does all of them in order, and reads
// each descriptor when its turn comes.
//
// Where the descriptors are stands in the parameters, or in a list that the host goes on writing until the
// kernel begins: while the stream is busy with other work, all copies behind that work are one launch.
//
// Reading and comparing is cut into turns, which blocks take. Blocks wait only for turns that others have
// taken, never for a block that may not have begun. So it does not matter how many of them run at a time, and
// beside what.

#include "copy.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(1024)
// What takes the launch must become part of the kernel: otherwise each thread would make a copy of its
// parameters.
#define INLINE static __device__ __forceinline__

// Threads of a block, most descriptors of a launch, and how many of them its parameters have room for: the
// same on the Rust side.
#define THREADS 1024
#define LIST_MAX 4096
#define INLINE_MAX 480
// Words of a descriptor: mark, source, destination, length, the stamps of both ends, seal.
#define WORDS 7
// Bytes that a warp copies at a time.
#define SHARE 8192
// Stamps of a launch that are looked at together. A power of two.
#define STAMPS 1024

// What went wrong and what was read. `DeviceError` of the Rust side has the same layout.
struct DeviceError {
    u64 ticket;
    u64 words[WORDS];
};

// A ring buffer of errors in page-locked memory of one queue, the `DeviceError`s behind it: `ErrorRing` of
// the Rust side has the same layout. Only kernels of that queue move `written`, one after the other; only the
// host moves `taken`. When the ring is full later errors are dropped: the first one is what counts.
struct ErrorRing {
    volatile u64 written;
    volatile u64 taken;
    u64 room;
    u64 spare[5];
};

// Where descriptors are, in page-locked memory: `GrowingList` of the Rust side has the same layout. The host
// writes an address, then counts it, then looks whether the list is `closing`; the kernel says that it is
// closing, then reads the count. So at least one of the two sees what the other did, and what the kernel has
// `taken` it says, plus one. It is `done` when no address is read any more. Addresses not written yet are
// zero.
struct GrowingList {
    volatile u32 count;
    u32 spare[31];
    volatile u32 closing, taken, done;
    u32 spare2[29];
    volatile u64 at[LIST_MAX];
};

// What a descriptor says, and where it is.
struct alignas(16) Entry {
    u64 dst, src, len, at;
};

// A range that holds ranges. Zeroes hold none: `below` is the lowest address, turned round.
struct Box {
    u64 below, above;
};

// What all descriptors say together; each number is the largest of its kind.
struct Facts {
    Box dst, src, descriptors;
    // The longest copy, whether there is a bad descriptor, and one of memory that is gone.
    u64 longest, has_bad, has_stale;
};
#define FACTS 9

// Turns in which descriptors are read, one for each thread of a warp.
#define READS (LIST_MAX / 32)

// What blocks tell each other, zero before a launch.
struct Counts {
    // Turns that blocks have taken,
    u32 to_read, to_compare, spare[30];
    // and done. What was `compared` has `MEETS` added for each turn that found something.
    u32 read, spare2[31], compared, spare3[31];
    // How many descriptors there are, plus one, and whether the one who compared last is ready.
    u32 count, judged, spare4[30];
};
#define MEETS 0x10000

// Memory of the device to work in, one for each queue: of `SCRATCH_LEN` bytes on the Rust side. Launches take
// turns with the counts: each leaves the others' zero.
struct Scratch {
    Counts counts[2];
    // Stamps that descriptors have, zero before a launch. A block that comes late may leave some behind, at
    // which the next launch looks in vain.
    u64 stamps[STAMPS];
    // What each turn of reading found out.
    u64 facts[FACTS][READS];
    // What each descriptor says; nothing, from nowhere, if it is bad.
    Entry entries[LIST_MAX];
    // How many shares there are up to the end of each entry, if one has more than one.
    u64 shares[LIST_MAX];
};
#define NOWHERE (~0ull)

// The argument of the kernel. `LaunchArgs` of the Rust side has the same layout.
struct LaunchArgs {
    u64 ticket, mark, key;
    ErrorRing *errors;
    const u32 *live;
    Scratch *scratch;
    // NULL if the addresses are here.
    GrowingList *list;
    // How many are here, and which counts are this launch's.
    u32 count, odd;
    u64 at[INLINE_MAX];
};

static_assert(sizeof(Facts) == 8 * FACTS && sizeof(Counts) == 512 && sizeof(LaunchArgs) == 3904 &&
                  sizeof(GrowingList) == 256 + 8 * LIST_MAX,
              "as on the Rust side");

// What one thread writes and counts others see who have read the count.
static __device__ u32 look(const u32 *at) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

static __device__ void tell(u32 *at, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

static __device__ u32 count_up(u32 *at, u32 more) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(at), "r"(more)
                 : "memory");
    return before;
}

// 64 bits at any alignment.
static __device__ u64 word(const u8 *at) {
    if (((u64)at & 7) == 0) return *(const u64 *)at;
    u64 value = 0;
    for (int i = 0; i < 8; i++) value |= (u64)at[i] << (8 * i);
    return value;
}

// As `digest` of the core, in Rust.
static __device__ u64 digest(u64 key, const u64 *fields) {
    u64 sum = key;
    for (int i = 0; i < WORDS - 2; i++) {
        u64 mixed = (sum ^ fields[i]) * 0x9e3779b97f4a7c15ull;
        sum = mixed ^ (mixed >> 32);
    }
    return sum;
}

// A stamp is the number of a slot and what it held when the descriptor was set. Slot 0 stands for
// memory that nobody watches, the last for memory that only the host can find.
static __device__ u32 slot_of(u64 stamp) { return (u32)(stamp >> 32); }

static __device__ bool is_alive(const u32 *live, u64 stamp) {
    u32 slot = slot_of(stamp);
    return slot == 0 || (slot != ~0u && live[slot] == (u32)stamp);
}

// Reads a descriptor. Whether it was sealed, and names memory that the GPU can find.
INLINE bool read(const LaunchArgs &launch, u64 at, u64 *words) {
    for (int i = 0; i < WORDS; i++) words[i] = word((const u8 *)at + 8 * i);
    return words[0] == launch.mark && words[WORDS - 1] == digest(launch.key, words + 1) &&
           slot_of(words[4]) != ~0u && slot_of(words[5]) != ~0u;
}

INLINE void report(const LaunchArgs &launch, u32 number, const u64 *words) {
    ErrorRing *ring = launch.errors;
    u64 written = ring->written;
    if (written - ring->taken >= ring->room) return;
    DeviceError *slot = (DeviceError *)(ring + 1) + written % ring->room;
    slot->ticket = launch.ticket + number;
    for (int i = 0; i < WORDS; i++) slot->words[i] = words[i];
    __threadfence_system();
    ring->written = written + 1;
}

// Not part of the kernel: there it would have too few registers for all that is under way.
static __device__ __noinline__ void copy(u8 *dst, const u8 *src, u64 len, u32 lane, u32 lanes) {
    copy_span(dst, src, len, lane, lanes);
}

// One after the other, by one block.

INLINE void copy_in_order(const LaunchArgs &launch, u32 count) {
    for (u32 number = 0; number < count; number++) {
        u64 words[WORDS];
        bool is_good = read(launch, __ldcg(&launch.scratch->entries[number].at), words) &&
                       is_alive(launch.live, words[4]) && is_alive(launch.live, words[5]);
        // All have read before one writes: the copy may overwrite its own descriptor. And all see it alike.
        is_good = __syncthreads_and(is_good);
        u8 *dst = (u8 *)words[2];
        const u8 *src = (const u8 *)words[1];
        u64 len = words[3], apart = dst < src ? src - dst : dst - src;
        if (!is_good) {
            if (threadIdx.x == 0) report(launch, number, words);
        } else if (apart >= len) {
            copy(dst, src, len, threadIdx.x, THREADS);
        } else if (apart > 0) {
            copy_overlapping(dst, src, len);
        }
        __syncthreads();
    }
}

// All at once: first what the descriptors say.

INLINE Counts &counts_of(const LaunchArgs &launch) { return launch.scratch->counts[launch.odd]; }

static __device__ u64 most_of_warp(u64 value) {
    for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// By a warp: keeps a stamp, once for all who have it: page-locked memory is far away, and many reads of one
// place come one after the other. Whether there was no room, and the memory was found to be gone.
INLINE bool keep_stamp(const LaunchArgs &launch, u64 stamp) {
    u32 alike = __match_any_sync(~0u, stamp);
    if (slot_of(stamp) == 0 || threadIdx.x % 32 != __ffs(alike) - 1) return false;
    u32 place = (u32)((stamp * 0x9e3779b97f4a7c15ull) >> 40);
    for (u32 i = 0; i < 8; i++) {
        u64 other = atomicCAS(&launch.scratch->stamps[(place + i) % STAMPS], 0, stamp);
        if (other == 0 || other == stamp) return false;
    }
    return !is_alive(launch.live, stamp);
}

// Tells all threads of the block what the first one knows.
static __device__ u32 shared(u32 value) {
    __shared__ u32 told;
    __syncthreads();
    if (threadIdx.x == 0) told = value;
    __syncthreads();
    return told;
}

// The first thread takes the next turn of a kind.
static __device__ u32 take(u32 *turns) { return threadIdx.x == 0 ? atomicAdd(turns, 1) : 0; }

// The same where mostly none is left. Counting is dear: all blocks do it in the same place.
static __device__ u32 take_another(u32 *turns, u32 all) {
    return threadIdx.x == 0 && look(turns) < all ? atomicAdd(turns, 1) : ~0u;
}

// Waits until somebody has written there, and says what.
static __device__ u32 wait_for(const u32 *flag) {
    u32 seen;
    while ((seen = look(flag)) == 0) {}
    return seen;
}

// Waits until so many have been counted there, but for those added by `MEETS`. Says whether there are any of
// those.
static __device__ bool wait_until(const u32 *counted, u32 all) {
    u32 seen;
    while ((seen = look(counted)) % MEETS != all) {}
    return seen >= MEETS;
}

// From here on the host adds nothing to the list.
INLINE void close_list(const LaunchArgs &launch) {
    GrowingList *list = launch.list;
    list->closing = 1;
    __threadfence_system();
    u32 count = list->count;
    list->taken = count + 1;
    tell(&counts_of(launch).count, count + 1);
}

// Where a descriptor is, zero if it is not known yet: before the list is closed.
INLINE u64 address(const LaunchArgs &launch, u32 number) {
    if (number >= LIST_MAX) return 0;
    return launch.list ? launch.list->at[number] : number < launch.count ? launch.at[number] : 0;
}

// How many descriptors there are. Where there is a list, when it is closed.
INLINE u32 count_of(const LaunchArgs &launch) {
    return launch.list ? wait_for(&counts_of(launch).count) - 1 : launch.count;
}

// By one warp: a descriptor for each thread. Those that the list holds already are read while it is being
// closed, others after that. Says how many there are in all.
INLINE u32 read_turn(const LaunchArgs &launch, u32 turn) {
    const u32 lane = threadIdx.x % 32, number = 32 * turn + lane;
    Entry entry = {0, 0, 0, 0};
    bool is_bad = false, is_stale = false;
    u32 count = launch.list ? LIST_MAX : launch.count;
    do {
        u64 words[WORDS] = {0};
        const bool is_new = !entry.at && number < count && (entry.at = address(launch, number)) != 0;
        if (is_new) is_bad = !read(launch, entry.at, words);
        const bool is_good = is_new && !is_bad;
        is_stale |= keep_stamp(launch, is_good ? words[4] : 0) | keep_stamp(launch, is_good ? words[5] : 0);
        if (is_good) entry = Entry{words[2], words[1], words[3], entry.at};
        if (is_new && is_bad) entry.src = NOWHERE;
        count = lane == 0 ? count_of(launch) : 0;
        count = __shfl_sync(~0u, count, 0);
    } while (__any_sync(~0u, !entry.at && number < count));
    if (32 * turn >= count) return count;
    const bool is_one = number < count, moves = is_one && entry.len > 0;
    if (is_one) launch.scratch->entries[number] = entry;
    const u64 facts[FACTS] = {moves ? ~entry.dst : 0, moves ? entry.dst + entry.len : 0,
                              moves ? ~entry.src : 0, moves ? entry.src + entry.len : 0,
                              is_one ? ~entry.at : 0, is_one ? entry.at + 8 * WORDS : 0,
                              moves ? entry.len : 0,  is_one && is_bad, is_one && is_stale};
#pragma unroll
    for (int i = 0; i < FACTS; i++) {
        u64 most = most_of_warp(facts[i]);
        if (lane == i) launch.scratch->facts[i][turn] = most;
    }
    __syncwarp();
    if (lane == 0) count_up(&counts_of(launch).read, 1);
    return count;
}

// Reads descriptors, as many warps of each block as there must be.
INLINE void read_all(const LaunchArgs &launch) {
    Counts &counts = counts_of(launch);
    const u32 warps = min((READS + gridDim.x - 1) / gridDim.x, 16u), warp = threadIdx.x / 32;
    for (u32 group = shared(take(&counts.to_read)); group < READS / warps + 1;) {
        if (launch.list && group == 0 && threadIdx.x == THREADS - 32) close_list(launch);
        u32 turn = warps * group + warp, count = 0;
        if (warp < warps && turn < READS) count = read_turn(launch, turn);
        group = shared(take_another(&counts.to_read, (count + 32 * warps - 1) / (32 * warps)));
    }
}

// What the turns of reading have found out together.
INLINE Facts facts_of(const LaunchArgs &launch, u32 count) {
    __shared__ u64 all[FACTS];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp < FACTS) {
        u64 most = 0;
        for (u32 turn = lane; turn < (count + 31) / 32; turn += 32)
            most = max(most, __ldcg(&launch.scratch->facts[warp][turn]));
        most = most_of_warp(most);
        if (lane == 0) all[warp] = most;
    }
    __syncthreads();
    return Facts{{all[0], all[1]}, {all[2], all[3]}, {all[4], all[5]}, all[6], all[7], all[8]};
}

// Whether memory that a descriptor names is gone. Leaves no stamp.
INLINE bool is_stale(const LaunchArgs &launch) {
    bool found = false;
    for (u32 i = threadIdx.x; i < STAMPS; i += THREADS) {
        u64 stamp = __ldcg(&launch.scratch->stamps[i]);
        if (stamp == 0) continue;
        launch.scratch->stamps[i] = 0;
        found |= !is_alive(launch.live, stamp);
    }
    return found;
}

// Then whether the copies can be done at once: whether what one writes meets what another one writes, or one
// reads. Each is compared with each, in tiles: so large that as many as there are for 4,096 find a
// multiprocessor each.

static __device__ Entry entry_of(const Scratch *scratch, u32 number) {
    const Entry *at = &scratch->entries[number];
    ulonglong2 to = __ldcg((const ulonglong2 *)at), more = __ldcg((const ulonglong2 *)at + 1);
    return Entry{to.x, to.y, more.x, more.y};
}

static __device__ bool meet(const Box &a, const Box &b) {
    return a.above > ~b.below && b.above > ~a.below;
}

// A range inside the box of all destinations, in units that make its ends short; rounded, so that it is
// rather too long.
struct Span {
    u32 start, end;
};
struct Scale {
    u64 low, high;
    int shift;

    __device__ explicit Scale(const Box &box) : low(~box.below), high(box.above) {
        shift = max(33 - __clzll(high - low), 0);
    }
    __device__ Span of(u64 start, u64 len) const {
        u64 from = max(start, low), to = min(start + len, high);
        if (len == 0 || from >= to) return Span{~0u, 0};
        return Span{(u32)((from - low) >> shift), (u32)((to - low - 1) >> shift) + 1};
    }
};

#define SIDE 288
// Threads that share a column, and how many rows each of them takes.
#define SHARERS 3
#define ROWS (SIDE / SHARERS)

// A range that one copy of the column has, beside those of the rows: whether they meet more often than they
// must.
static __device__ bool meet_more(const Span *rows, Span own, u32 must) {
    u32 found = 0;
#pragma unroll 8
    for (u32 i = 0; i < ROWS; i++) {
        Span span = rows[i];
        found += (own.start < span.end) & (span.start < own.end);
    }
    return found > must;
}

// Which other ranges may meet a destination.
struct Others {
    bool src, descriptors;
};

// Row and column of a tile: each two rows or columns meet in one.
static __device__ void find_tile(u32 turn, u32 side, u32 *row, u32 *column) {
    for (*row = 0; turn >= side - *row; ++*row) turn -= side - *row;
    *column = *row + turn;
}

INLINE bool meets(const LaunchArgs &launch, u32 count, u32 turn, const Scale &scale, Others others) {
    __shared__ Span rows[3][SIDE];
    u32 row, column;
    find_tile(turn, (count + SIDE - 1) / SIDE, &row, &column);
    if (threadIdx.x < SIDE) {
        u32 number = SIDE * row + threadIdx.x;
        Entry entry = number < count ? entry_of(launch.scratch, number) : Entry{0, 0, 0, 0};
        rows[0][threadIdx.x] = scale.of(entry.dst, entry.len);
        rows[1][threadIdx.x] = scale.of(entry.src, entry.len);
        rows[2][threadIdx.x] = scale.of(entry.at, entry.at ? 8 * WORDS : 0);
    }
    const u32 number = SIDE * column + threadIdx.x % SIDE, first = threadIdx.x / SIDE * ROWS;
    const bool is_one = first < SIDE && number < count;
    Entry entry = is_one ? entry_of(launch.scratch, number) : Entry{0, 0, 0, 0};
    const Span dst = scale.of(entry.dst, entry.len);
    __syncthreads();
    if (!is_one) return false;
    // A range that is not empty meets itself.
    const bool has_itself = number - SIDE * row - first < ROWS && dst.start < dst.end;
    bool found = meet_more(rows[0] + first, dst, has_itself);
    if (others.src)
        found |= meet_more(rows[1] + first, dst, 0) |
                 meet_more(rows[0] + first, scale.of(entry.src, entry.len), 0);
    if (others.descriptors)
        found |=
            meet_more(rows[2] + first, dst, 0) | meet_more(rows[0] + first, scale.of(entry.at, 8 * WORDS), 0);
    return found;
}

INLINE void report_all(const LaunchArgs &launch, u32 count) {
    for (u32 number = 0; number < count; number++) {
        u64 words[WORDS];
        Entry entry = entry_of(launch.scratch, number);
        if (entry.src != NOWHERE) continue;
        read(launch, entry.at, words);
        report(launch, number, words);
    }
}

// Adds up how many shares there are: each thread sums four entries, each warp its threads, one warp the
// warps.
INLINE void count_shares(const LaunchArgs &launch, u32 count) {
    __shared__ u64 sums[THREADS / 32];
    const u32 each = LIST_MAX / THREADS, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    u64 own[each], sum = 0;
    for (u32 i = 0; i < each; i++) {
        u32 number = each * threadIdx.x + i;
        sum += number < count ? (entry_of(launch.scratch, number).len + SHARE - 1) / SHARE : 0;
        own[i] = sum;
    }
    u64 upto = sum;
    for (u32 step = 1; step < 32; step *= 2) {
        u64 before = __shfl_up_sync(~0u, upto, step);
        if (lane >= step) upto += before;
    }
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    u64 start = upto - sum;
    for (u32 i = 0; i < warp; i++) start += sums[i];
    for (u32 i = 0; i < each; i++)
        if (each * threadIdx.x + i < count) launch.scratch->shares[each * threadIdx.x + i] = start + own[i];
}

// Whether nobody has to wait for the one who compared last.
INLINE bool is_plain(const Facts &facts) { return facts.longest <= SHARE && !facts.has_bad; }

// What the block does that compared last.
INLINE void judge(const LaunchArgs &launch, u32 count, const Facts &facts, bool apart) {
    u64 *others = (u64 *)&launch.scratch->counts[1 - launch.odd];
    if (threadIdx.x < sizeof(Counts) / 8) others[threadIdx.x] = 0;
    if (launch.list && threadIdx.x == 0) launch.list->done = 1;
    if (!apart) return copy_in_order(launch, count);
    if (is_plain(facts)) return;
    if (facts.longest > SHARE) count_shares(launch, count);
    if (threadIdx.x == 0 && facts.has_bad) report_all(launch, count);
    __syncthreads();
    if (threadIdx.x == 0) tell(&counts_of(launch).judged, 1);
}

// The first turn looks for memory that is gone, the others for copies that meet. Whether there is neither.
INLINE bool compare_all(const LaunchArgs &launch, u32 count, const Facts &facts, u32 first) {
    Counts &counts = counts_of(launch);
    const Others others = {meet(facts.dst, facts.src), meet(facts.dst, facts.descriptors)};
    const Scale scale(facts.dst);
    const u32 side = (count + SIDE - 1) / SIDE, turns = 1 + side * (side + 1) / 2;
    for (u32 turn = shared(first); turn < turns;) {
        u32 found = __syncthreads_or(turn == 0 ? is_stale(launch) | facts.has_stale
                                               : meets(launch, count, turn - 1, scale, others));
        u32 before = threadIdx.x == 0 ? count_up(&counts.compared, found ? MEETS + 1 : 1) : 0;
        before = shared(before);
        if (before % MEETS + 1 == turns) judge(launch, count, facts, !found && before < MEETS);
        turn = shared(take_another(&counts.to_compare, turns));
    }
    bool apart = threadIdx.x > 0 || !wait_until(&counts.compared, turns);
    if (threadIdx.x == 0 && apart && !is_plain(facts)) wait_for(&counts.judged);
    return __syncthreads_and(apart);
}

// Then the copies, a warp for each share.

INLINE void copy_all(const LaunchArgs &launch, u32 count, const Facts &facts) {
    const Scratch *scratch = launch.scratch;
    const u64 *shares = scratch->shares;
    const u32 lane = threadIdx.x & 31;
    // Neighbours go to different multiprocessors.
    const u64 first = (u64)threadIdx.x / 32 * gridDim.x + blockIdx.x, step = (u64)gridDim.x * (THREADS / 32);
    const bool is_short = facts.longest <= SHARE;
    const u64 total = is_short ? count : __ldcg(&shares[count - 1]);
    for (u64 share = first; share < total; share += step) {
        u32 low = 0, high = is_short ? 0 : count - 1;
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (__ldcg(&shares[middle]) > share) high = middle;
            else low = middle + 1;
        }
        u32 number = is_short ? (u32)share : low;
        Entry entry = entry_of(scratch, number);
        u64 before = is_short ? share : number > 0 ? __ldcg(&shares[number - 1]) : 0;
        u64 done = (share - before) * SHARE, left = entry.len - done;
        copy((u8 *)entry.dst + done, (const u8 *)entry.src + done, min(left, (u64)SHARE), lane, 32);
    }
}

KERNEL ferry_copy_sealed(const LaunchArgs launch) {
    Counts &counts = counts_of(launch);
    read_all(launch);
    // Asked before the wait and looked at after it.
    const u32 first = take(&counts.to_compare);
    u32 count = threadIdx.x == 0 ? count_of(launch) : 0;
    if (threadIdx.x == 0) wait_until(&counts.read, (count + 31) / 32);
    count = shared(count);
    const Facts facts = facts_of(launch, count);
    if (compare_all(launch, count, facts, first)) copy_all(launch, count, facts);
}
