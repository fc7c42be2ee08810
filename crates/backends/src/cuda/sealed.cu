// Copies through descriptors, which are read when the copy runs. One launch does many that were queued one after the other, as if
// one after the other: all descriptors are read, and if no copy writes what another one reads or writes all blocks copy at once. If
// one does, one block does all of them in order, and reads each descriptor when its turn comes.
//
// Reading and comparing is cut into turns, which blocks take. Blocks wait only for turns that others have taken, never for a block
// that may not have begun. So it does not matter how many of them run at a time, and beside what.

#define KERNEL extern "C" __global__ void __launch_bounds__(1024)
// What takes the launch must become part of the kernel: otherwise each thread would make a copy of its parameters.
#define INLINE static __device__ __forceinline__

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Threads of a block, descriptors of a launch, and runs of them: the same in sealed.rs.
#define THREADS 1024
#define MOST 4096
#define RUNS 240
// Words of a descriptor: mark, source, destination, length, the stamps of both ends, seal.
#define WORDS 7
// Bytes that a warp copies at a time.
#define SHARE 8192
// Stamps of a launch that are looked at together. A power of two.
#define STAMPS 1024

// What went wrong and what was read. `Report` in device.rs is the same.
struct Report {
    u64 ticket;
    u64 words[WORDS];
};

// A ring in page-locked memory of one queue, `Report`s behind it. Only kernels of that queue move `written`, one after the
// other; only the host moves `taken`. When the ring is full later reports are dropped: the first one is what counts.
struct Reports {
    volatile u64 written;
    volatile u64 taken;
    u64 room;
    u64 spare[5];
};

// Descriptors `stride` bytes apart; `first` is the number of the one that lies at `at`.
struct Run {
    u64 at;
    int stride;
    u32 first;
};

struct Entry {
    u64 dst, src, len;
};

// A range that holds ranges. Zeroes hold none: `below` is the lowest address, turned round.
struct Box {
    u64 below, above;
};

// What all descriptors say together; each number is the largest of its kind.
struct Facts {
    Box dst, src, descriptors;
    u64 longest;
};
#define FACTS 7

// What blocks tell each other, zero before a launch.
struct Counts {
    u64 facts[FACTS];
    // Turns that blocks have taken and done. What was `compared` has `MEETS` added for each turn that found something.
    u32 to_read, read, to_compare, compared;
    volatile u32 all_read, verdict;
    // Whether there is a bad descriptor, and one of memory that is gone.
    u32 has_bad, has_stale;
};
#define MEETS 0x10000

// Memory in the device, one for each queue. Launches take turns with the counts: each leaves the others' zero.
struct Job {
    Counts counts[2];
    // Stamps that descriptors have. All zero between launches.
    u64 stamps[STAMPS];
    // What each descriptor says; nothing, from nowhere, if it is bad.
    Entry entries[MOST];
    // How many shares there are up to the end of each entry, if one has more than one.
    u64 shares[MOST];
};
enum Verdict { UNKNOWN, APART, IN_ORDER };
#define NOWHERE (~0ull)

// What the host gives. `Launch` in sealed.rs is the same.
struct Launch {
    u64 ticket, mark, key;
    Reports *reports;
    const u32 *live;
    Job *job;
    u32 count, runs;
    // Which counts are this launch's.
    u64 odd;
    Run run[RUNS];
};

static_assert(sizeof(Counts) == 88 && sizeof(Launch) == 3904, "as in sealed.rs");

// 64 bits at any alignment.
static __device__ u64 word(const u8 *at) {
    if (((u64)at & 7) == 0) return *(const u64 *)at;
    u64 value = 0;
    for (int i = 0; i < 8; i++) value |= (u64)at[i] << (8 * i);
    return value;
}

// As `digest` in the core's indirect.rs.
static __device__ u64 digest(u64 key, const u64 *fields) {
    u64 sum = key;
    for (int i = 0; i < WORDS - 2; i++) {
        u64 mixed = (sum ^ fields[i]) * 0x9e3779b97f4a7c15ull;
        sum = mixed ^ (mixed >> 32);
    }
    return sum;
}

// A stamp is the number of a slot and what it held when the descriptor was set: live.rs. Slot 0 stands for memory that nobody
// watches, the last for memory that only the host can find.
static __device__ u32 slot_of(u64 stamp) { return (u32)(stamp >> 32); }

