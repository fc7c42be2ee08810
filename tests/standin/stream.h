// Streams, events and work, for the files that put work into streams.
#ifndef FERRY_TESTS_STANDIN_STREAM_H
#define FERRY_TESTS_STANDIN_STREAM_H

#include "standin.h"

enum { STREAM = 0x57ea3, EVENT = 0xe7e47, GONE = 0xdead };
// So much work fits into a stream; then its caller waits, as a driver has him wait.
enum { DEPTH = 1024 };

// One recording of an event. Whoever waits for it waits for this one, wherever the event is recorded next.
typedef struct {
    u32 users;
    bool reached;
    double ms;
    pthread_cond_t moved;
} Turn;

typedef struct Event {
    u32 mark;
    bool timed;
    // The newest, if it was recorded at all.
    Turn *turn;
} Event;

typedef void (*Callback)(Stream *stream, Code code, void *data);

// As the driver wants it.
typedef struct {
    size_t src_x, src_y;
    u32 src_type;
    u64 src_host, src_device, src_array;
    size_t src_pitch, dst_x, dst_y;
    u32 dst_type;
    u64 dst_host, dst_device, dst_array;
    size_t dst_pitch, width, height;
} Rectangle;

// The same, of the pieces of a batch.
typedef struct {
    u32 sources_read;
    int source[2], target[2];
    u32 flags;
} Hints;

// How a kernel is launched.
typedef struct {
    u32 id, unused, value[16];
} Attribute;

typedef struct {
    u32 grid[3], block[3], shared;
    struct Stream *stream;
    const Attribute *attributes;
    u32 attribute_count;
} Config;

typedef struct Work {
    struct Work *next;
    void (*run)(struct Work *work);
    Stream *stream;
    union {
        // Whether an end is plain memory, whose owner waits.
        struct { Rectangle rows; bool to_plain, from_plain; } copy;
        struct { u64 dst, count; u32 value; int size; } fill;
        struct { Turn *turn; } event;
        struct { Callback call; void (*plain)(void *data); void *data; } call;
        struct { u64 addr, value; u32 flags; } value;
        struct { const Kernel *kernel; Launch launch; } kernel;
    };
    // Arguments of a kernel.
    _Alignas(16) u8 bytes[];
} Work;

struct Stream {
    u32 mark, flags, way;
    bool has_thread, destroyed;
    Device *device;
    Stream *next, *grave;
    Work *first, **last;
    // How much was put into it, and how much of that is done.
    u64 given, done;
    pthread_cond_t more, moved;
};

Work *make_work(void (*run)(Work *work), size_t more);
// What a call about a stream starts with: the lock is held if it returns OK.
Code enter_stream(const char *call, Stream *handle, Stream **stream);
// Puts work into a stream, once there is room. The lock is held.
void enqueue(Stream *stream, Work *work);
// Both of them, and the work is done when it returns if the caller `waits`.
Code put(const char *call, Stream *handle, Work *work, bool waits);
void nap(u64 us);
// How long a call that waits looks away: its thread may be gone when the process ends. The lock is held.
void wait_a_while(pthread_cond_t *moved);

// The stream waits for a number, or does not any more: meanwhile those of its way do nothing.
void block_way(Stream *stream, bool is_blocked);

// The lock is held.
void run_record(Work *work);
void run_wait(Work *work);
// The lock is not.
void run_kernel(Work *work);

#endif
