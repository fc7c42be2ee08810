// The resident kernel: copies batches one after the other, as the host tells of them through a ring in pinned
// memory, and ends by itself when none has come for a while. A kernel for each batch would have to wait for
// multiprocessors each time, where other kernels use all of them.
//
// One warp leads: it polls the ring and publishes each batch in device memory, where all others look. These
// work: each copies its share of the list, and the last one to be done rings. resident.rs has the host's
// half.

#include "copy.cuh"

// Warps of a block that has a leader: the last one leads.
#define THREADS 512
// Batches that may be under way, and words that tell of one: as `BATCHES` and `WORDS` of the Rust side.
#define BATCHES 64
#define BATCH_WORDS 6
// Words between one batch and the next in the ring, which are a cache line.
#define STRIDE 8
// Words of an entry of a list.
#define ENTRY_WORDS 3
// Cells that a thread reads before it writes, between aligned ends: what is under way fills the link though
// few multiprocessors are used.
#define CELLS 8

// A batch. In the ring each word has the low 16 bits of the batch's number, from 1, on top: a word that has
// not been written yet has others.
struct Batch {
    const u64 *list;
    u64 shape;
    // Where the host learns that the slot of the list is free, and the number that says so.
    u64 *back;
    u64 back_number;
    // The doorbell of the stream, and the number that tells of this batch.
    u64 *doorbell;
    u64 bell_number;
};

// Parts of `shape`.
#define COUNT_BITS 13
#define LANES_AT 13
#define LANES_BITS 6
// The batches before it must be done.
#define ORDERED (1 << 19)
// No batch: the kernel ends.
#define LAST (1 << 20)
// After so many pieces a thread waits until what it wrote has arrived, if not 0: what is on its way to the
// host then does not hold up the memory of others.
#define PAUSE_AT 21
#define PAUSE_BITS 4
// The power of two of pieces that a thread copies side by side: the shorter they are, the more.
#define BESIDE_AT 25
#define BESIDE_BITS 2

#define TAG_AT 48

// In device memory, zero at first, and used by one kernel after the other.
struct Progress {
    // Low: how many batches were published. High: the newest generation that ends.
    u64 news;
    // How many batches are done.
    u32 completed;
    u32 unused;
    // Workers that are done with a batch, and entries of it that were taken besides the first of each worker.
    u32 arrived[BATCHES];
    u32 taken[BATCHES];
    Batch batches[BATCHES];
};

// What the host sees of the kernel: above it, the low 16 bits of the number of batches that it has taken, and
// its generation.
enum { OPEN = 1, CLOSING = 2, CLOSED = 3 };
#define TAKEN_AT 8
#define GENERATION_AT 24