static __device__ bool is_alive(const u32 *live, u64 stamp) {
    u32 slot = slot_of(stamp);
    return slot == 0 || (slot != ~0u && live[slot] == (u32)stamp);
}

// The address of the descriptor of this number.
INLINE const u8 *descriptor(const Launch &launch, u32 number) {
    u32 low = 0, high = launch.runs;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (launch.run[middle].first <= number) low = middle;
        else high = middle;
    }
    long long steps = number - launch.run[low].first;
    return (const u8 *)(launch.run[low].at + steps * launch.run[low].stride);
}

// Reads a descriptor. Whether it was sealed, and names memory that the GPU can find.
INLINE bool read(const Launch &launch, u32 number, u64 *words) {
    const u8 *at = descriptor(launch, number);
    for (int i = 0; i < WORDS; i++) words[i] = word(at + 8 * i);
    return words[0] == launch.mark && words[WORDS - 1] == digest(launch.key, words + 1) &&
           slot_of(words[4]) != ~0u && slot_of(words[5]) != ~0u;
}

INLINE void report(const Launch &launch, u32 number, const u64 *words) {
    Reports *reports = launch.reports;
    u64 written = reports->written;
    if (written - reports->taken >= reports->room) return;
    Report *slot = (Report *)(reports + 1) + written % reports->room;
    slot->ticket = launch.ticket + number;
    for (int i = 0; i < WORDS; i++) slot->words[i] = words[i];
    __threadfence_system();
    reports->written = written + 1;
}

// One after the other, by one block.

static __device__ void copy_apart(u8 *dst, const u8 *src, u64 len) {
    u64 head = len, body = 0;
    if ((((u64)dst ^ (u64)src) & 15) == 0) {
        head = -(u64)dst & 15;
        if (head > len) head = len;
        body = (len - head) / 16;
    }
    for (u64 i = threadIdx.x; i < head; i += THREADS) dst[i] = src[i];
    uint4 *to = (uint4 *)(dst + head);
    const uint4 *from = (const uint4 *)(src + head);
    for (u64 i = threadIdx.x; i < body; i += THREADS) to[i] = from[i];
    for (u64 i = head + 16 * body + threadIdx.x; i < len; i += THREADS) dst[i] = src[i];
}

// One chunk after the other, each read whole before it is written: upwards if the destination is below the source.
static __device__ void copy_overlapping(u8 *dst, const u8 *src, u64 len) {
    const u64 chunk = 16 * THREADS, chunks = (len + chunk - 1) / chunk;
    for (u64 turn = 0; turn < chunks; turn++) {
        u64 start = (dst < src ? turn : chunks - 1 - turn) * chunk + threadIdx.x;
        u8 held[16];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            u64 at = start + i * THREADS;
            if (at < len) held[i] = src[at];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            u64 at = start + i * THREADS;
            if (at < len) dst[at] = held[i];
        }
        __syncthreads();
    }
}

INLINE void copy_in_order(const Launch &launch) {
    for (u32 number = 0; number < launch.count; number++) {
        u64 words[WORDS];
        bool is_good = read(launch, number, words) && is_alive(launch.live, words[4]) &&
                       is_alive(launch.live, words[5]);
        // All have read before one writes: the copy may overwrite its own descriptor. And all see it alike.
        is_good = __syncthreads_and(is_good);
        u8 *dst = (u8 *)words[2];
        const u8 *src = (const u8 *)words[1];
        u64 len = words[3], apart = dst < src ? src - dst : dst - src;
        if (!is_good) {
            if (threadIdx.x == 0) report(launch, number, words);
        } else if (apart >= len) {
            copy_apart(dst, src, len);
        } else if (apart > 0) {
            copy_overlapping(dst, src, len);
        }
        __syncthreads();
    }
}

// All at once: first what the descriptors say.

INLINE Counts &counts_of(const Launch &launch) { return launch.job->counts[launch.odd]; }

