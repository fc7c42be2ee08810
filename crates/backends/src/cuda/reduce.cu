// Reductions inside a device: each element of the destination becomes its combination with one of the source, bit for bit what
// host/reduce.rs makes of them (docs/decisions/0010-reductions.md).
//
// Four bytes are taken at a time. They are one, two or four elements: a reduction is a whole number of those, at any alignment.

#define KERNEL extern "C" __global__ void __launch_bounds__(1024)

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// What to do is the sum of two: a type, and a way. The order is that of `Element` and `Combine` in the core.
enum Type { I8 = 0, I16 = 3, I32 = 6, U32 = 9, F16 = 12, BF16 = 15, F32 = 18 };
enum Way { SUM, MAX, MIN };

// The larger of two; no number if one is none. The positive zero is larger than the negative.
static __device__ float larger(float a, float b) {
    if (a != a || b != b) return __uint_as_float(0x7fc00000);
    return a > b || (a == b && __float_as_uint(a) >> 31 == 0) ? a : b;
}

template <Way way>
static __device__ float combined(float a, float b) {
    if (way == SUM) return __fadd_rn(a, b);
    return way == MAX ? larger(a, b) : -larger(-a, -b);
}

static __device__ u32 plain_nan(float x) { return x != x ? 0x7fc00000 : __float_as_uint(x); }

struct Half {
    static __device__ float read(u32 bits) {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
        return x;
    }
    static __device__ u32 write(float x) {
        u16 bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return x != x ? 0x7e00 : bits;
    }
};

struct Brain {
    static __device__ float read(u32 bits) { return __uint_as_float(bits << 16); }
    static __device__ u32 write(float x) {
        u32 bits = plain_nan(x);
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
};

template <class Float, Way way>
static __device__ u32 pair(u32 a, u32 b) {
    u32 low = Float::write(combined<way>(Float::read(a & 0xffff), Float::read(b & 0xffff)));
    u32 high = Float::write(combined<way>(Float::read(a >> 16), Float::read(b >> 16)));
    return low | high << 16;
}

template <Way way>
static __device__ u32 single(u32 a, u32 b) {
    return plain_nan(combined<way>(__uint_as_float(a), __uint_as_float(b)));
}

// Sixteen bytes at a time, so that finding out what to do costs little.
static __device__ void combine(u32 what, u32 *a, const u32 *b) {
#define DO(CASE, RESULT)                              \
    case CASE:                                        \
        _Pragma("unroll") for (int i = 0; i < 4; i++) \
            a[i] = RESULT;                            \
        return;
    switch (what) {
        DO(I8 + SUM, __vadd4(a[i], b[i]))
        DO(I8 + MAX, __vmaxs4(a[i], b[i]))
        DO(I8 + MIN, __vmins4(a[i], b[i]))
        DO(I16 + SUM, __vadd2(a[i], b[i]))
        DO(I16 + MAX, __vmaxs2(a[i], b[i]))
        DO(I16 + MIN, __vmins2(a[i], b[i]))
        DO(I32 + SUM, a[i] + b[i])
        DO(I32 + MAX, (u32)max((int)a[i], (int)b[i]))
        DO(I32 + MIN, (u32)min((int)a[i], (int)b[i]))
        DO(U32 + SUM, a[i] + b[i])
        DO(U32 + MAX, max(a[i], b[i]))
        DO(U32 + MIN, min(a[i], b[i]))
        DO(F16 + SUM, (pair<Half, SUM>(a[i], b[i])))
        DO(F16 + MAX, (pair<Half, MAX>(a[i], b[i])))
        DO(F16 + MIN, (pair<Half, MIN>(a[i], b[i])))
        DO(BF16 + SUM, (pair<Brain, SUM>(a[i], b[i])))
        DO(BF16 + MAX, (pair<Brain, MAX>(a[i], b[i])))
        DO(BF16 + MIN, (pair<Brain, MIN>(a[i], b[i])))
        DO(F32 + SUM, single<SUM>(a[i], b[i]))
        DO(F32 + MAX, single<MAX>(a[i], b[i]))
        DO(F32 + MIN, single<MIN>(a[i], b[i]))
    }
#undef DO
}

static __device__ u32 size_of(u32 what) {
    if (what < I16) return 1;
    return (what >= I32 && what < F16) || what >= F32 ? 4 : 2;
}

// The word at byte `from` of `len`, or what there is of it.
static __device__ u32 fetch(const u8 *at, u64 from, u64 len) {
    at += from;
    if (len - from >= 4 && ((u64)at & 3) == 0) return *(const u32 *)at;
    u32 word = 0;
    for (u64 i = 0; i < 4 && i < len - from; i++) word |= (u32)at[i] << (8 * i);
    return word;
}

static __device__ void put(u8 *at, u64 from, u64 len, u32 word) {
    at += from;
    if (len - from >= 4 && ((u64)at & 3) == 0) *(u32 *)at = word;
    else
        for (u64 i = 0; i < 4 && i < len - from; i++) at[i] = (u8)(word >> (8 * i));
}

// Words from `start` on, `step` apart, as many as one thread takes at a time and fewer at the end.
struct Four {
    u64 start, step, len;
    u32 words[4];