static __device__ __forceinline__ u64 load_of_host(const u64 *at) {
    u64 word;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

static __device__ __forceinline__ void store_for_host(u64 *at, u64 word) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

static __device__ __forceinline__ u64 acquire(const u64 *at) {
    u64 word;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

static __device__ __forceinline__ u32 acquire(const u32 *at) {
    u32 word;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
    return word;
}

static __device__ __forceinline__ void release(u64 *at, u64 word) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

static __device__ __forceinline__ u64 now_ns() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

// Whether `number` comes before `other`; both may have wrapped round.
static __device__ __forceinline__ bool is_before(u32 number, u32 other) {
    return (int)(number - other) < 0;
}

// Parts of the shape of a batch.
static __device__ __forceinline__ u32 count_of(u64 shape) { return shape & ((1 << COUNT_BITS) - 1); }
static __device__ __forceinline__ u32 lanes_of(u64 shape) {
    return shape >> LANES_AT & ((1 << LANES_BITS) - 1);
}
static __device__ __forceinline__ u32 pause_of(u64 shape) {
    return shape >> PAUSE_AT & ((1 << PAUSE_BITS) - 1);
}
static __device__ __forceinline__ u32 beside_of(u64 shape) {
    return 1 << (shape >> BESIDE_AT & ((1 << BESIDE_BITS) - 1));
}
// Entries that a warp copies at once, 16 at most.
static __device__ __forceinline__ u32 at_once_of(u64 shape) {
    return 32 / lanes_of(shape) * beside_of(shape);
}

// Whole cells between aligned ends.
static __device__ __forceinline__ void copy_cells_ahead(u8 *dst, const u8 *src, u32 cells, u32 lane,
                                                        u32 lanes) {
    const uint4 *from = (const uint4 *)src + lane;
    uint4 *to = (uint4 *)dst + lane;
#pragma unroll 1
    for (int left = (int)(cells - lane); left > 0; left -= CELLS * (int)lanes) {
        uint4 held[CELLS];
#pragma unroll
        for (int i = 0; i < CELLS; i++, from += lanes)
            if (left > i * (int)lanes) held[i] = fetch(from);
#pragma unroll
        for (int i = 0; i < CELLS; i++, to += lanes)
            if (left > i * (int)lanes) *to = held[i];
    }
}

// The words of as many entries as a warp copies at once, 16 at most: two for each lane.
struct Entries {
    u64 low, high;

    // Those from `first` on.
    __device__ __forceinline__ void fetch(const Batch *batch, u32 first) {
        const u32 count = count_of(batch->shape), at_once = at_once_of(batch->shape);
        const u32 here = first >= count ? 0 : count - first < at_once ? count - first : at_once;
        const u32 words = ENTRY_WORDS * here, lane = threadIdx.x % 32;
        const u64 *at = batch->list + ENTRY_WORDS * (u64)first + lane;
        low = lane < words ? at[0] : 0;
        high = lane + 32 < words ? at[32] : 0;
    }

    // A word of them, for each lane another one.
    __device__ __forceinline__ u64 word(u32 index) const {
        const u64 below = __shfl_sync(~0u, low, index % 32), above = __shfl_sync(~0u, high, index % 32);
        return index < 32 ? below : above;
    }
};

// Copies the entries that a warp has fetched, of which there are `here`: each thread has cells of so
// many pieces under way at once. Whether that is all: not what is longer, or not aligned.
template <u32 BESIDE>
static __device__ __forceinline__ bool copy_round(const Entries &entries, u32 here, u32 lanes) {
    const u32 each = CELLS / BESIDE, lane = threadIdx.x % lanes, group = threadIdx.x % 32 / lanes;
    uint4 *dst[BESIDE];
    u32 cells[BESIDE];
    uint4 held[CELLS];
    bool is_all = true;
#pragma unroll
    for (u32 i = 0; i < BESIDE; i++) {
        const u32 entry = i * (32 / lanes) + group;
        dst[i] = (uint4 *)entries.word(ENTRY_WORDS * entry) + lane;
        const uint4 *src = (const uint4 *)entries.word(ENTRY_WORDS * entry + 1) + lane;
        const u64 len = entries.word(ENTRY_WORDS * entry + 2);
        const bool is_aligned = (((u64)dst[i] | (u64)src | len) & 15) == 0;
        cells[i] = entry < here && is_aligned ? (u32)(len / 16) : 0;
        is_all = is_all && (entry >= here || is_aligned && cells[i] <= each * lanes);
#pragma unroll
        for (u32 k = 0; k < each; k++)
            if (lane + k * lanes < cells[i]) held[i * each + k] = fetch(src + k * lanes);
    }
#pragma unroll
    for (u32 i = 0; i < BESIDE; i++)
#pragma unroll
        for (u32 k = 0; k < each; k++)
            if (lane + k * lanes < cells[i]) dst[i][k * lanes] = held[i * each + k];
    return __all_sync(~0u, is_all);
}

// Copies what such a round leaves. Written once for all of them: the compiler runs out of registers else.
static __device__ __forceinline__ void copy_rest(const Entries &entries, u32 here, u32 lanes, u32 beside) {
    const u32 lane = threadIdx.x % lanes, group = threadIdx.x % 32 / lanes;
    const u32 done = 16 * CELLS / beside * lanes;
#pragma unroll 1
    for (u32 i = 0; i < beside; i++) {
        const u32 entry = i * (32 / lanes) + group;
        u8 *to = (u8 *)entries.word(ENTRY_WORDS * entry);
        const u8 *from = (const u8 *)entries.word(ENTRY_WORDS * entry + 1);
        const u64 len = entries.word(ENTRY_WORDS * entry + 2);
        const bool is_aligned = (((u64)to | (u64)from | len) & 15) == 0;
        if (entry < here && !is_aligned) copy_span<4, CELLS>(to, from, len, lane, lanes);
        if (entry < here && is_aligned && len > done)
            copy_cells_ahead(to + done, from + done, (u32)((len - done) / 16), lane, lanes);
    }
}

// Copies what a worker gets of a batch: the entries from `first` on, which it has fetched, and then, again
// and again, the next that nobody has taken. Those are taken, and the ones before them fetched, while some
// are copied.
static __device__ __forceinline__ void copy_entries(const Batch *batch, u32 *taken, Entries entries,
                                                    u32 first, u32 workers) {
    const u64 shape = batch->shape;
    const u32 lane = threadIdx.x % 32, lanes = lanes_of(shape), count = count_of(shape);
    const u32 pause = pause_of(shape), beside = beside_of(shape), at_once = at_once_of(shape);
    const u32 begin = workers * at_once;
    u32 second = lane == 0 ? begin + atomicAdd(taken, at_once) : 0, round = 0;
    second = __shfl_sync(~0u, second, 0);
#pragma unroll 1
    while (first < count) {
        Entries next;
        next.fetch(batch, second);
        const u32 third = lane == 0 && second < count ? begin + atomicAdd(taken, at_once) : second;
        const u32 here = count - first;
        bool is_all;
        if (beside == 1) is_all = copy_round<1>(entries, here, lanes);
        else if (beside == 2) is_all = copy_round<2>(entries, here, lanes);
        else is_all = copy_round<4>(entries, here, lanes);
        if (!is_all) copy_rest(entries, here, lanes, beside);
        if (pause && ++round % pause == 0) __threadfence_system();
        first = second;
        entries = next;
        second = __shfl_sync(~0u, third, 0);
    }
}

// A worker: takes part in batch after batch, from `next` on, until the leader of its generation ends.
static __device__ __forceinline__ void work(Progress *progress, u32 next, u32 generation, u32 worker,
                                            u32 workers) {
#pragma unroll 1
    for (;; next++) {
        u64 news;
        do news = acquire(&progress->news);
        while (!is_before(next, (u32)news) && (u32)(news >> 32) != generation);
        if (!is_before(next, (u32)news)) return;
        __syncwarp();
        const u32 place = next % BATCHES;
        const Batch *batch = &progress->batches[place];
        const u32 first = worker * at_once_of(batch->shape);
        Entries entries;
        entries.fetch(batch, first);
        if (batch->shape & ORDERED)
            while (is_before(acquire(&progress->completed), next)) {}
        __syncwarp();
        copy_entries(batch, &progress->taken[place], entries, first, workers);
        __threadfence_system();
        __syncwarp();
        if (threadIdx.x % 32 == 0 && atomicAdd(&progress->arrived[place], 1) == workers - 1) {
            progress->arrived[place] = 0;
            progress->taken[place] = 0;
            __threadfence_system();
            // Read first: what is stored frees the place, and the next batch may come there.
            const Batch done = *batch;
            store_for_host(done.back, done.back_number);
            store_for_host(done.doorbell, done.bell_number);
            __threadfence();
            atomicAdd(&progress->completed, 1);
        }
    }
}

// Whether the batch with this tag is in the ring; `word` is this lane's word of it.
static __device__ __forceinline__ bool has_come(const u64 *at, u64 tag, u64 *word) {
    *word = threadIdx.x % 32 < BATCH_WORDS ? load_of_host(at) : tag << TAG_AT;
    return __all_sync(~0u, *word >> TAG_AT == tag);
}

// The leader: publishes batch after batch, until one says that it is the last, or all are done and none comes
// for `idle_ns`.
// Then it says that it is closing and looks once more: a batch that the host has told of before it could see
// this is still taken, and a host that sees it waits for what comes of it. One that has closed says how many
// it has taken.
static __device__ __forceinline__ void lead(const u64 *ring, Progress *progress, u64 *state, u32 next,
                                            u32 generation, u64 idle_ns) {
    const u32 lane = threadIdx.x % 32;
    const u64 own = (u64)generation << GENERATION_AT, open = own | OPEN;
    if (lane == 0) store_for_host(state, open);
    bool is_over = false;
    while (!is_over) {
        const u64 tag = next + 1 & 0xffff, *at = ring + next % BATCHES * STRIDE + lane;
        u64 since = now_ns();
        const u64 closed = own | (u64)(next & 0xffff) << TAKEN_AT | CLOSED;
        u64 word;
        while (!has_come(at, tag, &word) && !is_over) {
            if (acquire(&progress->completed) != next) since = now_ns();
            if (!__shfl_sync(~0u, now_ns() - since > idle_ns, 0)) continue;
            if (lane == 0) store_for_host(state, own | CLOSING);
            __threadfence_system();
            __syncwarp();
            is_over = !has_come(at, tag, &word);
            if (lane == 0) store_for_host(state, is_over ? closed : open);
            if (!is_over) break;
        }
        word &= ((u64)1 << TAG_AT) - 1;
        if (!is_over && __shfl_sync(~0u, word, 1) & LAST) {
            is_over = true;
            // It counts as done when all before it are.
            if (lane == 0) {
                while (acquire(&progress->completed) != next) {}
                atomicAdd(&progress->completed, 1);
            }
        }
        if (!is_over && lane < BATCH_WORDS) ((u64 *)&progress->batches[next % BATCHES])[lane] = word;
        __threadfence_system();
        __syncwarp();
        // Workers of this generation wait for more unless it ends; those of the next have not begun.
        const u64 goes_on = (u64)(generation - 1) << 32 | (next + 1), ends = (u64)generation << 32 | next;
        const u64 news = is_over ? ends : goes_on;
        if (lane == 0) release(&progress->news, news);
        next++;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
ferry_resident(const u64 *ring, Progress *progress, u64 *state, u32 first, u32 generation, u64 idle_ns) {
    const u32 warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const bool is_last_row = warp == warps - 1;
    if (is_last_row && blockIdx.x == 0)
        return lead(ring, progress, state, first, generation, idle_ns);
    // Neighbours in a list go to different multiprocessors. The leader would have been the first of the last
    // row.
    const u32 worker = warp * gridDim.x + blockIdx.x - is_last_row;
    work(progress, first, generation, worker, warps * gridDim.x - 1);
}