static __device__ u64 most_of_warp(u64 value) {
    for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// Keeps a stamp, once for all who have it: page-locked memory is far away, and many reads of one place come one after the other.
// Whether there was no room, and the memory was found to be gone.
INLINE bool keep_stamp(const Launch &launch, u64 stamp) {
    u32 alike = __match_any_sync(~0u, stamp);
    if (slot_of(stamp) == 0 || threadIdx.x != __ffs(alike) - 1) return false;
    u32 place = (u32)((stamp * 0x9e3779b97f4a7c15ull) >> 40);
    for (u32 i = 0; i < 8; i++) {
        u64 other = atomicCAS(&launch.job->stamps[(place + i) % STAMPS], 0, stamp);
        if (other == 0 || other == stamp) return false;
    }
    return !is_alive(launch.live, stamp);
}

// By one warp: a descriptor for each thread, and what is to be known of it in `facts`.
INLINE void resolve(const Launch &launch, u32 number, u64 (*facts)[32]) {
    Counts &counts = counts_of(launch);
    Entry entry = {0, 0, 0};
    u64 words[WORDS] = {0}, at = 0;
    bool is_bad = false;
    if (number < launch.count) {
        at = (u64)descriptor(launch, number);
        is_bad = !read(launch, number, words);
        entry = is_bad ? Entry{0, NOWHERE, 0} : Entry{words[2], words[1], words[3]};
        launch.job->entries[number] = entry;
    }
    bool is_stale = keep_stamp(launch, is_bad ? 0 : words[4]) | keep_stamp(launch, is_bad ? 0 : words[5]);
    if (is_bad) atomicOr(&counts.has_bad, 1);
    if (is_stale) atomicOr(&counts.has_stale, 1);
    const bool moves = entry.len > 0;
    u64 all[FACTS] = {moves ? ~entry.dst : 0, moves ? entry.dst + entry.len : 0, moves ? ~entry.src : 0,
                      moves ? entry.src + entry.len : 0, at ? ~at : 0, at ? at + 8 * WORDS : 0, entry.len};
    for (int i = 0; i < FACTS; i++) facts[i][threadIdx.x] = all[i];
}

// Tells all threads of the block what the first one knows.
static __device__ u32 shared(u32 value) {
    __shared__ u32 told;
    __syncthreads();
    if (threadIdx.x == 0) told = value;
    __syncthreads();
    return told;
}

// The first thread takes the next turn of a kind. It asks early, and looks at the answer late.
static __device__ u32 take(u32 *turns) { return threadIdx.x == 0 ? atomicAdd(turns, 1) : 0; }

// Waits until somebody has written there, and says what.
static __device__ u32 wait_for(const volatile u32 *flag) {
    u32 seen = 0;
    if (threadIdx.x == 0) {
        while ((seen = *flag) == 0) __nanosleep(20);
        __threadfence();
    }
    return shared(seen);
}

INLINE void read_all(const Launch &launch) {
    __shared__ u64 facts[FACTS][32];
    Counts &counts = counts_of(launch);
    const u32 turns = (launch.count + 31) / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 next, turn = shared(take(&counts.to_read)); turn < turns; turn = shared(next)) {
        next = take(&counts.to_read);
        if (warp == 0) resolve(launch, 32 * turn + lane, facts);
        __syncthreads();
        if (warp < FACTS) {
            u64 most = most_of_warp(facts[warp][lane]);
            if (lane == 0 && most > 0) atomicMax(&counts.facts[warp], most);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            if (turns == 1 || atomicAdd(&counts.read, 1) + 1 == turns) counts.all_read = 1;
        }
    }
}

INLINE Facts facts_of(const Launch &launch) {
    u64 all[FACTS];
    for (int i = 0; i < FACTS; i++) all[i] = __ldcg(&counts_of(launch).facts[i]);
    return Facts{{all[0], all[1]}, {all[2], all[3]}, {all[4], all[5]}, all[6]};
}

// Whether memory that a descriptor names is gone. Leaves no stamp.
INLINE bool is_stale(const Launch &launch) {
    bool found = *(volatile u32 *)&counts_of(launch).has_stale != 0;
    for (u32 i = threadIdx.x; i < STAMPS; i += THREADS) {
        u64 stamp = __ldcg(&launch.job->stamps[i]);
        if (stamp == 0) continue;
        launch.job->stamps[i] = 0;
        found |= !is_alive(launch.live, stamp);
    }
    return found;
}

// Then whether the copies can be done at once: whether what one writes meets what another one writes, or one reads. Each is
// compared with each, in tiles: so large that as many as there are for 4,096 find a multiprocessor each.

static __device__ Entry entry_of(const Job *job, u32 number) {
    const Entry *at = &job->entries[number];
    return Entry{__ldcg(&at->dst), __ldcg(&at->src), __ldcg(&at->len)};
}

static __device__ bool meet(const Box &a, const Box &b) {
    return a.above > ~b.below && b.above > ~a.below;
}

// A range inside the box of all destinations, in units that make its ends short; rounded, so that it is rather too long.
struct Span {
    u32 start, end;
};
struct Scale {
    u64 low, high;
    int shift;

