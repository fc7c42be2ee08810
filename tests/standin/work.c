// What streams do: copies, fills, values and kernels.
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Copies
// ---------------------------------------------------------------------------------------------------------

static void run_copy(Work *work)
{
    const Rectangle *rows = &work->copy.rows;
    for (size_t row = 0; row < rows->height; row++) {
        u64 dst = rows->dst_device + row * rows->dst_pitch, src = rows->src_device + row * rows->src_pitch;
        void *to = work->copy.to_plain ? (void *)dst : reach(dst, rows->width);
        const void *from = work->copy.from_plain ? (const void *)src : reach(src, rows->width);
        memmove(to, from, rows->width);
    }
}

static u64 span(size_t pitch, const Rectangle *rows)
{
    return pitch * (rows->height - 1) + rows->width;
}

static Code copy(const char *call, const Rectangle *rows, Stream *stream, bool waits)
{
    if (rows->width == 0 || rows->height == 0) {
        return OK;
    }
    pthread_mutex_lock(&lock);
    int to = copied_kind(rows->dst_device, span(rows->dst_pitch, rows));
    int from = copied_kind(rows->src_device, span(rows->src_pitch, rows));
    pthread_mutex_unlock(&lock);
    if (to == PARTLY || from == PARTLY) {
        return INVALID_VALUE;
    }
    Work *work = make_work(run_copy, 0);
    work->copy.rows = *rows;
    work->copy.to_plain = to == PLAIN;
    work->copy.from_plain = from == PLAIN;
    return put(call, stream, work, waits || to == PLAIN || from == PLAIN);
}

Code cuMemcpyAsync(u64 dst, u64 src, size_t len, Stream *stream)
{
    Rectangle rows = {.dst_device = dst, .src_device = src, .width = len, .height = 1};
    return copy("cuMemcpyAsync", &rows, stream, false);
}

// In the default stream, which other ones do not wait for here.
Code cuMemcpyHtoD_v2(u64 dst, u64 src, size_t len)
{
    Rectangle rows = {.dst_device = dst, .src_device = src, .width = len, .height = 1};
    return copy("cuMemcpyHtoD", &rows, NULL, true);
}

Code cuMemcpyDtoH_v2(u64 dst, u64 src, size_t len)
{
    Rectangle rows = {.dst_device = dst, .src_device = src, .width = len, .height = 1};
    return copy("cuMemcpyDtoH", &rows, NULL, true);
}

// Pieces one after the other, until one is wrong.
static Code copy_together(const u64 *dsts, const u64 *srcs, const size_t *lens, size_t count,
                          const Hints *hints, const size_t *firsts, size_t hint_count, size_t *failed,
                          Stream *stream)
{
    const u32 in_the_stream = 1;
    Code code = injected("cuMemcpyBatchAsync");
    if (code != OK) {
        return code;
    }
    // It is not for the streams of those who name none.
    bool is_named = (u64)stream > 2;
    if (hint_count != 1 || firsts[0] != 0 || hints->sources_read != in_the_stream || hints->flags != 0 ||
        !is_named) {
        return INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        Rectangle rows = {.dst_device = dsts[i], .src_device = srcs[i], .width = lens[i], .height = 1};
        code = copy("piece of cuMemcpyBatchAsync", &rows, stream, false);
        if (code != OK) {
            *failed = i;
            return code;
        }
    }
    return OK;
}

// What has other arguments in other versions is asked for by the version: here, of CUDA 12.8.
Code cuGetProcAddress_v2(const char *name, void **found, int version, u64 flags, int *status)
{
    const Code not_found = 500;
    Code code = injected("cuGetProcAddress");
    if (code != OK || flags != 0) {
        return code != OK ? code : INVALID_VALUE;
    }
    if (version != 12080 || strcmp(name, "cuMemcpyBatchAsync") != 0) {
        return not_found;
    }
    *found = (void *)copy_together;
    *status = 0;
    return OK;
}

// Addresses say themselves where they lie; nothing else is understood here.
Code cuMemcpy2DAsync_v2(const Rectangle *rows, Stream *stream)
{
    const u32 unified = 4, most = 0x7fffffff;
    bool is_plain = rows->src_type == unified && rows->dst_type == unified && !(rows->src_x | rows->src_y)
        && !(rows->dst_x | rows->dst_y);
    bool fits = rows->src_pitch >= rows->width && rows->dst_pitch >= rows->width && rows->src_pitch <= most
        && rows->dst_pitch <= most;
    return is_plain && fits ? copy("cuMemcpy2DAsync", rows, stream, false) : INVALID_VALUE;
}

// Fills
// ---------------------------------------------------------------------------------------------------------

static void run_fill(Work *work)
{
    int size = work->fill.size;
    u8 *to = reach(work->fill.dst, work->fill.count * (u64)size);
    for (u64 i = 0; i < work->fill.count; i++) {
        memcpy(to + i * (u64)size, &work->fill.value, (size_t)size);
    }
}

