// Memory: what was allocated and registered, and what a device may touch.
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The driver hands out device memory at multiples of this.
enum { GRAIN = 512, PAGE = 4096 };

// How a process finds memory of another one: a file of that, and a range in it.
typedef struct {
    u64 process, file, offset, len, spare[4];
} Pass;

typedef struct {
    u64 base, len;
    int kind;
    bool registered, lent;
    Device *device;
    // Memory of another process: where its bytes are, how often it was opened, and with what. Registered
    // memory: a second mapping of the pages that were there then, or NULL.
    u8 *bytes;
    u32 opened;
    Pass pass;
} Span;

// All that is known, by address.
static Span *spans;
static size_t count, room;

// The place of the first span that ends after `addr`.
static size_t find(u64 addr)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (spans[middle].base + spans[middle].len <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static Span *around(u64 addr)
{
    size_t place = find(addr);
    return place < count && spans[place].base <= addr ? &spans[place] : NULL;
}

static void put(Span span)
{
    size_t place = find(span.base);
    if (count == room) {
        room = room ? 2 * room : 256;
        spans = realloc(spans, room * sizeof *spans);
    }
    memmove(spans + place + 1, spans + place, (count - place) * sizeof *spans);
    spans[place] = span;
    count++;
}

static void drop(Span *span)
{
    memmove(span, span + 1, (size_t)(spans + --count - span) * sizeof *spans);
}

static Device *arena_of(u64 addr)
{
    for (Device *device = devices; device < devices + device_count; device++) {
        if (addr - device->arena < device->total) {
            return device;
        }
    }
    return NULL;
}

bool open_arena(Device *device)
{
    int file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)device->total) != 0) {
        return false;
    }
    int flags = MAP_SHARED | MAP_NORESERVE;
    device->bytes = mmap(NULL, device->total, PROT_READ | PROT_WRITE, flags, file, 0);
    void *arena = mmap(NULL, device->total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    device->file = file;
    device->arena = (u64)arena;
    return device->bytes != MAP_FAILED && arena != MAP_FAILED;
}

// Where memory was freed lately, the newest last. As the driver does, that is handed out again first.
enum { REMEMBERED = 256 };
static u64 freed[REMEMBERED];
static size_t freed_count;

static void remember_freed(u64 addr)
{
    if (freed_count == REMEMBERED) {
        memmove(freed, freed + 1, --freed_count * sizeof *freed);
    }
    freed[freed_count++] = addr;
}

static u64 find_freed(const Device *device, u64 len)
{
    for (size_t place = freed_count; place-- > 0;) {
        u64 addr = freed[place], next = find(addr) < count ? spans[find(addr)].base : UINT64_MAX;
        if (arena_of(addr) == device && addr + len <= next && addr + len <= device->arena + device->total) {
            memmove(freed + place, freed + place + 1, (--freed_count - place) * sizeof *freed);
            return addr;
        }
    }
    return 0;
}

// Where `len` bytes of an arena are free: where some were freed, behind some span of it, or at its start. 0
// if nowhere.
static u64 find_room(const Device *device, u64 len)
{
    u64 at = find_freed(device, len), end = device->arena + device->total;
    if (at) {
        return at;
    }
    at = device->arena;
    for (size_t place = find(at); place < count && spans[place].base < end && spans[place].base - at < len;
         place++) {
        at = (spans[place].base + spans[place].len + GRAIN - 1) / GRAIN * GRAIN;
    }
    return at <= end && end - at >= len ? at : 0;
}

Code cuMemGetInfo_v2(size_t *left, size_t *total)
{
    Device *here = NULL;
    Code code = enter("cuMemGetInfo", &here);
    if (code != OK) {
        return code;
    }
    static u64 kept;
    u64 keep = setting("STANDIN_KEEP", 0);
    pthread_mutex_lock(&lock);
    kept += keep;
    *total = here->total;
    *left = here->total - here->used - kept;
    pthread_mutex_unlock(&lock);
    return OK;
}

