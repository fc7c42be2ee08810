// The kernels of the cuda backend: copies whose addresses are read when they run, and moves inside overlapping memory.
// kernels.ptx is made from this file by regenerate.sh; a test checks that the two belong together.
//
// Each kernel is launched as one block, so that a barrier stands between reading and writing: a copy may overwrite the
// descriptor it was read from, and source and destination may overlap.

// Threads of the block: `THREADS` in queue.rs.
#define KERNEL extern "C" __global__ void __launch_bounds__(1024)

typedef unsigned char u8;
typedef unsigned long long u64;

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
