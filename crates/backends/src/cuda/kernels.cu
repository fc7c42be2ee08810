// The kernels of the cuda backend: many pieces at once, rectangles, copies whose addresses are read when they run, and moves
// inside overlapping memory. kernels.ptx is made from this file by regenerate.sh; a test checks that the two belong together.

#include "copy.cuh"

// Threads of a block: `THREADS` in device.rs at most.
#define KERNEL extern "C" __global__ void __launch_bounds__(1024)

// One piece to copy: `Entry` in ring.rs.
struct Entry {
    u8 *dst;
    const u8 *src;
    u64 len;
};

// Pieces of a tile, and pieces that lie next to each other in the list and go to one block.
#define ROOM 1024
#define RUN 8
// Words of an entry.
#define WORDS 3

// Pieces that fit into the parameters of a kernel: `FEW` in ring.rs.
struct Few {
    Entry entries[160];
};

// How many blocks have read their part of the list in a slot; back at 0 when all have. As many as `SLOTS` in ring.rs.
__device__ u32 passed[64];

// The slot is the host's again once every block has read its part of the list: the last one says so.
static __device__ void give_back(u32 slot, u64 number, volatile u64 *back) {
    if (threadIdx.x == 0 && atomicInc(&passed[slot], gridDim.x - 1) == gridDim.x - 1) *back = number;
}

// Pieces that do not meet each other, a few threads for each. The list lies in page-locked memory: a block fetches its part of
// it, every so many runs one, in one go.
KERNEL ferry_pieces(const u64 *list, u32 count, u32 lanes, u32 slot, u64 number, volatile u64 *back) {
    __shared__ u64 tile[WORDS * ROOM];
    const u32 runs = (count + RUN - 1) / RUN;
    u32 mine = blockIdx.x < runs ? ((runs - 1 - blockIdx.x) / gridDim.x + 1) * RUN : 0;
    if (count % RUN != 0 && (runs - 1) % gridDim.x == blockIdx.x) mine -= RUN - count % RUN;
    u32 first = 0;
    do {
        const u32 here = mine - first < ROOM ? mine - first : ROOM;
        __syncthreads();
        for (u32 word = threadIdx.x; word < WORDS * here; word += blockDim.x) {
            const u32 run = (first / RUN + word / (WORDS * RUN)) * gridDim.x + blockIdx.x;
            tile[word] = list[(u64)run * (WORDS * RUN) + word % (WORDS * RUN)];
        }
        __syncthreads();
        if (first + here == mine) give_back(slot, number, back);
        for (u32 i = threadIdx.x / lanes; i < here; i += blockDim.x / lanes) {
            const Entry *entry = (const Entry *)(tile + WORDS * i);
            copy_span(entry->dst, entry->src, entry->len, threadIdx.x % lanes, lanes);
        }
        first += here;
    } while (first < mine);
}

// The same for a few pieces, which come with the launch.
KERNEL ferry_pieces_inline(const Few few, u32 count, u32 lanes) {
    for (u32 i = threadIdx.x / lanes * gridDim.x + blockIdx.x; i < count; i += blockDim.x / lanes * gridDim.x) {
        const Entry &entry = few.entries[i];
        copy_span(entry.dst, entry.src, entry.len, threadIdx.x % lanes, lanes);
    }
}

// A rectangle: in the largest cells that its rows consist of, or, at odd addresses, row by row.
KERNEL ferry_rows(const Rectangle rows) {
    const u64 threads = (u64)blockDim.x * gridDim.x, thread = (u64)blockDim.x * blockIdx.x + threadIdx.x;
    const u64 all = (u64)rows.dst | rows.dst_pitch | (u64)rows.src | rows.src_pitch | rows.width;
    if ((all & 15) == 0) copy_cells<uint4>(rows, thread, threads);
    else if ((all & 7) == 0) copy_cells<u64>(rows, thread, threads);
    else if ((all & 3) == 0) copy_cells<u32>(rows, thread, threads);
    else copy_rows(rows, thread, threads);
}

// What went wrong and what was read. `Report` in device.rs is the same.
struct Report {
    u64 ticket;
    u64 words[5];
    u64 spare[2];
};

