// The product of two square matrices by tensor cores: what copies are measured beside where there is no
// cuBLAS. It is to keep a GPU busy, not to be the fastest. Numbers are bfloat16, sums are float:
//
//     out[i][j] = the sum over k of left[i][k] * right[j][k]
//
// All three are stored row by row; their side is a multiple of 256. As in the fast libraries, there is a
// block for each multiprocessor, which takes one tile of `out` after the other, so that large kernels of
// others find no room before a product ends; and a multiprocessor that somebody else has is not waited for,
// since the other blocks take its tiles.
//
// The two operands of a tile come through shared memory in steps of DEPTH numbers; cp.async fetches
// STAGES - 1 steps ahead.
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// A tile of `out`; numbers of a step; steps in shared memory; threads of a block, whose warps have 64 x 64
// numbers each.
enum { ROWS = 128, COLUMNS = 256, DEPTH = 32, STAGES = 4, THREADS = 256, WARP_SIDE = 64 };
// Bytes that cp.async and ldmatrix take at a time, and how many numbers they are.
enum { CHUNK = 16, NUMBERS = 8 };
// Bytes of a row of an operand in shared memory, of the left operand, of both.
enum { ROW = DEPTH * 2, LEFT = ROWS * ROW, STAGE = (ROWS + COLUMNS) * ROW };
// Tiles are taken in bands of so many rows, whose operands stay in the second-level cache.
enum { BAND = 8 };

// Where a chunk of a row lies in an operand. Chunks change places from row to row: eight rows that are read
// at once lie in different banks.
static __device__ u32 place(u32 row, u32 chunk)
{
    return row * ROW + (chunk ^ (row >> 1 & 3)) * CHUNK;
}

static __device__ void fetch(u32 shared, const u16 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}

static __device__ void end_step()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but the newest STAGES - 2 steps have come.
static __device__ void wait_for_step()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
}

// Four 8 x 8 matrices: lane 8 i + r names row r of matrix i.
static __device__ void load(u32 (&to)[4], u32 shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared)
                 : "memory");
}

// 16 x 16 numbers times 16 x 8 are added to 16 x 8 sums.
static __device__ void multiply(float (&sum)[4], const u32 (&left)[4], u32 right, u32 more)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right), "r"(more));
}

// Two numbers as they are stored side by side.
static __device__ u32 rounded(float first, float second)
{
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}

// Fetches `count` rows of a step.
template <u32 count>
static __device__ void fetch_rows(u32 shared, const u16 *from, u32 side)
{
#pragma unroll
    for (u32 first = 0; first < count * (DEPTH / NUMBERS); first += THREADS) {
        u32 index = first + threadIdx.x, row = index / (DEPTH / NUMBERS), chunk = index % (DEPTH / NUMBERS);
        fetch(shared + place(row, chunk), from + (u64)row * side + chunk * NUMBERS);
    }
}

static __device__ void fetch_step(u32 stage, const u16 *left, const u16 *right, u32 side, u32 step)
{
    fetch_rows<ROWS>(stage, left + step * DEPTH, side);
    fetch_rows<COLUMNS>(stage + LEFT, right + step * DEPTH, side);
}

// Adds what a step has to the sums of this warp, which begin at that row and column of the tile.
static __device__ void multiply_step(float (&sums)[4][8][4], u32 stage, u32 row, u32 column)
{
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 chunk = 0; chunk < DEPTH / NUMBERS; chunk += 2) {
        u32 left[4][4], right[4][4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            load(left[i], stage + place(row + 16 * i + lane % 16, chunk + lane / 16));
            u32 below = lane % 8 + lane / 16 * 8;
            load(right[i], stage + LEFT + place(column + 16 * i + below, chunk + lane / 8 % 2));
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
#pragma unroll
            for (u32 j = 0; j < 8; j++) {
                multiply(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
}

static __device__ void multiply_tile(u32 shared, const u16 *left, const u16 *right, u16 *out, u32 side)
{
    u32 steps = side / DEPTH, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 row = warp % (ROWS / WARP_SIDE) * WARP_SIDE, column = warp / (ROWS / WARP_SIDE) * WARP_SIDE;
    float sums[4][8][4] = {};
    for (u32 step = 0; step < STAGES - 1; step++) {
        fetch_step(shared + step * STAGE, left, right, side, step);
        end_step();
    }
    for (u32 step = 0; step < steps; step++) {
        wait_for_step();
        // The step is there for all threads, and nobody reads the one before any more.
        __syncthreads();
        u32 next = step + STAGES - 1;
        if (next < steps) {
            fetch_step(shared + next % STAGES * STAGE, left, right, side, next);
        }
        end_step();
        multiply_step(sums, shared + step % STAGES * STAGE, row, column);
    }
    u16 *corner = out + (u64)(row + lane / 4) * side + column + lane % 4 * 2;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u16 *upper = corner + (u64)(16 * i) * side + 8 * j, *lower = upper + (u64)8 * side;
            *(u32 *)upper = rounded(sums[i][j][0], sums[i][j][1]);
            *(u32 *)lower = rounded(sums[i][j][2], sums[i][j][3]);
        }
    }
}

// `counters`: how many tiles were taken, and how many blocks found none any more. Both are 0 before a product
// and afterwards.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    ferry_product(const u16 *left, const u16 *right, u16 *out, u32 side, u32 *counters)
{
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ u32 taken;
    u32 shared = (u32)__cvta_generic_to_shared(memory);
    u32 rows = side / ROWS, columns = side / COLUMNS;
    for (;;) {
        // Nobody reads what the tile before has left in shared memory.
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = atomicAdd(&counters[0], 1);
        }
        __syncthreads();
        u32 tile = taken;
        if (tile >= rows * columns) {
            break;
        }
        u32 first = tile / (BAND * columns) * BAND, height = min(rows - first, (u32)BAND);
        u32 within = tile % (BAND * columns), row = first + within % height, column = within / height;
        multiply_tile(shared, left + (u64)row * ROWS * side, right + (u64)column * COLUMNS * side,
                      out + (u64)row * ROWS * side + column * COLUMNS, side);
    }
    // The last one leaves the counters as they were.
    if (threadIdx.x == 0 && atomicAdd(&counters[1], 1) == gridDim.x - 1) {
        counters[0] = 0;
        counters[1] = 0;
    }
}
