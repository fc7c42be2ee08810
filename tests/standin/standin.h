// A stand-in for the CUDA driver: the functions of libcuda.so.1 that the cuda backend calls, done by the CPU.
// It lets the backend run where there is no GPU: order, asynchrony, errors and addresses are as the driver's
// documentation has them; nothing about its speed means anything. It is never called a GPU.
//
// - Device memory is an arena that the process cannot touch: the CPU faults at a device address, as it
//   should. The stand-in itself reaches the bytes through a second mapping, with `reach`. What was freed last
//   is handed out first.
// - Registered memory stays what it was, whatever is mapped at its addresses later, if it is a shared mapping
//   of one piece.
// - A stream is a queue that a thread of its own runs. Work that reaches memory which is neither a device's
//   nor page-locked breaks its device as a GPU's would: error 700, and every later call fails.
// - Whoever uses a stream that was destroyed ends the process, with a line that says so.
// - Kernels are C functions of the same names in kernels.c.
// - `cuStandinCalls(name)`, which no driver has, says how often the process has called a function.
//
// Settings, all its own:
//
// - STANDIN_DEVICES=n: devices, 1 if not said.
// - STANDIN_MEMORY=bytes: memory of each, 16 GiB if not said.
// - STANDIN_KEEP=bytes: free memory shrinks by so much whenever it is asked for, as if the driver took more
//   for itself.
// - STANDIN_MAKING=us: device memory takes so many microseconds to make.
// - STANDIN_WAYS=n: streams share so many ways into the device: one that waits for a number holds up its
//   neighbours.
// - STANDIN_FULL_BLOCKS=1: while work waits for room in its stream no other stream is given anything, as at
//   times on an H200.
// - STANDIN_NO_WAITS=1: streams can neither wait for a number in memory nor write one.
// - STANDIN_JITTER=us: up to so many microseconds of sleep before some of the work.
// - STANDIN_FAIL=what:n:code: the n-th call of the function `what` returns `code`, or the n-th piece of work
//   ends with it if `what` is "work"; several with commas between them.
#ifndef FERRY_TESTS_STANDIN_H
#define FERRY_TESTS_STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int Code;

// Result codes, by their numbers in the documentation.
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    DEVICE_UNAVAILABLE = 46,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    ECC_UNCORRECTABLE = 214,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_TIMEOUT = 702,
    CONTEXT_IS_DESTROYED = 709,
    HOST_ALREADY_REGISTERED = 712,
    HOST_NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    UNKNOWN = 999,
};

typedef struct Stream Stream;

typedef struct Device {
    int number;
    size_t total, used;
    // What the user sees and cannot touch, and where its bytes are.
    u64 arena;
    u8 *bytes;
    int file;
    // The error that broke it, or 0.
    Code lost;
    // The stream with the handle 0, and all of them.
    Stream *legacy, *streams;
} Device;

// What a kernel was launched with: copies of its arguments.
typedef struct Launch {
    u32 blocks, threads;
    void *args[8];
} Launch;

#define ARG(launch, index, type) (*(type *)(launch)->args[index])

typedef struct Kernel {
    const char *name;
    // Sizes of its arguments; 0 ends them.
    size_t sizes[9];
    void (*run)(const Launch *launch);
} Kernel;

// The last one has no name.
extern const Kernel kernels[];

// What memory is, as the driver numbers it; PARTLY is none of it: only a part of the range is known.
enum { PLAIN = 0, LOCKED = 1, DEVICE = 2, PARTLY = -1 };

// One lock for everything but the bytes.
extern pthread_mutex_t lock;

// device.c
// ---------------------------------------------------------------------------------------------------------

extern Device devices[];
extern int device_count;
u64 setting(const char *name, u64 otherwise);
// What a call starts with: an error if the driver, the thread or the device cannot take it, or one was asked
// for.
Code enter(const char *call, Device **device);
// How often the process has called the function of this name, without the version behind it.
u64 cuStandinCalls(const char *name);
// Whether the n-th thing of this name was to fail, and with what.
Code injected(const char *what);
// The device is broken from here on, if the code is one of those.
void lose(Device *device, Code code);
// The error that broke it, or OK.
Code lost(Device *device);
// While a thread runs a callback it must not call the driver.
extern _Thread_local bool in_callback;
extern volatile bool is_over;
extern u64 jitter, ways, full_blocks;

// memory.c
// ---------------------------------------------------------------------------------------------------------

bool open_arena(Device *device);
int memory_kind(u64 addr, u64 len);
int copied_kind(u64 addr, u64 len);
// Where the bytes of a range are that a device may touch. Else the work ends here, and the device is lost.
void *reach(u64 addr, u64 len);

// stream.c
// ---------------------------------------------------------------------------------------------------------

// Ends the work that this thread runs.
void fault(Code code) __attribute__((noreturn));
// The device whose kernel this thread runs: it reaches no other one's memory.
const Device *kernel_of(void);
// Waits until all that the streams of a device have now is done. The lock is held.
void drain(Device *device);

#endif