    __device__ void read(const u8 *at) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u64 from = 4 * (start + i * step);
            words[i] = from < len ? fetch(at, from, len) : 0;
        }
    }
    __device__ void write(u8 *at) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u64 from = 4 * (start + i * step);
            if (from < len) put(at, from, len, words[i]);
        }
    }
};

// Any alignment, all blocks.
static __device__ void word_by_word(u8 *dst, const u8 *src, u64 len, u32 what) {
    u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 start = (u64)blockIdx.x * blockDim.x + threadIdx.x; 4 * start < len; start += 4 * threads) {
        Four a = {start, threads, len}, b = {start, threads, len};
        a.read(dst);
        b.read(src);
        combine(what, a.words, b.words);
        a.write(dst);
    }
}

// Both aligned to 16 bytes, all blocks.
static __device__ void vector_by_vector(uint4 *dst, const uint4 *src, u64 count, u32 what) {
    u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        uint4 to = dst[i], from = src[i];
        u32 a[4] = {to.x, to.y, to.z, to.w}, b[4] = {from.x, from.y, from.z, from.w};
        combine(what, a, b);
        dst[i] = make_uint4(a[0], a[1], a[2], a[3]);
    }
}

static __device__ void reduce_apart(u8 *dst, const u8 *src, u64 len, u32 what) {
    u64 head = -(u64)dst & 15;
    if ((((u64)dst ^ (u64)src) & 15) != 0 || (u64)dst % size_of(what) != 0 || head >= len) {
        word_by_word(dst, src, len, what);
        return;
    }
    u64 vectors = (len - head) / 16, rest = head + 16 * vectors;
    word_by_word(dst, src, head, what);
    vector_by_vector((uint4 *)(dst + head), (const uint4 *)(src + head), vectors, what);
    word_by_word(dst + rest, src + rest, len - rest, what);
}

// One block. One chunk after the other, each read whole before it is written: upwards if the destination is below the source.
static __device__ void reduce_overlapping(u8 *dst, const u8 *src, u64 len, u32 what) {
    const u64 chunk = 4 * (u64)blockDim.x;
    const u64 words = (len + 3) / 4, chunks = (words + chunk - 1) / chunk;
    for (u64 turn = 0; turn < chunks; turn++) {
        u64 start = (dst < src ? turn : chunks - 1 - turn) * chunk + threadIdx.x;
        Four a = {start, blockDim.x, len}, b = {start, blockDim.x, len};
        a.read(dst);
        b.read(src);
        combine(what, a.words, b.words);
        __syncthreads();
        a.write(dst);
        __syncthreads();
    }
}

// `len` bytes of whole elements. Ends that overlap are one block's work.
KERNEL ferry_reduce(u8 *dst, const u8 *src, u64 len, u64 what) {
    u64 apart = dst < src ? (u64)(src - dst) : (u64)(dst - src);
    if (apart == 0 || apart >= len) reduce_apart(dst, src, len, (u32)what);
    else if (blockIdx.x == 0) reduce_overlapping(dst, src, len, (u32)what);
}

// One element whose bytes lie apart, each at an address of its own. One thread.
KERNEL ferry_reduce_one(u64 d0, u64 d1, u64 d2, u64 d3, u64 s0, u64 s1, u64 s2, u64 s3, u64 what) {
    u8 *dst[4] = {(u8 *)d0, (u8 *)d1, (u8 *)d2, (u8 *)d3};
    const u8 *src[4] = {(const u8 *)s0, (const u8 *)s1, (const u8 *)s2, (const u8 *)s3};
    u32 a[4] = {0}, b[4] = {0}, size = size_of((u32)what);
    for (u32 i = 0; i < size; i++) {
        a[0] |= (u32)*dst[i] << (8 * i);
        b[0] |= (u32)*src[i] << (8 * i);
    }
    combine((u32)what, a, b);
    for (u32 i = 0; i < size; i++) *dst[i] = (u8)(a[0] >> (8 * i));
}