// A ring in page-locked memory of one queue, `Report`s behind it. Only kernels of that queue move `written`, one after the
// other; only the host moves `taken`. When the ring is full later reports are dropped: the first one is what counts.
struct Reports {
    volatile u64 written;
    volatile u64 taken;
    u64 room;
    u64 spare[5];
};

static __device__ void report(Reports *reports, u64 ticket, const u64 *words) {
    if (threadIdx.x != 0) return;
    u64 written = reports->written;
    if (written - reports->taken >= reports->room) return;
    Report *slot = (Report *)(reports + 1) + written % reports->room;
    slot->ticket = ticket;
    for (int i = 0; i < 5; i++) slot->words[i] = words[i];
    __threadfence_system();
    reports->written = written + 1;
}

// 64 bits at any alignment.
static __device__ u64 word(const u8 *at) {
    if (((u64)at & 7) == 0) return *(const u64 *)at;
    u64 value = 0;
    for (int i = 0; i < 8; i++) value |= (u64)at[i] << (8 * i);
    return value;
}

// As `digest` in the core's indirect.rs.
static __device__ u64 digest(u64 key, u64 src, u64 dst, u64 len) {
    u64 fields[3] = {src, dst, len};
    u64 sum = key;
    for (int i = 0; i < 3; i++) {
        u64 mixed = (sum ^ fields[i]) * 0x9e3779b97f4a7c15ull;
        sum = mixed ^ (mixed >> 32);
    }
    return sum;
}

// The two below run as one block, so that a barrier stands between reading and writing: a copy may overwrite the descriptor it
// was read from, and source and destination may overlap.

static __device__ void copy_apart(u8 *dst, const u8 *src, u64 len) {
    u64 head = len, body = 0;
    if ((((u64)dst ^ (u64)src) & 15) == 0) {
        head = (16 - ((u64)dst & 15)) & 15;
        if (head > len) head = len;
        body = (len - head) / 16;
    }
    for (u64 i = threadIdx.x; i < head; i += blockDim.x) dst[i] = src[i];
    uint4 *to = (uint4 *)(dst + head);
    const uint4 *from = (const uint4 *)(src + head);
    for (u64 i = threadIdx.x; i < body; i += blockDim.x) to[i] = from[i];
    for (u64 i = head + 16 * body + threadIdx.x; i < len; i += blockDim.x) dst[i] = src[i];
}

// One chunk after the other, each read whole before it is written: upwards if the destination is below the source.
static __device__ void copy_overlapping(u8 *dst, const u8 *src, u64 len) {
    const u64 chunk = 16 * (u64)blockDim.x;
    const u64 chunks = (len + chunk - 1) / chunk;
    for (u64 turn = 0; turn < chunks; turn++) {
        u64 start = (dst < src ? turn : chunks - 1 - turn) * chunk + threadIdx.x;
        u8 held[16];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            u64 at = start + i * (u64)blockDim.x;
            if (at < len) held[i] = src[at];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            u64 at = start + i * (u64)blockDim.x;
            if (at < len) dst[at] = held[i];
        }
        __syncthreads();
    }
}

static __device__ void move(u8 *dst, const u8 *src, u64 len) {
    u64 apart = dst < src ? (u64)(src - dst) : (u64)(dst - src);
    if (apart == 0) return;
    if (apart >= len) copy_apart(dst, src, len);
    else copy_overlapping(dst, src, len);
}

KERNEL ferry_move(u8 *dst, const u8 *src, u64 len) { move(dst, src, len); }

// A sealed descriptor: mark, source, destination, length, seal. Anything else is reported and touches nothing.
KERNEL ferry_copy_sealed(const u8 *descriptor, u64 mark, u64 key, Reports *reports, u64 ticket) {
    u64 words[5];
    for (int i = 0; i < 5; i++) words[i] = word(descriptor + 8 * i);
    __syncthreads();
    u64 src = words[1], dst = words[2], len = words[3];
    if (words[0] == mark && words[4] == digest(key, src, dst, len)) move((u8 *)dst, (const u8 *)src, len);
    else report(reports, ticket, words);
}
