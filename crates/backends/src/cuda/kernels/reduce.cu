// Reductions inside a device: each element of the destination becomes its combination with one of the source,
// bit for bit what the host backend makes of them (docs/decisions/0010-reductions.md).
//
// Four bytes are taken at a time. They are one, two or four elements: a reduction is a whole number of those,
// at any alignment.

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

static __device__ float combined(u32 way, float a, float b) {
    float sum = __fadd_rn(a, b), high = larger(a, b), low = -larger(-a, -b);
    return way == SUM ? sum : way == MAX ? high : low;
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

template <class Float>
static __device__ u32 pair(u32 way, u32 a, u32 b) {
    u32 low = Float::write(combined(way, Float::read(a & 0xffff), Float::read(b & 0xffff)));
    u32 high = Float::write(combined(way, Float::read(a >> 16), Float::read(b >> 16)));
    return low | high << 16;
}

static __device__ u32 single(u32 way, u32 a, u32 b) {
    return plain_nan(combined(way, __uint_as_float(a), __uint_as_float(b)));
}

// Sixteen bytes at a time, so that finding out what to do costs little.
static __device__ void combine(u32 what, u32 *a, const u32 *b) {
    const u32 way = what % 3;
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
    }
    switch (what - way) {
        DO(F16, pair<Half>(way, a[i], b[i]))
        DO(BF16, pair<Brain>(way, a[i], b[i]))
        DO(F32, single(way, a[i], b[i]))
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

// What one thread takes at a time, of each end: a vector of 16 bytes that is aligned, or four words `step`
// apart.
struct Part {
    u64 first, step, len;
    bool is_vector;

    __device__ void read(const u8 *at, u32 *words) const {
        if (is_vector) {
            uint4 vector = *(const uint4 *)(at + first);
            words[0] = vector.x, words[1] = vector.y, words[2] = vector.z, words[3] = vector.w;
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) words[i] = first + i * step < len ? fetch(at, first + i * step, len) : 0;
    }
    __device__ void write(u8 *at, const u32 *words) const {
        if (is_vector) {
            *(uint4 *)(at + first) = make_uint4(words[0], words[1], words[2], words[3]);
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (first + i * step < len) put(at, first + i * step, len, words[i]);
    }
};

// How a reduction is cut into parts. Where both ends have the same alignment it is a head and a tail of a few
// words, and vectors between them; else all of it is words, and threads that are neighbours take words that
// are.
struct Cut {
    u64 head, vectors, len, threads;

    __device__ u64 rounds() const {
        u64 parts = vectors ? vectors + 2 : (len + 15) / 16;
        return (parts + threads - 1) / threads;
    }
    __device__ Part part(u64 round, u64 thread) const {
        if (!vectors) return Part{4 * (round * 4 * threads + thread), 4 * threads, len, false};
        u64 number = round * threads + thread;
        if (number < vectors) return Part{head + 16 * number, 0, len, true};
        u64 start = number == vectors ? 0 : number == vectors + 1 ? head + 16 * vectors : len;
        return Part{start, 4, start ? len : head, false};
    }
};

static __device__ Cut cut(const u8 *dst, const u8 *src, u64 len, u32 size, u64 threads) {
    u64 head = -(u64)dst & 15;
    bool fits = (((u64)dst ^ (u64)src) & 15) == 0 && (u64)dst % size == 0 && head + 16 <= len;
    return fits ? Cut{head, (len - head) / 16, len, threads} : Cut{0, 0, len, threads};
}

// `len` bytes of whole elements. Where the ends overlap, one block does a round after the other, each read
// whole before it is written: upwards if the destination is below the source.
KERNEL ferry_reduce(u8 *dst, const u8 *src, u64 len, u64 what) {
    const u64 apart = dst < src ? (u64)(src - dst) : (u64)(dst - src);
    const bool overlap = apart > 0 && apart < len, turned = overlap && dst > src;
    if (overlap && blockIdx.x > 0) return;
    const u64 threads = overlap ? blockDim.x : (u64)gridDim.x * blockDim.x;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    // Rounds of words alone are in ascending order.
    const Cut parts = overlap ? Cut{0, 0, len, threads} : cut(dst, src, len, size_of((u32)what), threads);
    for (u64 round = 0, rounds = parts.rounds(); round < rounds; round++) {
        Part part = parts.part(turned ? rounds - 1 - round : round, thread);
        u32 a[4], b[4];
        part.read(dst, a);
        part.read(src, b);
        combine((u32)what, a, b);
        if (overlap) __syncthreads();
        part.write(dst, a);
        if (overlap) __syncthreads();
    }
}

// Where the bytes of one element lie, at both ends. `SplitElement` of the Rust side has the same layout.
struct SplitElement {
    u8 *dst[4];
    const u8 *src[4];
};

// One element whose bytes lie apart. One thread.
KERNEL ferry_reduce_one(const SplitElement at, u64 what) {
    if (threadIdx.x != 0) return;
    u32 a[4] = {0}, b[4] = {0}, size = size_of((u32)what);
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        if (i < size) {
            a[0] |= (u32)*at.dst[i] << (8 * i);
            b[0] |= (u32)*at.src[i] << (8 * i);
        }
    combine((u32)what, a, b);
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        if (i < size) *at.dst[i] = (u8)(a[0] >> (8 * i));
}