Code cuMemAlloc_v2(u64 *addr, size_t len)
{
    Device *here = NULL;
    Code code = enter("cuMemAlloc", &here);
    if (code != OK || len == 0) {
        return code != OK ? code : INVALID_VALUE;
    }
    usleep((useconds_t)setting("STANDIN_MAKING", 0));
    pthread_mutex_lock(&lock);
    *addr = len > here->total - here->used ? 0 : find_room(here, len);
    if (*addr) {
        put((Span){.base = *addr, .len = len, .kind = DEVICE, .device = here});
        here->used += len;
    }
    pthread_mutex_unlock(&lock);
    return *addr ? OK : OUT_OF_MEMORY;
}

// Whoever has the address still must not find the old bytes. The whole pages go back to the system.
static void spoil(Device *device, u64 base, u64 len)
{
    u8 *from = device->bytes + (base - device->arena);
    u8 *page = (u8 *)(((u64)from + PAGE - 1) / PAGE * PAGE), *end = (u8 *)(((u64)from + len) / PAGE * PAGE);
    if (end <= page) {
        memset(from, 0xee, len);
        return;
    }
    memset(from, 0xee, (size_t)(page - from));
    madvise(page, (size_t)(end - page), MADV_REMOVE);
    memset(end, 0xee, (size_t)(from + len - end));
}

// What page-locked memory of this length takes.
static size_t whole(u64 len)
{
    return (len + PAGE - 1) / PAGE * PAGE + PAGE;
}

static Code give_back(const char *call, u64 addr, int kind, bool registered)
{
    Device *here = NULL;
    Code code = enter(call, &here);
    if (code != OK) {
        return code;
    }
    pthread_mutex_lock(&lock);
    // As the driver: nothing that runs may use it.
    drain(here);
    Span *span = around(addr);
    bool is_there = span && span->base == addr && span->kind == kind && span->registered == registered;
    Span gone = is_there ? *span : (Span){0};
    if (is_there && gone.lent) {
        // Who opened it has it still: nobody here gets it again.
        span->kind = PARTLY;
    } else if (is_there) {
        drop(span);
    }
    if (gone.kind == DEVICE) {
        gone.device->used -= gone.len;
    }
    if (gone.kind == DEVICE && !gone.lent) {
        remember_freed(gone.base);
        spoil(gone.device, gone.base, gone.len);
    }
    pthread_mutex_unlock(&lock);
    if (is_there && kind == LOCKED && !registered) {
        munmap((void *)addr, whole(gone.len));
    }
    if (registered && gone.bytes) {
        munmap(gone.bytes, gone.len);
    }
    return is_there ? OK : registered ? HOST_NOT_REGISTERED : INVALID_VALUE;
}

Code cuMemFree_v2(u64 addr)
{
    return give_back("cuMemFree", addr, DEVICE, false);
}

Code cuMemFreeHost(u64 addr)
{
    return give_back("cuMemFreeHost", addr, LOCKED, false);
}

Code cuMemHostUnregister(u64 addr)
{
    return give_back("cuMemHostUnregister", addr, LOCKED, true);
}

// As a GPU does, the stand-in goes on using the pages that were registered when there is other memory at
// their addresses. Only shared mappings can be mapped a second time.
static u8 *map_again(u64 addr, size_t len)
{
    void *again = addr % PAGE ? MAP_FAILED : mremap((void *)addr, 0, len, MREMAP_MAYMOVE);
    return again == MAP_FAILED ? NULL : again;
}

static Code add_locked(Device *here, u64 addr, size_t len, bool registered)
{
    pthread_mutex_lock(&lock);
    bool is_known = memory_kind(addr, len) != PLAIN;
    if (!is_known) {
        u8 *bytes = registered ? map_again(addr, len) : NULL;
        put((Span){.base = addr,
                   .len = len,
                   .kind = LOCKED,
                   .registered = registered,
                   .device = here,
                   .bytes = bytes});
    }
    pthread_mutex_unlock(&lock);
    return is_known ? HOST_ALREADY_REGISTERED : OK;
}

