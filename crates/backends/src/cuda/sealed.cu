// Copies through descriptors, which are read when the copy runs. One launch does many that were queued one after the other, as if
// one after the other: all descriptors are read, and if no copy writes what another one reads or writes all blocks copy at once. If
// one does, one block does all of them in order, and reads each descriptor when its turn comes.
//
// Reading and comparing is cut into turns of 32 descriptors, which blocks take. Blocks wait only for turns that others have taken,
// never for a block that may not have begun. So it does not matter how many of them run at a time, and beside what.

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

// Memory in the device, one for each queue. All of `Counts` is zero between launches.
struct Counts {
    // Turns that blocks have taken and done, reading and comparing.
    u32 to_read, read, to_compare, compared;
    // Blocks that are through.
    u32 gone;
    // Whether there is a bad descriptor, and whether copies meet.
    u32 has_bad, meet;
    volatile u32 all_read;
    volatile u32 verdict;
    u32 spare;
    u64 longest;
    Box dst, src, descriptors;
};
struct Job {
    Counts counts;
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
    Run run[RUNS];
};

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
static __device__ bool are_alive(const u32 *live, u64 one, u64 two) {
    u32 slots[2] = {(u32)(one >> 32), (u32)(two >> 32)};
    if (slots[0] == ~0u || slots[1] == ~0u) return false;
    // Both are fetched before one is looked at: they are far away.
    u32 first = slots[0] ? live[slots[0]] : (u32)one, second = slots[1] ? live[slots[1]] : (u32)two;
    return (first == (u32)one) & (second == (u32)two);
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

// Reads a descriptor. Whether it was sealed, and names memory that is still there.
INLINE bool read(const Launch &launch, u32 number, u64 *words) {
    const u8 *at = descriptor(launch, number);
    for (int i = 0; i < WORDS; i++) words[i] = word(at + 8 * i);
    return words[0] == launch.mark && words[WORDS - 1] == digest(launch.key, words + 1) &&
           are_alive(launch.live, words[4], words[5]);
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
        bool is_good = read(launch, number, words);
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

static __device__ u64 most_of_warp(u64 value) {
    for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

static __device__ void widen(Box *box, u64 start, u64 len) {
    u64 below = most_of_warp(len ? ~start : 0), above = most_of_warp(len ? start + len : 0);
    if (threadIdx.x == 0 && above > 0) {
        atomicMax(&box->below, below);
        atomicMax(&box->above, above);
    }
}

// By one warp: a descriptor for each thread.
INLINE void resolve(const Launch &launch, u32 number) {
    Counts &counts = launch.job->counts;
    Entry entry = {0, 0, 0};
    u64 at = 0;
    if (number < launch.count) {
        u64 words[WORDS];
        at = (u64)descriptor(launch, number);
        if (read(launch, number, words)) entry = Entry{words[2], words[1], words[3]};
        else entry.src = NOWHERE;
        launch.job->entries[number] = entry;
    }
    widen(&counts.dst, entry.dst, entry.len);
    widen(&counts.src, entry.src, entry.len);
    widen(&counts.descriptors, at, at ? 8 * WORDS : 0);
    u64 longest = most_of_warp(entry.len);
    u32 bad = __ballot_sync(~0u, entry.src == NOWHERE);
    if (threadIdx.x == 0) {
        atomicMax(&counts.longest, longest);
        if (bad) atomicOr(&counts.has_bad, 1);
    }
}

// Takes the next turn of a kind. All threads of the block know it.
INLINE u32 take(u32 *turns) {
    __shared__ u32 turn;
    __syncthreads();
    if (threadIdx.x == 0) turn = atomicAdd(turns, 1);
    __syncthreads();
    return turn;
}

// All of the block's work for a turn is done. Whether all of them are, which is true for one block.
INLINE bool is_last(u32 *turns, u32 all) {
    __shared__ u32 done;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) done = all == 1 ? 1 : atomicAdd(turns, 1) + 1;
    __syncthreads();
    return done == all;
}

static __device__ void wait_for(const volatile u32 *flag) {
    if (threadIdx.x == 0)
        while (*flag == 0) __nanosleep(20);
    __syncthreads();
    __threadfence();
}

INLINE void read_all(const Launch &launch, u32 turns) {
    Counts &counts = launch.job->counts;
    for (u32 turn; (turn = take(&counts.to_read)) < turns;) {
        if (threadIdx.x < 32) resolve(launch, 32 * turn + threadIdx.x);
        if (is_last(&counts.read, turns) && threadIdx.x == 0) counts.all_read = 1;
    }
}

// Then whether the copies can be done at once: whether what one writes meets what another one writes, or one reads.

static __device__ Entry entry_of(const Job *job, u32 number) {
    const volatile Entry *at = &job->entries[number];
    return Entry{at->dst, at->src, at->len};
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

// Compares the copies of a turn with the destinations of all.
INLINE bool meets(const Launch &launch, u32 turn) {
    __shared__ Span spans[3][32];
    const Job *job = launch.job;
    const Counts &counts = job->counts;
    const Scale scale(counts.dst);
    const bool meets_src = meet(counts.dst, counts.src), meets_descriptors = meet(counts.dst, counts.descriptors);
    if (threadIdx.x < 32) {
        u32 number = 32 * turn + threadIdx.x;
        bool is_one = number < launch.count;
        Entry entry = is_one ? entry_of(job, number) : Entry{0, 0, 0};
        spans[0][threadIdx.x] = scale.of(entry.dst, entry.len);
        spans[1][threadIdx.x] = scale.of(entry.src, entry.len);
        spans[2][threadIdx.x] = scale.of(is_one ? (u64)descriptor(launch, number) : 0, is_one ? 8 * WORDS : 0);
    }
    __syncthreads();
    bool found = false;
    for (u32 other = threadIdx.x; other < launch.count; other += THREADS) {
        Entry entry = entry_of(job, other);
        Span own = scale.of(entry.dst, entry.len);
#pragma unroll 8
        for (u32 i = 0; i < 32; i++) {
            Span span = spans[0][i];
            found |= own.start < span.end && span.start < own.end && other != 32 * turn + i;
        }
        for (int kind = 1; kind < 3; kind++) {
            if (!(kind == 1 ? meets_src : meets_descriptors)) continue;
#pragma unroll 8
            for (u32 i = 0; i < 32; i++) {
                Span span = spans[kind][i];
                found |= own.start < span.end && span.start < own.end;
            }
        }
    }
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
INLINE void judge(const Launch &launch) {
    Counts &counts = launch.job->counts;
    __threadfence();
    bool apart = *(volatile u32 *)&counts.meet == 0;
    if (apart && counts.longest > SHARE) count_shares(launch);
    if (apart && counts.has_bad && threadIdx.x == 0) report_all(launch);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) counts.verdict = apart ? APART : IN_ORDER;
    if (!apart) copy_in_order(launch);
}

INLINE void compare_all(const Launch &launch, u32 turns) {
    Counts &counts = launch.job->counts;
    for (u32 turn; (turn = take(&counts.to_compare)) < turns;) {
        wait_for(&counts.all_read);
        if (meets(launch, turn)) atomicOr(&counts.meet, 1);
        if (is_last(&counts.compared, turns)) judge(launch);
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

INLINE void copy_all(const Launch &launch) {
    const Job *job = launch.job;
    const volatile u64 *shares = job->shares;
    const u32 lane = threadIdx.x & 31;
    // Neighbours go to different multiprocessors.
    const u64 first = (u64)threadIdx.x / 32 * gridDim.x + blockIdx.x, step = (u64)gridDim.x * (THREADS / 32);
    const bool is_short = *(const volatile u64 *)&job->counts.longest <= SHARE;
    const u64 total = is_short ? launch.count : shares[launch.count - 1];
    for (u64 share = first; share < total; share += step) {
        u32 low = 0, high = is_short ? 0 : launch.count - 1;
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (shares[middle] > share) high = middle;
            else low = middle + 1;
        }
        u32 number = is_short ? (u32)share : low;
        Entry entry = entry_of(job, number);
        u64 before = is_short ? share : number > 0 ? shares[number - 1] : 0;
        u64 done = (share - before) * SHARE, left = entry.len - done;
        copy_share((u8 *)entry.dst + done, (const u8 *)entry.src + done, left < SHARE ? (u32)left : SHARE, lane);
    }
}

KERNEL ferry_copy_sealed(const Launch launch) {
    Counts &counts = launch.job->counts;
    const u32 turns = (launch.count + 31) / 32;
    read_all(launch, turns);
    compare_all(launch, turns);
    wait_for(&counts.verdict);
    if (counts.verdict == APART) copy_all(launch);
    __syncthreads();
    // The last to go leaves it as it was found.
    if (threadIdx.x == 0 && atomicAdd(&counts.gone, 1) + 1 == gridDim.x) {
        counts.to_read = counts.read = counts.to_compare = counts.compared = counts.gone = 0;
        counts.has_bad = counts.meet = 0;
        counts.all_read = 0;
        counts.verdict = 0;
        counts.longest = 0;
        counts.dst = counts.src = counts.descriptors = Box{0, 0};
    }
}