    __device__ explicit Scale(const Box &box) : low(~box.below), high(box.above), shift(0) {
        while ((high - low) >> shift >> 31) shift++;
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

// Which tiles there are. What is written is compared with itself, so half of them will do if nothing else has to be.
struct Tiles {
    u32 side;
    bool src, descriptors;

    __device__ u32 count() const { return src || descriptors ? side * side : side * (side + 1) / 2; }
    __device__ void find(u32 turn, u32 *row, u32 *column) const {
        *row = 0;
        for (u32 length = side; turn >= length; turn -= length) {
            ++*row;
            if (!src && !descriptors) length = side - *row;
        }
        *column = turn + (src || descriptors ? 0 : *row);
    }
};

// Whether a destination of the column meets the `kind` of a row, other than its own.
static __device__ bool meets_one(const Span *rows, Span own, u32 itself) {
    bool found = false;
#pragma unroll 8
    for (u32 i = 0; i < ROWS; i++) {
        Span span = rows[i];
        found |= (own.start < span.end) & (span.start < own.end) & (i != itself);
    }
    return found;
}

INLINE bool meets(const Launch &launch, const Tiles &tiles, const Scale &scale, u32 turn) {
    __shared__ Span rows[3][SIDE];
    const Job *job = launch.job;
    u32 row, column;
    tiles.find(turn, &row, &column);
    if (threadIdx.x < SIDE) {
        u32 number = SIDE * row + threadIdx.x;
        bool is_one = number < launch.count;
        Entry entry = is_one ? entry_of(job, number) : Entry{0, 0, 0};
        rows[0][threadIdx.x] = scale.of(entry.dst, entry.len);
        rows[1][threadIdx.x] = scale.of(entry.src, entry.len);
        rows[2][threadIdx.x] = scale.of(is_one ? (u64)descriptor(launch, number) : 0, is_one ? 8 * WORDS : 0);
    }
    const u32 number = SIDE * column + threadIdx.x % SIDE, first = threadIdx.x / SIDE * ROWS;
    const bool is_one = first < SIDE && number < launch.count;
    Entry entry = is_one ? entry_of(job, number) : Entry{0, 0, 0};
    const Span own = scale.of(entry.dst, entry.len);
    __syncthreads();
    if (!is_one) return false;
    bool found = row <= column && meets_one(rows[0] + first, own, number - SIDE * row - first);
    if (tiles.src) found |= meets_one(rows[1] + first, own, ~0u);
    if (tiles.descriptors) found |= meets_one(rows[2] + first, own, ~0u);
    return found;
}

INLINE void report_all(const Launch &launch) {
    for (u32 number = 0; number < launch.count; number++) {
        u64 words[WORDS];
        if (entry_of(launch.job, number).src != NOWHERE) continue;
        read(launch, number, words);
        report(launch, number, words);
    }
}

// Adds up how many shares there are: each thread sums four entries, each warp its threads, one warp the warps.
INLINE void count_shares(const Launch &launch) {
    __shared__ u64 sums[THREADS / 32];
    const u32 each = MOST / THREADS, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    u64 own[each], sum = 0;
    for (u32 i = 0; i < each; i++) {
        u32 number = each * threadIdx.x + i;
        sum += number < launch.count ? (entry_of(launch.job, number).len + SHARE - 1) / SHARE : 0;
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
        if (each * threadIdx.x + i < launch.count) launch.job->shares[each * threadIdx.x + i] = start + own[i];
}

// What the block does that compared last.
INLINE void judge(const Launch &launch, const Facts &facts, bool apart) {
    Counts &counts = counts_of(launch);
    u64 *others = (u64 *)&launch.job->counts[1 - launch.odd];
    if (threadIdx.x < sizeof(Counts) / 8) others[threadIdx.x] = 0;
    if (apart && facts.longest > SHARE) count_shares(launch);
    if (apart && threadIdx.x == 0 && counts.has_bad) report_all(launch);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        counts.verdict = apart ? APART : IN_ORDER;
    }
    if (!apart) copy_in_order(launch);
}

// The first turn looks for memory that is gone, the others for copies that meet.
INLINE void compare_all(const Launch &launch, const Facts &facts, u32 next) {
    Counts &counts = counts_of(launch);
    const Tiles tiles = {(launch.count + SIDE - 1) / SIDE, meet(facts.dst, facts.src),
                         meet(facts.dst, facts.descriptors)};
    const Scale scale(facts.dst);
    const u32 turns = 1 + tiles.count();
    for (u32 turn = shared(next); turn < turns; turn = shared(next)) {
        next = take(&counts.to_compare);
        u32 found = __syncthreads_or(turn == 0 ? is_stale(launch) : meets(launch, tiles, scale, turn - 1));
        u32 before = 0;
        if (threadIdx.x == 0) {
            __threadfence();
            before = atomicAdd(&counts.compared, found ? MEETS + 1 : 1);
        }
        before = shared(before);
        if (before % MEETS + 1 == turns) judge(launch, facts, !found && before < MEETS);
    }
}

// Then the copies, a warp for each share.

template <class T>
static __device__ void copy_by(u8 *dst, const u8 *src, u32 len, u32 lane) {
    u32 head = -(u32)(u64)dst & (sizeof(T) - 1);
    if (head > len) head = len;
    if (lane < head) dst[lane] = src[lane];
    T *to = (T *)(dst + head);
    const T *from = (const T *)(src + head);
    const u32 body = (len - head) / sizeof(T);
    for (u32 start = lane; start < body; start += 8 * 32) {
        T held[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (start + 32 * i < body) held[i] = from[start + 32 * i];
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (start + 32 * i < body) to[start + 32 * i] = held[i];
    }
    u32 rest = head + sizeof(T) * body + lane;
    if (rest < len) dst[rest] = src[rest];
}

// Where source and destination never share an alignment: words are put together of two. The bytes read too many lie in words of
// which some are wanted.
static __device__ void copy_shifted(u8 *dst, const u8 *src, u32 len, u32 lane) {
    u32 head = -(u32)(u64)dst & 3;
    if (head > len) head = len;
    if (lane < head) dst[lane] = src[lane];
    u32 *to = (u32 *)(dst + head);
    const u32 *from = (const u32 *)((u64)(src + head) & ~3ull);
    const u32 shift = 8 * ((u32)(u64)(src + head) & 3), body = (len - head) / 4;
    for (u32 start = lane; start < body; start += 8 * 32) {
        u32 held[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            u32 at = start + 32 * i;
            if (at < body) held[i] = __funnelshift_r(from[at], from[at + 1], shift);
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (start + 32 * i < body) to[start + 32 * i] = held[i];
    }
    u32 rest = head + 4 * body + lane;
    if (rest < len) dst[rest] = src[rest];
}

static __device__ void copy_share(u8 *dst, const u8 *src, u32 len, u32 lane) {
    u32 differ = (u32)((u64)dst ^ (u64)src);
    if ((differ & 15) == 0) copy_by<uint4>(dst, src, len, lane);
    else if ((differ & 7) == 0) copy_by<uint2>(dst, src, len, lane);
    else if ((differ & 3) == 0) copy_by<u32>(dst, src, len, lane);
    else copy_shifted(dst, src, len, lane);
}

INLINE void copy_all(const Launch &launch, const Facts &facts) {
    const Job *job = launch.job;
    const u64 *shares = job->shares;
    const u32 lane = threadIdx.x & 31;
    // Neighbours go to different multiprocessors.
    const u64 first = (u64)threadIdx.x / 32 * gridDim.x + blockIdx.x, step = (u64)gridDim.x * (THREADS / 32);
    const bool is_short = facts.longest <= SHARE;
    const u64 total = is_short ? launch.count : __ldcg(&shares[launch.count - 1]);
    for (u64 share = first; share < total; share += step) {
        u32 low = 0, high = is_short ? 0 : launch.count - 1;
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (__ldcg(&shares[middle]) > share) high = middle;
            else low = middle + 1;
        }
        u32 number = is_short ? (u32)share : low;
        Entry entry = entry_of(job, number);
        u64 before = is_short ? share : number > 0 ? __ldcg(&shares[number - 1]) : 0;
        u64 done = (share - before) * SHARE, left = entry.len - done;
        copy_share((u8 *)entry.dst + done, (const u8 *)entry.src + done, left < SHARE ? (u32)left : SHARE, lane);
    }
}

KERNEL ferry_copy_sealed(const Launch launch) {
    Counts &counts = counts_of(launch);
    read_all(launch);
    u32 next = take(&counts.to_compare);
    wait_for(&counts.all_read);
    const Facts facts = facts_of(launch);
    compare_all(launch, facts, next);
    if (wait_for(&counts.verdict) == APART) copy_all(launch, facts);
}
