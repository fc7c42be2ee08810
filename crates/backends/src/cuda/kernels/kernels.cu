// The kernels of the cuda backend that copy: many pieces at once, rectangles, and moves inside overlapping
// memory. kernels.ptx is made from this file by regenerate.sh; a test checks that the two belong together.

#include "copy.cuh"

// Threads of a block: at most `THREADS` of the Rust side.
#define KERNEL extern "C" __global__ void __launch_bounds__(1024)

// One segment to copy: `Segment` of the core.
struct Entry {
    u8 *dst;
    const u8 *src;
    u64 len;
};

// Words of an entry, and entries at most that a warp fetches at once.
#define WORDS 3
#define FETCHED 8

// Pieces that fit into the parameters of a kernel: as many as `INLINE_MAX` of the Rust side.
struct InlineList {
    Entry entries[160];
};

// How many blocks are through with the list in a slot; back at 0 when all are. As many as `SLOTS_MAX` of the
// Rust side.
__device__ u32 passed[64];

// The host waits for the word of each block: what the block wrote is there before it.
static __device__ void ring(volatile u64 *doorbell, u64 number) {
    __syncthreads();
    if (doorbell != 0 && threadIdx.x == 0) {
        __threadfence_system();
        doorbell[blockIdx.x] = number;
    }
}

// Pieces that do not meet each other, a few threads for each. The list lies in page-locked memory: a warp
// fetches what it copies in one go and waits for no other, and all begin with the first of the list. The slot
// is the host's again when the last block says so.
KERNEL ferry_pieces(const u64 *list, u32 count, u32 lanes, u32 slot, u64 number, volatile u64 *back,
                    volatile u64 *doorbell, u64 rings) {
    const u32 lane = threadIdx.x % 32, at_once = 32 / lanes, warps = gridDim.x * (blockDim.x / 32);
    const u32 fair = ((count + warps - 1) / warps + at_once - 1) / at_once * at_once;
    const u32 each = fair < FETCHED ? fair : FETCHED;
    for (u32 first = (threadIdx.x / 32 * gridDim.x + blockIdx.x) * each; first < count;
         first += warps * each) {
        const u32 here = count - first < each ? count - first : each;
        const u64 word = lane < WORDS * here ? list[WORDS * (u64)first + lane] : 0;
        for (u32 start = 0; start < here; start += at_once) {
            const u32 entry = start + lane / lanes;
            u8 *dst = (u8 *)__shfl_sync(~0u, word, WORDS * entry);
            const u8 *src = (const u8 *)__shfl_sync(~0u, word, WORDS * entry + 1);
            const u64 len = __shfl_sync(~0u, word, WORDS * entry + 2);
            if (entry < here) copy_span(dst, src, len, lane % lanes, lanes);
        }
    }
    ring(doorbell, rings);
    if (threadIdx.x == 0 && atomicInc(&passed[slot], gridDim.x - 1) == gridDim.x - 1) *back = number;
}

// As `ferry_pieces`, for a few pieces, which come with the launch.
KERNEL ferry_pieces_inline(const InlineList list, u32 count, u32 lanes, volatile u64 *doorbell, u64 rings) {
    for (u32 i = threadIdx.x / lanes * gridDim.x + blockIdx.x; i < count;
         i += blockDim.x / lanes * gridDim.x) {
        const Entry &entry = list.entries[i];
        copy_span(entry.dst, entry.src, entry.len, threadIdx.x % lanes, lanes);
    }
    ring(doorbell, rings);
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

// A move inside overlapping memory, as one block.
KERNEL ferry_move(u8 *dst, const u8 *src, u64 len) { copy_overlapping(dst, src, len); }