static Code fill(const char *call, u64 dst, u32 value, u64 count, int size, Stream *stream)
{
    if (count == 0) {
        return OK;
    }
    pthread_mutex_lock(&lock);
    int kind = memory_kind(dst, count * (u64)size);
    pthread_mutex_unlock(&lock);
    if (dst % (u64)size != 0 || (kind != DEVICE && kind != LOCKED)) {
        return INVALID_VALUE;
    }
    Work *work = make_work(run_fill, 0);
    work->fill.dst = dst;
    work->fill.value = value;
    work->fill.count = count;
    work->fill.size = size;
    return put(call, stream, work, false);
}

Code cuMemsetD8Async(u64 dst, u8 value, size_t count, Stream *stream)
{
    return fill("cuMemsetD8Async", dst, value, count, 1, stream);
}

Code cuMemsetD32Async(u64 dst, u32 value, size_t count, Stream *stream)
{
    return fill("cuMemsetD32Async", dst, value, count, 4, stream);
}

// Values
// ---------------------------------------------------------------------------------------------------------

static bool has_come(u64 there, u64 value, u32 flags)
{
    switch (flags & 3) {
    case 0: return (int64_t)(there - value) >= 0;
    case 1: return there == value;
    case 2: return (there & value) != 0;
    default: return ~(there | value) != 0;
    }
}

static void run_wait_value(Work *work)
{
    const u64 *at = reach(work->value.addr, 8);
    while (!has_come(__atomic_load_n(at, __ATOMIC_ACQUIRE), work->value.value, work->value.flags)) {
        if (lost(work->stream->device) || is_over) {
            break;
        }
        block_way(work->stream, true);
        nap(20);
    }
    block_way(work->stream, false);
}

Code cuStreamWaitValue64_v2(Stream *stream, u64 addr, u64 value, u32 flags)
{
    if (setting("STANDIN_NO_WAITS", 0)) {
        return NOT_SUPPORTED;
    }
    Work *work = make_work(run_wait_value, 0);
    work->value.addr = addr;
    work->value.value = value;
    work->value.flags = flags;
    return put("cuStreamWaitValue64", stream, work, false);
}

static void run_write_value(Work *work)
{
    __atomic_store_n((u64 *)reach(work->value.addr, 8), work->value.value, __ATOMIC_RELEASE);
}

Code cuStreamWriteValue64_v2(Stream *stream, u64 addr, u64 value, u32 flags)
{
    if (setting("STANDIN_NO_WAITS", 0)) {
        return NOT_SUPPORTED;
    }
    if (flags != 0 || addr % 8 != 0) {
        return INVALID_VALUE;
    }
    Work *work = make_work(run_write_value, 0);
    work->value.addr = addr;
    work->value.value = value;
    return put("cuStreamWriteValue64", stream, work, false);
}

// Kernels
// ---------------------------------------------------------------------------------------------------------

enum { MOST_KERNELS = 64 };
static u64 launches[MOST_KERNELS];

void run_kernel(Work *work)
{
    work->kernel.kernel->run(&work->kernel.launch);
}

// For tests: how often kernels of this name were launched.
u64 cuStandinLaunches(const char *name)
{
    u64 count = 0;
    for (const Kernel *kernel = kernels; kernel->name; kernel++) {
        if (strcmp(kernel->name, name) == 0) {
            count = __atomic_load_n(&launches[kernel - kernels], __ATOMIC_RELAXED);
        }
    }
    return count;
}

Code cuLaunchKernel(const Kernel *kernel, u32 x, u32 y, u32 z, u32 threads_x, u32 threads_y, u32 threads_z,
                    u32 shared, Stream *stream, void **args, void **extra)
{
    (void)shared;
    if (extra || x * y * z == 0 || threads_x * threads_y * threads_z - 1 >= 1024) {
        return INVALID_VALUE;
    }
    size_t more = 0;
    for (const size_t *size = kernel->sizes; *size; size++) {
        more += (*size + 15) / 16 * 16;
    }
    if (more > 4096) {
        fprintf(stderr, "stand-in: the arguments of %s are longer than a driver takes\n", kernel->name);
        return INVALID_VALUE;
    }
    __atomic_add_fetch(&launches[kernel - kernels], 1, __ATOMIC_RELAXED);
    Work *work = make_work(run_kernel, more);
    work->kernel.kernel = kernel;
    work->kernel.launch.blocks = x * y * z;
    work->kernel.launch.threads = threads_x * threads_y * threads_z;
    u8 *at = work->bytes;
    for (int i = 0; kernel->sizes[i]; i++) {
        memcpy(at, args[i], kernel->sizes[i]);
        work->kernel.launch.args[i] = at;
        at += (kernel->sizes[i] + 15) / 16 * 16;
    }
    return put("cuLaunchKernel", stream, work, false);
}

// Attributes say where blocks go, which is nothing here.
Code cuLaunchKernelEx(const Config *config, const Kernel *kernel, void **args, void **extra)
{
    const u32 clusters = 4;
    for (u32 i = 0; i < config->attribute_count; i++) {
        const Attribute *attribute = &config->attributes[i];
        if (attribute->id != clusters || config->grid[0] % attribute->value[0] != 0) {
            return INVALID_VALUE;
        }
    }
    return cuLaunchKernel(kernel, config->grid[0], config->grid[1], config->grid[2], config->block[0],
                          config->block[1], config->block[2], config->shared, config->stream, args, extra);
}