Code cuMemHostAlloc(u64 *addr, size_t len, u32 flags)
{
    Device *here = NULL;
    (void)flags;
    Code code = enter("cuMemHostAlloc", &here);
    if (code != OK || len == 0) {
        return code != OK ? code : INVALID_VALUE;
    }
    if (len > (size_t)1 << 46) {
        return OUT_OF_MEMORY;
    }
    // A page without rights behind it, for whoever runs over the end.
    void *at = mmap(NULL, whole(len), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at, whole(len) - PAGE, PROT_READ | PROT_WRITE) != 0) {
        return OUT_OF_MEMORY;
    }
    *addr = (u64)at;
    return add_locked(here, *addr, len, false);
}

Code cuMemHostRegister_v2(u64 addr, size_t len, u32 flags)
{
    Device *here = NULL;
    (void)flags;
    Code code = enter("cuMemHostRegister", &here);
    if (code != OK) {
        return code;
    }
    u64 page = addr / PAGE * PAGE;
    if (len == 0 || madvise((void *)page, addr + len - page, MADV_POPULATE_WRITE) != 0) {
        return INVALID_VALUE;
    }
    return add_locked(here, addr, len, true);
}

Code cuMemHostGetDevicePointer_v2(u64 *device, u64 host, u32 flags)
{
    Device *here = NULL;
    (void)flags;
    *device = host;
    return enter("cuMemHostGetDevicePointer", &here);
}

