// Copying by several threads of a GPU together, at any alignment and length. The two ends of a copy do not
// overlap, except where it is said.
//
// What is under way at once decides the speed: a thread reads `DEPTH` cells before it writes the first of
// them. More of them gain nothing over the link and lose a third inside an H200. Ends that do not agree in
// their alignment are read and written in whole cells all the same, and shifted in between.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Cells that a thread reads before it writes.
#define DEPTH 4

// Each byte is read once: it need not stay in a cache.
template <typename T> static __device__ __forceinline__ T fetch(const T *at) { return __ldcs(at); }

// Whole cells, both ends aligned to them.
static __device__ __forceinline__ void copy_body(uint4 *to, const uint4 *from, u64 cells, u32 lane,
                                                 u32 lanes) {
    for (u64 start = lane; start < cells; start += DEPTH * lanes) {
        uint4 held[DEPTH];
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++)
            if (start + i * lanes < cells) held[i] = fetch(from + start + i * lanes);
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++)
            if (start + i * lanes < cells) to[start + i * lanes] = held[i];
    }
}

// The 16 bytes that start `skew` bytes behind the start of `low`, which `high` follows.
static __device__ __forceinline__ uint4 shifted(uint4 low, uint4 high, u32 skew) {
    u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 i = 0; i < 6; i++) words[i] = skew & 8 ? words[i + 2] : words[i];
#pragma unroll
    for (u32 i = 0; i < 5; i++) words[i] = skew & 4 ? words[i + 1] : words[i];
    const u32 bits = 8 * (skew & 3);
    return make_uint4(__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
                      __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits));
}

// Whole cells of an aligned destination. Of the cells around the source only such are read as hold a byte of
// it, so nothing outside its pages is touched.
template <u32 AHEAD>
static __device__ __forceinline__ void copy_body_shifted(uint4 *to, const u8 *src, u64 cells, u32 lane,
                                                         u32 lanes) {
    const u32 skew = (u64)src & 15;
    const uint4 *from = (const uint4 *)(src - skew);
    for (u64 start = lane; start < cells; start += AHEAD / 2 * lanes) {
        uint4 low[AHEAD / 2], high[AHEAD / 2];
#pragma unroll
        for (u32 i = 0; i < AHEAD / 2; i++)
            if (start + i * lanes < cells) {
                low[i] = from[start + i * lanes];
                high[i] = from[start + i * lanes + 1];
            }
#pragma unroll
        for (u32 i = 0; i < AHEAD / 2; i++)
            if (start + i * lanes < cells) to[start + i * lanes] = shifted(low[i], high[i], skew);
    }
}

// `len` bytes by `lanes` threads, of which this is number `lane`: 30 / EDGES threads at least. Between ends
// that do not agree, half of AHEAD cells are under way for each.
template <u32 EDGES = 4, u32 AHEAD = DEPTH>
static __device__ __forceinline__ void copy_span(u8 *dst, const u8 *src, u64 len, u32 lane, u32 lanes) {
    u64 head = (16 - ((u64)dst & 15)) & 15;
    if (head > len) head = len;
    const u64 cells = (len - head) / 16;
    // The bytes before and behind the cells, 30 at most, are read first and written last.
    const u64 body = 16 * cells, edges = len - body;
    u8 held[EDGES];
#pragma unroll
    for (u32 i = 0; i < EDGES; i++) {
        const u64 at = lane + i * lanes;
        if (at < edges) held[i] = src[at < head ? at : at + body];
    }
    if (((u64)(src + head) & 15) == 0)
        copy_body((uint4 *)(dst + head), (const uint4 *)(src + head), cells, lane, lanes);
    else copy_body_shifted<AHEAD>((uint4 *)(dst + head), src + head, cells, lane, lanes);
#pragma unroll
    for (u32 i = 0; i < EDGES; i++) {
        const u64 at = lane + i * lanes;
        if (at < edges) dst[at < head ? at : at + body] = held[i];
    }
}

// By one block, so that a barrier stands between reading and writing, inside overlapping memory: one chunk
// after the other, each read whole before it is written; upwards if the destination is below the source.
static __device__ __forceinline__ void copy_overlapping(u8 *dst, const u8 *src, u64 len) {
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

// A rectangle of bytes to move: `Rows` in the core, in this order.
struct Rectangle {
    u8 *dst;
    u64 dst_pitch;
    const u8 *src;
    u64 src_pitch;
    u64 width;
    u64 height;
};

// A rectangle whose rows consist of whole cells, each thread `DEPTH` cells at a time.
template <typename T>
static __device__ __forceinline__ void copy_cells(const Rectangle &rows, u64 thread, u64 threads) {
    const u64 across = rows.width / sizeof(T);
    const u64 down = threads / across, aside = threads % across;
    const u64 dst_step = down * rows.dst_pitch + aside * sizeof(T), dst_wrap = rows.dst_pitch - rows.width;
    const u64 src_step = down * rows.src_pitch + aside * sizeof(T), src_wrap = rows.src_pitch - rows.width;
    u64 row = thread / across, column = thread % across;
    u8 *dst = rows.dst + row * rows.dst_pitch + column * sizeof(T);
    const u8 *src = rows.src + row * rows.src_pitch + column * sizeof(T);
    while (row < rows.height) {
        T held[DEPTH];
        u64 read_row = row, read_column = column;
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++) {
            if (read_row < rows.height) held[i] = fetch((const T *)src);
            const bool wraps = (read_column += aside) >= across;
            read_column -= wraps ? across : 0;
            read_row += down + wraps;
            src += src_step + (wraps ? src_wrap : 0);
        }
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++) {
            if (row < rows.height) *(T *)dst = held[i];
            const bool wraps = (column += aside) >= across;
            column -= wraps ? across : 0;
            row += down + wraps;
            dst += dst_step + (wraps ? dst_wrap : 0);
        }
    }
}

// A rectangle of any shape: a few threads for each part of a row.
static __device__ __forceinline__ void copy_rows(const Rectangle &rows, u64 thread, u64 threads) {
    const u64 part = 16384, parts = (rows.width + part - 1) / part;
    const u32 lanes = rows.width <= 1024 ? 8 : rows.width <= 2048 ? 16 : 32;
    for (u64 at = thread / lanes; at < parts * rows.height; at += threads / lanes) {
        const u64 row = at / parts, start = at % parts * part;
        const u64 len = rows.width - start < part ? rows.width - start : part;
        copy_span(rows.dst + row * rows.dst_pitch + start, rows.src + row * rows.src_pitch + start, len,
                  (u32)(thread % lanes), lanes);
    }
}