// By their numbers: context 1, kind 2, device 9, managed 8, start 11, length 12, mapped 13.
Code cuPointerGetAttributes(u32 questions, const u32 *attributes, void **answers, u64 addr)
{
    Device *here = NULL;
    Code code = enter("cuPointerGetAttributes", &here);
    if (code != OK) {
        return code;
    }
    pthread_mutex_lock(&lock);
    const Span *span = around(addr), none = {0};
    const Span *it = span ? span : &none;
    for (u32 i = 0; i < questions; i++) {
        switch (attributes[i]) {
        case 1: *(Device **)answers[i] = it->device; break;
        case 2: *(u32 *)answers[i] = (u32)it->kind; break;
        case 8: *(u32 *)answers[i] = 0; break;
        case 9: *(int *)answers[i] = span ? it->device->number : -2; break;
        case 11: *(u64 *)answers[i] = it->base; break;
        case 12: *(u64 *)answers[i] = it->len; break;
        case 13: *(u8 *)answers[i] = span != NULL; break;
        default: code = INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&lock);
    return code;
}

// The lock is held.
int memory_kind(u64 addr, u64 len)
{
    size_t place = find(addr);
    if (place == count || spans[place].base >= addr + len) {
        return arena_of(addr) ? PARTLY : PLAIN;
    }
    const Span *span = &spans[place];
    bool is_whole = span->base <= addr && addr + len <= span->base + span->len;
    return is_whole ? span->kind : PARTLY;
}

// What a copy takes a range for: by its first byte, and it must not end before the copy does. The lock is
// held.
int copied_kind(u64 addr, u64 len)
{
    int kind = memory_kind(addr, len);
    return kind == PARTLY && !around(addr) && !arena_of(addr) ? PLAIN : kind;
}

// Whether a range is page-locked, though perhaps in parts. The lock is held.
static bool is_locked(u64 addr, u64 len)
{
    u64 end = addr + len;
    for (size_t place = find(addr); addr < end; place++) {
        if (place == count || spans[place].base > addr || spans[place].kind != LOCKED) {
            return false;
        }
        addr = spans[place].base + spans[place].len;
    }
    return true;
}

void *reach(u64 addr, u64 len)
{
    pthread_mutex_lock(&lock);
    int kind = !len ? PLAIN : is_locked(addr, len) ? LOCKED : memory_kind(addr, len);
    const Span *span = kind == DEVICE || memory_kind(addr, len) == LOCKED ? around(addr) : NULL;
    bool is_far = kind == DEVICE && kernel_of() && span->device != kernel_of();
    u8 *bytes = NULL;
    if (span && (kind == DEVICE || span->bytes)) {
        bytes = span->bytes ? span->bytes + (addr - span->base)
                            : span->device->bytes + (addr - span->device->arena);
    }
    pthread_mutex_unlock(&lock);
    if (len == 0) {
        return NULL;
    }
    if (is_far || (kind != LOCKED && kind != DEVICE)) {
        fault(ILLEGAL_ADDRESS);
    }
    return bytes ? bytes : (void *)addr;
}

// Memory of other processes
// ----------------------------------------------------------------------------------------

Code cuIpcGetMemHandle(Pass *pass, u64 addr)
{
    Device *here = NULL;
    Code code = enter("cuIpcGetMemHandle", &here);
    if (code != OK) {
        return code;
    }
    pthread_mutex_lock(&lock);
    Span *span = around(addr);
    bool is_there = span && span->kind == DEVICE && !span->bytes;
    if (is_there) {
        u64 offset = span->base - span->device->arena;
        *pass = (Pass){
            .process = (u64)getpid(), .file = (u64)span->device->file, .offset = offset, .len = span->len};
        span->lent = true;
    }
    pthread_mutex_unlock(&lock);
    return is_there ? OK : INVALID_VALUE;
}

// The span that was opened with this pass. The lock is held.
static Span *find_opened(const Pass *pass)
{
    for (Span *span = spans; span < spans + count; span++) {
        if (span->opened && memcmp(&span->pass, pass, sizeof *pass) == 0) {
            return span;
        }
    }
    return NULL;
}

// Maps it twice, as an arena is. The lock is held.
static u64 map_opened(Device *here, const Pass *pass)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)pass->process,
             (unsigned long long)pass->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    u64 skip = pass->offset % PAGE, len = skip + pass->len;
    off_t offset = (off_t)(pass->offset - skip);
    u8 *bytes = file < 0 ? MAP_FAILED : mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
    u8 *user = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    close(file);
    if (bytes == MAP_FAILED || user == MAP_FAILED) {
        return 0;
    }
    u64 base = (u64)user + skip;
    put((Span){.base = base,
               .len = pass->len,
               .kind = DEVICE,
               .device = here,
               .bytes = bytes + skip,
               .pass = *pass});
    return base;
}

Code cuIpcOpenMemHandle_v2(u64 *addr, Pass pass, u32 flags)
{
    Device *here = NULL;
    Code code = enter("cuIpcOpenMemHandle", &here);
    if (code != OK || flags != 1 || pass.process == (u64)getpid()) {
        return code != OK ? code : flags != 1 ? INVALID_VALUE : INVALID_CONTEXT;
    }
    pthread_mutex_lock(&lock);
    const Span *span = find_opened(&pass);
    *addr = span ? span->base : map_opened(here, &pass);
    if (*addr) {
        around(*addr)->opened++;
    }
    pthread_mutex_unlock(&lock);
    return *addr ? OK : INVALID_VALUE;
}

Code cuIpcCloseMemHandle(u64 addr)
{
    Device *here = NULL;
    Code code = enter("cuIpcCloseMemHandle", &here);
    if (code != OK) {
        return code;
    }
    pthread_mutex_lock(&lock);
    drain(here);
    Span *span = around(addr);
    bool is_there = span && span->base == addr && span->opened;
    Span gone = {0};
    if (is_there && --span->opened == 0) {
        gone = *span;
        drop(span);
    }
    pthread_mutex_unlock(&lock);
    if (gone.bytes) {
        u64 skip = gone.pass.offset % PAGE;
        munmap(gone.bytes - skip, skip + gone.len);
        munmap((void *)(gone.base - skip), skip + gone.len);
    }
    return is_there ? OK : INVALID_VALUE;
}
