/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl_rt.h
 * @brief The runtime: devices, contexts, streams, events, memory and copies.
 *
 * Only functions that the library exports are declared, so a program that compiles also links. Every call
 * that returns aclError returns ACL_SUCCESS or says what is wrong; aclGetRecentErrMsg() then has the words.
 */
#ifndef ACL_ACL_RT_H
#define ACL_ACL_RT_H

#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version and sizes --------------------------------------------------------------------------------- */

#define ACL_MAJOR_VERSION 1 /**< First part of the API version. */
#define ACL_MINOR_VERSION 15 /**< Second part of the API version. */
#define ACL_PATCH_VERSION 0 /**< Third part of the API version. */
#define ACL_PKG_VERSION_MAX_SIZE 128 /**< Bytes of a package's version text. */
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64 /**< Bytes of each part of it. */
#define ACL_IPC_EVENT_HANDLE_SIZE 64 /**< Bytes of an event handle that crosses processes. */

/* ---- Handles and callbacks ----------------------------------------------------------------------------- */

typedef void *aclrtContext; /**< A context. */
typedef void *aclrtNotify; /**< A notify: one record releases one wait. */
typedef void *aclrtDrvMemHandle; /**< Physical memory without an address. */
typedef void *aclrtMemPool; /**< A pool of stream-ordered memory. */

/** A host function that a stream runs; it must not allocate, synchronise or submit. */
typedef void (*aclrtHostFunc)(void *args);

/** A host function that a subscribed thread runs. */
typedef void (*aclrtCallback)(void *userData);

/** A task that failed; opaque, and valid while the function runs that was given it. */
typedef struct aclrtExceptionInfo aclrtExceptionInfo;

/** A host function that hears of failed tasks; it must not allocate, synchronise or submit. */
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *exceptionInfo);

/* ---- Copies -------------------------------------------------------------------------------------------- */

/** Direction of a copy. */
typedef enum {
    ACL_MEMCPY_HOST_TO_HOST = 0, /**< Inside the host. */
    ACL_MEMCPY_HOST_TO_DEVICE = 1, /**< Host to device. */
    ACL_MEMCPY_DEVICE_TO_HOST = 2, /**< Device to host. */
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3, /**< Inside one device, or between two. */
    ACL_MEMCPY_DEFAULT = 4, /**< Worked out from the two addresses. */
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5, /**< Host to device; the host memory is free again when the call
                                               returns. */
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6, /**< Inside one device. */
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7 /**< Between two devices. */
} aclrtMemcpyKind;

/** What kind of memory an address belongs to. */
typedef enum {
    ACL_MEM_LOCATION_TYPE_HOST = 0, /**< Host memory allocated by an acl function. */
    ACL_MEM_LOCATION_TYPE_DEVICE = 1, /**< Device memory allocated by an acl function. */
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2, /**< Memory not allocated by acl. */
    ACL_MEM_LOCATION_TYPE_MANAGED = 3, /**< Unified virtual memory. */
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4 /**< Host memory chosen by NUMA id. */
} aclrtMemLocationType;

/** A place for memory. */
typedef struct {
    uint32_t id; /**< Device id or NUMA id; ignored for HOST. */
    aclrtMemLocationType type; /**< What `id` counts. */
} aclrtMemLocation;

/** What a range of copies of a batch has in common. */
typedef struct {
    aclrtMemLocation dstLoc; /**< Where the destinations are. */
    aclrtMemLocation srcLoc; /**< Where the sources are. */
    uint8_t rsv[16]; /**< Reserved, 0. */
} aclrtMemcpyBatchAttr;

/** What aclrtPointerGetAttributes finds out. */
typedef struct {
    aclrtMemLocation location; /**< Where the memory is. */
    uint32_t pageSize; /**< Page size in bytes. */
    uint32_t rsv[4]; /**< Reserved, 0. */
} aclrtPtrAttributes;

/** Arithmetic of a reducing copy. */
typedef enum {
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10, /**< Sum. */
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11, /**< Maximum. */
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12, /**< Minimum. */
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13 /**< Equality. */
} aclrtReduceKind;

/** Cache operations. */
typedef enum {
    ACL_RT_CMO_TYPE_PREFETCH = 0, /**< Bring in. */
    ACL_RT_CMO_TYPE_WRITEBACK = 1, /**< Write back. */
    ACL_RT_CMO_TYPE_INVALID = 2, /**< Drop. */
    ACL_RT_CMO_TYPE_FLUSH = 3 /**< Write back and drop. */
} aclrtCmoType;

/* ---- Memory -------------------------------------------------------------------------------------------- */

/** Pages an allocation is made of. */
typedef enum {
    ACL_MEM_MALLOC_HUGE_FIRST = 0, /**< Above 1 MiB huge pages if there are any, else normal ones. */
    ACL_MEM_MALLOC_HUGE_ONLY = 1, /**< 2 MiB pages or an error. */
    ACL_MEM_MALLOC_NORMAL_ONLY = 2, /**< Normal pages or an error. */
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3, /**< As HUGE_FIRST, for copies between devices. */
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4, /**< As HUGE_ONLY, for copies between devices. */
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5, /**< As NORMAL_ONLY, for copies between devices. */
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6, /**< 1 GiB pages or an error. */
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7, /**< As HUGE1G_ONLY, for copies between devices. */
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100, /**< Low bandwidth; mostly ignored. */
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000, /**< High bandwidth; mostly ignored. */
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000 /**< User space cannot write it. */
} aclrtMemMallocPolicy;

/** Which memory of a device is meant. */
typedef enum {
    ACL_DDR_MEM = 0, /**< DDR. */
    ACL_HBM_MEM = 1, /**< HBM. */
    ACL_DDR_MEM_HUGE = 2, /**< DDR, huge pages. */
    ACL_DDR_MEM_NORMAL = 3, /**< DDR, normal pages. */
    ACL_HBM_MEM_HUGE = 4, /**< HBM, huge pages. */
    ACL_HBM_MEM_NORMAL = 5, /**< HBM, normal pages. */
    ACL_DDR_MEM_P2P_HUGE = 6, /**< DDR between devices, huge pages. */
    ACL_DDR_MEM_P2P_NORMAL = 7, /**< DDR between devices, normal pages. */
    ACL_HBM_MEM_P2P_HUGE = 8, /**< HBM between devices, huge pages. */
    ACL_HBM_MEM_P2P_NORMAL = 9, /**< HBM between devices, normal pages. */
    ACL_HBM_MEM_HUGE1G = 10, /**< HBM, 1 GiB pages. */
    ACL_HBM_MEM_P2P_HUGE1G = 11, /**< HBM between devices, 1 GiB pages. */
    ACL_MEM_NORMAL = 12, /**< DDR or HBM, whichever there is, normal pages. */
    ACL_MEM_HUGE = 13, /**< The same, huge pages. */
    ACL_MEM_HUGE1G = 14, /**< The same, 1 GiB pages. */
    ACL_MEM_P2P_NORMAL = 15, /**< The same between devices, normal pages. */
    ACL_MEM_P2P_HUGE = 16, /**< The same between devices, huge pages. */
    ACL_MEM_P2P_HUGE1G = 17 /**< The same between devices, 1 GiB pages. */
} aclrtMemAttr;

/** Which member of aclrtMallocAttrValue counts. */
typedef enum {
    ACL_RT_MEM_ATTR_RSV = 0, /**< None. */
    ACL_RT_MEM_ATTR_MODULE_ID = 1, /**< moduleId. */
    ACL_RT_MEM_ATTR_DEVICE_ID = 2, /**< deviceId. */
    ACL_RT_MEM_ATTR_VA_FLAG = 3 /**< vaFlag. */
} aclrtMallocAttrType;

/** Value of one setting of an allocation. */
typedef union {
    uint16_t moduleId; /**< Module that owns the memory; 33 is the application. */
    uint32_t deviceId; /**< Device of the memory. */
    uint32_t vaFlag; /**< Kind of virtual address. */
    uint8_t rsv[8]; /**< Reserved. */
} aclrtMallocAttrValue;

/** One setting of an allocation. */
typedef struct {
    aclrtMallocAttrType attr; /**< Which. */
    aclrtMallocAttrValue value; /**< Its value. */
} aclrtMallocAttribute;

/** Settings of an allocation. */
typedef struct {
    aclrtMallocAttribute *attrs; /**< The settings. */
    size_t numAttrs; /**< How many. */
} aclrtMallocConfig;

/** How physical memory is allocated. */
typedef enum {
    ACL_MEM_ALLOCATION_TYPE_PINNED = 0 /**< Page-locked. */
} aclrtMemAllocationType;

/** How physical memory can be shared. */
typedef enum {
    ACL_MEM_HANDLE_TYPE_NONE = 0, /**< Not by a handle of the system. */
    ACL_MEM_HANDLE_TYPE_POSIX = 2 /**< By a file descriptor. */
} aclrtMemHandleType;

/** How far a shareable handle reaches. */
typedef enum {
    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 1, /**< Inside one machine; the handle is a uint64_t. */
    ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2 /**< Between machines; not supported. */
} aclrtMemSharedHandleType;

#define ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT 0x0UL /**< Export flag: listed processes may import the key. */
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL /**< Export flag: whoever has the key may
                                                                     import it. */
#define ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT 0x0UL /**< Import flag: just the memory. */
#define ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x1UL /**< Import flag: and access to its device. */
#define ACL_RT_VMM_EXPORT_FLAG_DEFAULT 0x0UL /**< Export flag: listed processes may import the handle. */
#define ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL /**< Export flag: whoever has the handle may
                                                                 import it. */

/** Properties of physical memory. */
typedef struct {
    aclrtMemHandleType handleType; /**< How it can be shared. */
    aclrtMemAllocationType allocationType; /**< How it is allocated. */
    aclrtMemAttr memAttr; /**< Which memory. */
    aclrtMemLocation location; /**< Where. */
    uint64_t reserve; /**< Reserved, 0. */
} aclrtPhysicalMemProp;

/** Which granularity of physical memory is asked for. */
typedef enum {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0, /**< The smallest. */
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1, /**< The one that serves best. */
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF /**< None. */
} aclrtMemGranularityOptions;

/** How a place may touch memory (values: aclcppdevg_03_2046). */
typedef enum {
    ACL_RT_MEM_ACCESS_FLAGS_NONE = 0, /**< Not at all. */
    ACL_RT_MEM_ACCESS_FLAGS_READ = 1, /**< It may read. */
    ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 3 /**< It may read and write. */
} aclrtMemAccessFlags;

/** A place, and how it may touch memory (members: aclcppdevg_03_2047). */
typedef struct {
    aclrtMemAccessFlags flags; /**< How. */
    aclrtMemLocation location; /**< Who: HOST or a DEVICE. */
    uint8_t rsv[12]; /**< Reserved, 0. */
} aclrtMemAccessDesc;

/** Properties of a memory pool. */
typedef struct {
    aclrtMemAllocationType allocType; /**< How its memory is allocated. */
    aclrtMemHandleType handleType; /**< How its memory can be shared. */
    aclrtMemLocation location; /**< Where. */
    size_t maxSize; /**< Largest size in bytes. */
    uint8_t reserved[32]; /**< Reserved, 0. */
} aclrtMemPoolProps;

/** Memory that one module uses. */
typedef struct {
    char name[32]; /**< The module. */
    uint64_t curMemSize; /**< Bytes now. */
    uint64_t memPeakSize; /**< Most bytes so far. */
    size_t reserved[8]; /**< Reserved. */
} aclrtMemUsageInfo;

/** A range with an uncorrectable memory error. */
typedef struct {
    void *addr; /**< Its start. */
    size_t len; /**< Its length in bytes. */
    size_t reserved[14]; /**< Reserved. */
} aclrtMemUceInfo;

#define ACL_RT_MEM_UCE_INFO_MAX_NUM 20 /**< Ranges in an aclrtMemUceInfoArray (aclcppdevg_03_1963, as all
                                            of its kin). */

/** Ranges with uncorrectable memory errors. */
typedef struct {
    size_t arraySize; /**< How many. */
    aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM]; /**< The ranges. */
} aclrtMemUceInfoArray;

/** Kinds of faults of a device. */
typedef enum {
    ACL_RT_NO_ERROR = 0, /**< None. */
    ACL_RT_ERROR_MEMORY = 1, /**< Memory. */
    ACL_RT_ERROR_L2 = 2, /**< L2 buffer. */
    ACL_RT_ERROR_AICORE = 3, /**< AI core. */
    ACL_RT_ERROR_LINK = 4, /**< Network. */
    ACL_RT_ERROR_L3_PORT = 5, /**< L3 port. */
    ACL_RT_ERROR_OTHERS = 0xFFFF /**< Another. */
} aclrtErrorType;

/** Where the fault of an AI core is to be looked for. */
typedef enum {
    ACL_RT_AICORE_ERROR_UNKNOWN = 0, /**< Nobody knows. */
    ACL_RT_AICORE_ERROR_UNKOWN = 0, /**< The same, in its second spelling. */
    ACL_RT_AICORE_ERROR_SW = 1, /**< In software. */
    ACL_RT_AICORE_ERROR_HW_LOCAL = 2 /**< In this device. */
} aclrtAicoreErrorType;

/** More about a fault, by its kind. */
typedef union {
    aclrtMemUceInfoArray uceInfo; /**< Of memory. */
    aclrtAicoreErrorType aicoreErrType; /**< Of an AI core. */
} aclrtErrorInfoDetail;

/** What is wrong with a device. */
typedef struct {
    uint8_t tryRepair; /**< 1 if it can be repaired. */
    uint8_t hasDetail; /**< 1 if `detail` says more. */
    uint8_t reserved[2]; /**< Reserved. */
    aclrtErrorType errorType; /**< Its kind. */
    aclrtErrorInfoDetail detail; /**< More about it. */
} aclrtErrorInfo;

/** How host memory is registered. */
typedef enum {
    ACL_HOST_REGISTER_MAPPED = 0, /**< Mapped to the device. */
    ACL_HOST_REGISTER_IOMEMORY = 0x04, /**< Reserved. */
    ACL_HOST_REGISTER_READONLY = 0x08 /**< Reserved. */
} aclrtHostRegisterType;

#define ACL_HOST_REG_MAPPED 0x2U /**< Mapped to the device. */
#define ACL_HOST_REG_IOMEMORY 0x4U /**< Reserved. */
#define ACL_HOST_REG_READONLY 0x8U /**< Reserved. */
#define ACL_HOST_REG_PINNED 0x10000000U /**< Page-locked. */

#define ACL_RT_MEM_TYPE_DEV 0x2U /**< Question of a memory check: device memory? */
#define ACL_RT_MEM_TYPE_DVPP 0x8U /**< Question of a memory check: media memory? */
#define ACL_RT_MEM_TYPE_RSVD 0x10U /**< Question of a memory check: reserved memory? */

#define ACL_RT_MEM_ATTACH_GLOBAL 1U /**< Managed memory that every device sees. */

/* ---- Streams and events -------------------------------------------------------------------------------- */

#define ACL_STREAM_FAST_LAUNCH 0x1U /**< Stream flag: tasks are launched faster. */
#define ACL_STREAM_FAST_SYNC 0x2U /**< Stream flag: synchronising is faster. */
#define ACL_STREAM_PERSISTENT 0x4U /**< Stream flag: tasks wait to be run by a model. */
#define ACL_STREAM_HUGE 0x8U /**< Stream flag: no effect. */
#define ACL_STREAM_CPU_SCHEDULE 0x10U /**< Stream flag: reserved. */
#define ACL_STREAM_DEVICE_USE_ONLY 0x20U /**< Stream flag: only the device uses it. */

#define ACL_CONTINUE_ON_FAILURE 0U /**< Failure mode: later tasks still run. */
#define ACL_STOP_ON_FAILURE 1U /**< Failure mode: no task is taken afterwards. */

#define ACL_STREAM_WAIT_VALUE_GEQ 0U /**< Value wait: until memory - value >= 0, as a signed number. */
#define ACL_STREAM_WAIT_VALUE_EQ 1U /**< Value wait: until memory == value. */
#define ACL_STREAM_WAIT_VALUE_AND 2U /**< Value wait: until (memory & value) != 0. */
#define ACL_STREAM_WAIT_VALUE_NOR 3U /**< Value wait: until ~(memory | value) != 0. */

#define ACL_EVENT_SYNC 0x1U /**< Event flag: streams can wait for it. */
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x2U /**< Event flag: it follows a stream's progress. */
#define ACL_EVENT_TIME_LINE 0x8U /**< Event flag: it takes the time. */
#define ACL_EVENT_DEVICE_USE_ONLY 0x10U /**< Event flag: only the device uses it. */
#define ACL_EVENT_EXTERNAL 0x20U /**< Event flag: executions of graphs wait for it; it must outlive them. */
#define ACL_EVENT_IPC 0x40U /**< Event flag: for use across processes. */

#define ACL_NOTIFY_DEFAULT 0x0UL /**< Notify flag: as usual. */
#define ACL_NOTIFY_DEVICE_USE_ONLY 0x1UL /**< Notify flag: only the device uses it. */
#define ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT 0x0UL /**< Export flag: listed processes may import the key. */
#define ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x2UL /**< Export flag: whoever has the key may
                                                                    import it. */
#define ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT 0x0UL /**< Import flag: just the notify. */
#define ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x2UL /**< Import flag: and access to its device. */

#define ACL_EVENT_RECORD_DEFAULT 0U /**< Record flag: as usual. */
#define ACL_EVENT_RECORD_EXTERNAL 1U /**< Record flag: as an external node of a captured graph. */
#define ACL_EVENT_WAIT_DEFAULT 0U /**< Wait flag: as usual. */
#define ACL_EVENT_WAIT_EXTERNAL 1U /**< Wait flag: as an external node of a captured graph. */

/** What aclrtStreamQuery answers. */
typedef enum {
    ACL_STREAM_STATUS_COMPLETE = 0, /**< All tasks are done. */
    ACL_STREAM_STATUS_NOT_READY = 1, /**< Some task is not done. */
    ACL_STREAM_STATUS_RESERVED = 0xFFFF /**< Reserved. */
} aclrtStreamStatus;

/** What aclrtQueryEventStatus answers; the numbers are the other way round than everywhere else. */
typedef enum {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0, /**< Some recorded task is not done. */
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1 /**< All recorded tasks are done. */
} aclrtEventRecordedStatus;

/** Answer of the deprecated event query. */
typedef enum {
    ACL_EVENT_STATUS_COMPLETE = 0, /**< Done. */
    ACL_EVENT_STATUS_NOT_READY = 1, /**< Not done. */
    ACL_EVENT_STATUS_RESERVED = 2 /**< Reserved. */
} aclrtEventStatus;

/** Answer of the query for waiting streams. */
typedef enum {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0, /**< All waits are done. */
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1, /**< Some wait is not done. */
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF /**< Reserved. */
} aclrtEventWaitStatus;

/** Whether a callback holds up the tasks behind it. */
typedef enum {
    ACL_CALLBACK_NO_BLOCK = 0, /**< It does not. */
    ACL_CALLBACK_BLOCK = 1 /**< It does. */
} aclrtCallbackBlockType;

/** What can be set of a stream besides its work (values: aclcppdevg_03_1873). */
typedef enum {
    ACL_STREAM_ATTR_FAILURE_MODE = 1, /**< As aclrtSetStreamFailureMode; not of the default stream. */
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2, /**< As aclrtSetStreamOverflowSwitch. */
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3, /**< Any number. */
    ACL_STREAM_ATTR_CACHE_OP_INFO = 4, /**< 0 or 1. */
    ACL_STREAM_ATTR_PRIORITY = 5 /**< 0 (highest) to 7; 950, A3 and A2. */
} aclrtStreamAttr;

/** Value of a stream attribute. */
typedef union {
    uint64_t failureMode; /**< ACL_CONTINUE_ON_FAILURE or ACL_STOP_ON_FAILURE. */
    uint32_t overflowSwitch; /**< Overflow check on or off. */
    uint32_t userCustomTag; /**< The user's own tag. */
    uint32_t cacheOpInfoSwitch; /**< Caching of operator information on or off. */
    uint32_t streamPriority; /**< 0 (highest) to 7. */
    uint32_t reserve[4]; /**< Reserved. */
} aclrtStreamAttrValue;

/** Settings of a stream that is made from a configuration. */
typedef struct {
    void *workptr; /**< Working memory. */
    size_t workSize; /**< Its size in bytes. */
    size_t flag; /**< Stream flags. */
    uint32_t priority; /**< 0 (highest) to 7. */
} aclrtStreamConfigHandle;

/** An event as another process sees it. */
typedef struct {
    char reserved[ACL_IPC_EVENT_HANDLE_SIZE]; /**< Opaque. */
} aclrtIpcEventHandle;

/** A timeout in microseconds, in two halves. */
typedef struct {
    uint32_t timeoutLow; /**< Low 32 bits. */
    uint32_t timeoutHigh; /**< High 32 bits. */
} aclrtTimeoutUs;

/* ---- Devices ------------------------------------------------------------------------------------------- */

/** Where the program runs. */
typedef enum {
    ACL_DEVICE = 0, /**< On the device or its board. */
    ACL_HOST = 1 /**< On a host with the device as a card. */
} aclrtRunMode;

/** A package of CANN. */
typedef enum {
    ACL_PKG_NAME_CANN = 0, /**< The whole. */
    ACL_PKG_NAME_RUNTIME = 1, /**< Runtime. */
    ACL_PKG_NAME_COMPILER = 2, /**< Compiler. */
    ACL_PKG_NAME_HCCL = 3, /**< Collective communication. */
    ACL_PKG_NAME_TOOLKIT = 4, /**< Tools. */
    ACL_PKG_NAME_OPP = 5, /**< Operators. */
    ACL_PKG_NAME_OPP_KERNEL = 6, /**< Operators' kernels. */
    ACL_PKG_NAME_DRIVER = 7 /**< Driver. */
} aclCANNPackageName;

/** The version of a package, whole and in parts; a part that is not there is "0". */
typedef struct {
    char version[ACL_PKG_VERSION_MAX_SIZE]; /**< The whole. */
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]; /**< First part. */
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]; /**< Second part. */
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]; /**< Third part. */
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]; /**< Fourth part. */
    char reserved[ACL_PKG_VERSION_MAX_SIZE]; /**< Reserved, 0. */
} aclCANNPackageVersion;

/** Whose last error is meant. */
typedef enum {
    ACL_RT_THREAD_LEVEL = 0 /**< The calling thread's. */
} aclrtLastErrLevel;

/** Facts about a device. */
typedef enum {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1, /**< AI CPU cores. */
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101, /**< AI cores. */
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102, /**< Cube cores. */
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201, /**< Vector cores. */
    ACL_DEV_ATTR_WARP_SIZE = 202, /**< Threads of a warp. */
    ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203, /**< Threads of a vector core. */
    ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204, /**< Local memory of a vector core. */
    ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204, /**< The same, in its second spelling. */
    ACL_DEV_ATTR_MAX_GRID_DIM_X = 205, /**< Largest grid, first dimension. */
    ACL_DEV_ATTR_MAX_GRID_DIM_Y = 206, /**< Largest grid, second dimension. */
    ACL_DEV_ATTR_MAX_GRID_DIM_Z = 207, /**< Largest grid, third dimension. */
    ACL_DEV_ATTR_MAX_BLOCK_PER_GRID = 208, /**< Blocks of a grid. */
    ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK = 209, /**< Threads of a block. */
    ACL_DEV_ATTR_MAX_BLOCK_DIM_X = 210, /**< Largest block, first dimension. */
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Y = 211, /**< Largest block, second dimension. */
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Z = 212, /**< Largest block, third dimension. */
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301, /**< Bytes of device memory. */
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302, /**< Bytes of L2 cache. */
    ACL_DEV_ATTR_SMP_ID = 401, /**< Which system of several processors it is in. */
    ACL_DEV_ATTR_PHY_CHIP_ID = 402, /**< Physical chip. */
    ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403, /**< Its number in the super pod. */
    ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403, /**< The same, in its second spelling. */
    ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404, /**< Server in the super pod. */
    ACL_DEV_ATTR_SUPER_POD_ID = 405, /**< The super pod. */
    ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406, /**< Whether custom operators may run. */
    ACL_DEV_ATTR_MAINBOARD_ID = 407, /**< Main board. */
    ACL_DEV_ATTR_HD_CONNECT_TYPE = 408, /**< How host and device are connected. */
    ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409, /**< Card, module or board. */
    ACL_DEV_ATTR_IS_VIRTUAL = 501, /**< Whether it is virtual. */
    ACL_DEV_ATTR_NPU_ARCH = 601 /**< Architecture. */
} aclrtDevAttr;

/** Numbers of a device, in the older query. */
typedef enum {
    ACL_DEVICE_INFO_UNDEFINED = -1, /**< None. */
    ACL_DEVICE_INFO_AI_CORE_NUM = 0, /**< AI cores. */
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1, /**< Vector cores. */
    ACL_DEVICE_INFO_L2_SIZE = 2 /**< Bytes of L2 cache. */
} aclDeviceInfo;

/** What a float becomes that is too large. */
typedef enum {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0, /**< The largest finite number. */
    ACL_RT_OVERFLOW_MODE_INFNAN = 1, /**< Infinity. */
    ACL_RT_OVERFLOW_MODE_UNDEF = 2 /**< Neither. */
} aclrtFloatOverflowMode;

/** Whether a device works (values: aclcppdevg_03_1403). */
typedef enum {
    ACL_RT_DEVICE_STATUS_NORMAL = 0, /**< It does. */
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1, /**< It does not. */
    ACL_RT_DEVICE_STATUS_END = 0xFFFF /**< Reserved. */
} aclrtDeviceStatus;

/** Resources of a device that can be limited. */
typedef enum {
    ACL_RT_DEV_RES_CUBE_CORE = 0, /**< Cube cores. */
    ACL_RT_DEV_RES_VECTOR_CORE = 1 /**< Vector cores. */
} aclrtDevResLimitType;

/** Parameters that operators read. */
typedef enum {
    ACL_OPT_DETERMINISTIC = 0, /**< Same input, same output. */
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1, /**< Operators check their memory accesses. */
    ACL_OPT_STRONG_CONSISTENCY = 2 /**< Results do not depend on where data lies. */
} aclSysParamOpt;

#define ACL_DEV_FEATURE_NOT_SUPPORT 0 /**< The device does not have the feature. */
#define ACL_DEV_FEATURE_SUPPORT 1 /**< The device has the feature. */

#define ACL_RT_DEVS_TOPOLOGY_HCCS 0x01U /**< Two devices meet over HCCS. */
#define ACL_RT_DEVS_TOPOLOGY_PIX 0x02U /**< Two devices meet in one PCIe switch. */
#define ACL_RT_DEVS_TOPOLOGY_PIB 0x04U /**< Two devices meet over several PCIe switches. */
#define ACL_RT_DEVS_TOPOLOGY_PHB 0x08U /**< Two devices meet in one PCIe host bridge. */
#define ACL_RT_DEVS_TOPOLOGY_SYS 0x10U /**< Two devices meet over the processors' link. */
#define ACL_RT_DEVS_TOPOLOGY_SIO 0x20U /**< Two devices are dies of one chip. */
#define ACL_RT_DEVS_TOPOLOGY_HCCS_SW 0x40U /**< Two devices meet over an HCCS switch. */

/** More about utilisation; opaque. */
typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;

/** How busy a device is, in per cent; -1 where it cannot tell. */
typedef struct {
    int32_t cubeUtilization; /**< Cube cores. */
    int32_t vectorUtilization; /**< Vector cores. */
    int32_t aicpuUtilization; /**< AI CPUs. */
    int32_t memoryUtilization; /**< Memory. */
    aclrtUtilizationExtendInfo *utilizationExtend; /**< Reserved, NULL. */
} aclrtUtilizationInfo;

/** A device's unique number. */
typedef struct {
    char bytes[16]; /**< Its bytes. */
} aclrtUuid;

/** Processes of a server. */
typedef struct {
    uint32_t sdid; /**< The server's device. */
    int32_t *pid; /**< The process ids. */
    size_t num; /**< How many. */
} aclrtServerPid;

/* ---- Functions: start, end, messages ------------------------------------------------------------------- */

/** Starts the library; `configPath` is NULL or the path of a JSON file. */
aclError aclInit(const char *configPath);

/** Ends the library, however often it was started. */
aclError aclFinalize(void);

/** Takes back one aclInit, and ends the library with the last; `refCount`, if not NULL, receives how many
 *  are left. */
aclError aclFinalizeReference(uint64_t *refCount);

/** Code of the calling thread's last call that failed; ACL_SUCCESS if there is none. */
aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

/** The same, and forgets it. */
aclError aclrtGetLastError(aclrtLastErrLevel level);

/** Has a function called for every task of a stream that fails, on any thread; NULL ends that, and the last
 *  one counts. It has been called when a call returns the error of the task, and is called for one task at a
 *  time: it must not wait for calls of other threads, which may wait for it. */
aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);

/** Number of the task that failed, in its stream; 0xFFFFFFFF if `info` is not what the function was given. */
uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Number of its stream, as aclrtStreamGetId tells it. */
uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** The system's number of the thread that began to use its stream last. */
uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Its device. */
uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** The code that the stream's next synchronise returns; 0xFFFFFFFF if the device is lost. */
uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info);

/** Version of the API. */
aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);

/** Version of a package, whose name may be in any case, as text, into ACL_PKG_VERSION_MAX_SIZE bytes. */
aclError aclsysGetVersionStr(char *pkgName, char *versionStr);

/** Version of a package as a number; later versions have larger ones. */
aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/** Version of a package in parts. */
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);

/** Takes the calling thread's messages, newest first; NULL if there are none. Valid until the next call. */
const char *aclGetRecentErrMsg(void);

/** Name of the product, such as "Ascend910B1". */
const char *aclrtGetSocName(void);

/** Tells whether the program runs on a host or on the device. */
aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* ---- Functions: devices -------------------------------------------------------------------------------- */

/** Makes a device, and its default context, current in the calling thread. */
aclError aclrtSetDevice(int32_t deviceId);

/** Takes back one aclrtSetDevice; the last one waits and frees the default context. */
aclError aclrtResetDevice(int32_t deviceId);

/** Takes back every aclrtSetDevice of a device at once: waits and frees the default context. */
aclError aclrtResetDeviceForce(int32_t deviceId);

/** The calling thread's device. */
aclError aclrtGetDevice(int32_t *deviceId);

/** Number of devices. */
aclError aclrtGetDeviceCount(uint32_t *count);

/** Waits for all streams of the current device. */
aclError aclrtSynchronizeDevice(void);

/** The same with a limit in milliseconds; -1 is no limit. */
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/** Free and total bytes of a kind of memory on the current device. */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/** Asks whether `deviceId` can reach memory of `peerDeviceId`: 1 or 0. */
aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

/** Lets the current device reach memory of `peerDeviceId`, as it does its own anyway; `flags` is 0. */
aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

/** Takes back aclrtDeviceEnablePeerAccess. */
aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/** Asks whether `deviceId` may reach memory of `peerDeviceId` now: 1 or 0. */
aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/** A number of a device: cores, cache. */
aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value);

/** A fact about a device. */
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);

/** How busy a device is. */
aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);

/** Process id by which other processes' white lists know this one. */
aclError aclrtDeviceGetBareTgid(int32_t *pid);

/** The driver's number of a device of this process, whose numbers count ASCEND_RT_VISIBLE_DEVICES. */
aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);

/** This process's number of a device that the driver calls so. */
aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);

/** The driver's number of a device of the machine; the two are the same here. */
aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);

/** The machine's number of a device. Documented: the argument is this process's number, in spite of its
 *  name. */
aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);

/** This process's number of a device of the machine. */
aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId);

/** The machine's number of a device of this process. */
aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId);

/**
 * Keeps a mode for the current device, which aclrtGetDeviceSatMode tells. Nothing else here depends on it: in
 * a reduction (aclrtReduceAsync) a float that is too large becomes infinity in both modes.
 */
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);

/** The mode that was set for the current device. */
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);

/** Sets a parameter of the process. */
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** A parameter of the process; 0 if it was never set. */
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/** Sets how many seconds an operator may run; copies are not meant. */
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);

/** The same in microseconds; `actualTimeout` receives what was set. */
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);

/** Whether a device works, set or not: aclrtDeviceStatus. */
aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);

/** 16 bytes that name a device on this machine, to every process alike. */
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);

/** What this process uses of a device's memory, by module: one, "FERRY". `memUsageInfo` has room for
 *  `inputNum`. */
aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
                              size_t *outputNum);

/** The lowest priority of streams (7) and the highest (0). */
aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);

/** Drops all work of a device, of every context, as aclrtStreamAbort does of a stream; `timeout` in
 *  milliseconds, 0 is no limit. */
aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);

/** Ranges of a device with uncorrectable memory errors, at most 128. There are none: `retSize` becomes 0. */
aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize,
                            size_t *retSize);

/** Repairs what aclrtGetMemUceInfo told of: nothing. */
aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);

/** What is wrong with a device: nothing. */
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/** Repairs what aclrtGetErrorVerbose told of. */
aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);

/** Limits the cores of a device for this process, from 1 to what there is. Limits are kept and told;
 *  operators would heed them. */
aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);

/** The limit that was set, else what the product has. */
aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);

/** Ends all limits of a device. */
aclError aclrtResetDeviceResLimit(int32_t deviceId);

/** What counts for the calling thread: limits of the stream that it uses, else of the device, else what the
 *  product has. */
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/* ---- Functions: contexts ------------------------------------------------------------------------------- */

/** Creates a context on a device and makes it current. */
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/** Destroys a context made by aclrtCreateContext. */
aclError aclrtDestroyContext(aclrtContext context);

/** Makes a context, and its device, current in the calling thread. */
aclError aclrtSetCurrentContext(aclrtContext context);

/** The calling thread's context. */
aclError aclrtGetCurrentContext(aclrtContext *context);

/** Whether a device's default context is in use: 1 after aclrtSetDevice. `flags` is NULL, and never
 *  written. */
aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);

/** Sets a parameter of the current context. */
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** A parameter of the current context; one that was never set is an error. */
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/* ---- Functions: streams -------------------------------------------------------------------------------- */

/** Creates a stream in the current context. */
aclError aclrtCreateStream(aclrtStream *stream);

/** Creates a stream with a priority and ACL_STREAM_ flags. */
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/** Waits for a stream's tasks and destroys it. */
aclError aclrtDestroyStream(aclrtStream stream);

/** Destroys a stream at once and drops its tasks. */
aclError aclrtDestroyStreamForce(aclrtStream stream);

/** Stops and drops a stream's tasks; calls that wait for it return ACL_ERROR_RT_STREAM_ABORT. It can be
 *  used again. */
aclError aclrtStreamAbort(aclrtStream stream);

/** Waits for a stream's tasks and returns the first error that was not yet reported. */
aclError aclrtSynchronizeStream(aclrtStream stream);

/** The same with a limit in milliseconds; -1 is no limit. */
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/** Asks, without waiting, whether a stream's tasks are done. */
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/** Sets, once, what follows when a task of a stream fails: ACL_CONTINUE_ON_FAILURE, or ACL_STOP_ON_FAILURE,
 *  which stops all streams of the context for good. NULL is the default stream, on some products only. */
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/** A small number that no other living stream of the process has. */
aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);

/** The priority of a stream, from 0 (highest) to 7. All streams are served alike. */
aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);

/** The ACL_STREAM_ flags that a stream was made with. */
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);

/** Sets an attribute of a stream. */
aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value);

/** An attribute of a stream. */
aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value);

/** Keeps whether a stream is to look for overflows: 0 or 1. Nothing overflows here. */
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);

/** What aclrtSetStreamOverflowSwitch kept. */
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/** Writes, in stream order, the 64 bytes of an overflow status to device memory: zeros. */
aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream);

/** Forgets overflows, of which there are none. */
aclError aclrtResetOverflowStatus(aclrtStream stream);

/** A hint about memory of the stream's device, ACL_RT_CMO_TYPE_PREFETCH only; there is no cache that would
 *  heed it. */
aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);

/** Writes 64 bits of memory of the stream's device, at a multiple of 8, when the stream gets there; `flag`
 *  is 0. */
aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/** Holds later tasks of a stream until 64 bits of memory of its device are as `flag` says:
 *  ACL_STREAM_WAIT_VALUE_. Whoever writes them will do: another stream, another process, a copy. They are
 *  looked at from when the stream gets there. */
aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/** Limits the cores of a stream, as aclrtSetDeviceResLimit those of a device. */
aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);

/** The stream's limit, else the device's, else what the product has. */
aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);

/** Ends all limits of a stream. */
aclError aclrtResetStreamResLimit(aclrtStream stream);

/** Has the calling thread use a stream's limits; the last one counts. */
aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);

/** Ends that. */
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);

/** Holds later tasks of a stream until the event's latest record is done. */
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/** Has a stream run a host function, in order with its tasks. It runs on a thread of the library with the
 *  signal mask of the caller, and has to return: a C++ exception that leaves it, or pthread_exit, ends the
 *  process. */
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/** Binds a stream to the thread that is to run its callbacks: what pthread_self() returns there. */
aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);

/** Runs the calling thread's callbacks that are due, or waits for one up to `timeout` milliseconds; -1 is no
 *  limit. A callback may end the thread; a C++ exception that leaves one ends the process. One that leaves
 *  by longjmp counts as returned, and its stream goes on, at the thread's next call from the function that
 *  called this one or from a caller of that. */
aclError aclrtProcessReport(int32_t timeout);

/** Has the thread that a stream is bound to run a function, in order with the stream's tasks. */
aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                             aclrtStream stream);

/** Takes back aclrtSubscribeReport; callbacks that have not run never will. */
aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

/* ---- Functions: events --------------------------------------------------------------------------------- */

/** Creates an event for timing and for waiting. */
aclError aclrtCreateEvent(aclrtEvent *event);

/** Creates an event with ACL_EVENT_ flags; 0 is for timing and for waiting. */
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);

/** The same for an event that counts as complete until it is recorded. */
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/** Destroys an event; never waits. */
aclError aclrtDestroyEvent(aclrtEvent event);

/** Records what was submitted to a stream so far. */
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/** Has a stream reset an event: it counts as not recorded, and later waits wait for the next record. */
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/** Asks, without waiting, whether the recorded tasks are done. */
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);

/** The same in the numbers of aclrtEventStatus; deprecated. */
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);

/** Asks, without waiting, whether every aclrtStreamWaitEvent for an event so far has been passed. */
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/** Waits for the recorded tasks. */
aclError aclrtSynchronizeEvent(aclrtEvent event);

/** The same with a limit in milliseconds; -1 is no limit. */
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/** Milliseconds between two events. */
aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/** When an event was reached, in microseconds of its device's clock. */
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/** How many seconds streams wait at most for events that they are told to wait for from here on; 0 is no
 *  limit. What takes longer is ACL_ERROR_RT_WAIT_TIMEOUT at the next synchronise of the stream, which goes
 *  on. */
aclError aclrtSetOpWaitTimeout(uint32_t timeout);

/** A number that no other event of the process has; not of an event of ACL_EVENT_IPC. */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/** What other processes open an event by, which was made by aclrtCreateEventExWithFlag with ACL_EVENT_IPC;
 *  the same each time. */
aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);

/** Opens an event of another process, or of this one, as often as one likes; each is destroyed by itself. All
 *  who have it may record it, on streams of any device, and wait for the latest record of any. Of all
 *  processes together 65,527 records may be unfinished at a time; one more is refused with
 *  ACL_ERROR_RT_NO_EVENT_RESOURCE. An event takes a descriptor of each process that has it, and without one
 *  that is the code of its creation. */
aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* ---- Functions: notifies ------------------------------------------------------------------------------- */

/** Creates a notify of the current device: ACL_NOTIFY_ flags. */
aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);

/** Destroys a notify; never waits. Streams that wait for it fail with ACL_ERROR_RT_PARAM_INVALID and go
 *  on. */
aclError aclrtDestroyNotify(aclrtNotify notify);

/** Has a stream, of any device, record a notify: one wait is released, the one that came first; if there is
 *  none, the next one is. */
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);

/** Later work of a stream, of any device, waits for one record of a notify, which is used up by that. Waits
 *  for `timeout` seconds at most, 0 is no limit; what takes longer is ACL_ERROR_RT_WAIT_TIMEOUT at the next
 *  synchronise of the stream, which goes on. */
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/** A number that no other notify has. */
aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);

/** Takes back, at once, records of notifies that no wait has used up. */
aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/** Lets other processes record a notify of this one; the key has 64 characters, `len` is 65 or more. */
aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);

/** Adds processes, by what aclrtDeviceGetBareTgid tells them, to those that may import a notify. */
aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/** Makes a notify of another process known here, to be recorded; the other process waits for it. Each process
 *  destroys its own. */
aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);

/* ---- Functions: memory --------------------------------------------------------------------------------- */

/** Allocates device memory on the current device. */
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** The same without the 32 bytes of padding. */
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** As aclrtMalloc; the policies HUGE_FIRST, HUGE_ONLY, NORMAL_ONLY and HUGE1G_ONLY only. */
aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** As aclrtMalloc, with settings; `cfg` may be NULL. */
aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg);

/** As aclrtMallocWithCfg, for memory that the device's task scheduler uses. */
aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                     aclrtMallocConfig *cfg);

/** Frees device memory at once; copies that still use it are safe but meaningless. */
aclError aclrtFree(void *devPtr);

/** Waits for the device, then frees. */
aclError aclrtFreeWithDevSync(void *devPtr);

/** Allocates page-locked host memory. */
aclError aclrtMallocHost(void **hostPtr, size_t size);

/** The same with settings; `cfg` may be NULL. */
aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);

/** Frees page-locked host memory at once. */
aclError aclrtFreeHost(void *hostPtr);

/** Waits for the current device, then frees. */
aclError aclrtFreeHostWithDevSync(void *hostPtr);

/** Maps host memory for devices; copies must not use the address it gives. */
aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);

/** Maps or page-locks host memory: ACL_HOST_REG_ flags. Page-locked memory is copied asynchronously. */
aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);

/** The address on devices of registered, mapped memory; `flag` is 0. Copies must not use it. */
aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/** Takes back aclrtHostRegister or aclrtHostRegisterV2. */
aclError aclrtHostUnregister(void *ptr);

/** Tells what an address belongs to. */
aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);

/** Start and length of the allocation, or of the mapping, that holds an address; one of the outputs may be
 *  NULL. */
aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

/* ---- Functions: virtual memory ------------------------------------------------------------------------- */

/** Reserves addresses; nothing is behind them until memory is mapped there. `alignment` is 0. */
aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                uint64_t flags);

/** Gives reserved addresses back; nothing is mapped there any more. */
aclError aclrtReleaseMemAddress(void *virPtr);

/** Allocates physical memory; `size` is a multiple of its granularity, `flags` is 0. Of the host it is
 *  page-locked, and the CPU may touch it where it is mapped; HOST_NUMA names a memory node. */
aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop,
                             uint64_t flags);

/** Frees physical memory; while it is mapped it stays until it is unmapped. */
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/** Maps all of a piece of physical memory at reserved addresses; `offset` and `flags` are 0. */
aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Takes back aclrtMapMem. */
aclError aclrtUnmapMem(void *virPtr);

/** The granularity of physical memory with these properties. */
aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                          size_t *granularity);

/** Reserves the very addresses from `expectPtr` on, or fails; `size` is a multiple of 1 GiB. A3 only. */
aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                          uint64_t flags);

/** Notes that places may read and write what aclrtMapMem mapped, with its `virPtr` and `size`. Copies do
 *  not ask. */
aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);

/** aclrtMemAccessFlags of a place: READWRITE for the memory's own and for those that were given access,
 *  else NONE. */
aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);

/** The handle that is mapped at `virPtr`; each call takes one more aclrtFreePhysical. */
aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);

/** What physical memory was made with. */
aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle, aclrtPhysicalMemProp *prop);

/** Lets other processes import physical memory of this one; one shareable handle each, until the memory is
 *  freed. */
aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                         uint64_t flags, uint64_t *shareableHandle);

/** Adds processes, by what aclrtDeviceGetBareTgid tells them, to those that may import a shareable handle. */
aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);

/** Makes a handle for another process's physical memory, to be mapped as memory of device `deviceId`. */
aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                           aclrtDrvMemHandle *handle);

/** As aclrtMemExportToShareableHandle; `shareableHandle` points to what `shareType` says. */
aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                           aclrtMemSharedHandleType shareType, void *shareableHandle);

/** As aclrtMemSetPidToShareableHandle; `shareableHandle` points to what `shareType` says. */
aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType,
                                           int32_t *pid, size_t pidNum);

/** As aclrtMemImportFromShareableHandle, as memory of the current device; `flags` is 0. */
aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType,
                                             uint64_t flags, aclrtDrvMemHandle *handle);

/* ---- Functions: memory between processes --------------------------------------------------------------- */

/** Lets other processes import the first `size` bytes of memory of aclrtMalloc; the key has 64 characters,
 *  `len` is 65. */
aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);

/** Adds processes, by what aclrtDeviceGetBareTgid tells them, to those that may import a key. */
aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);

/** Makes memory that another process exported known here. Every import of a key gives the same address and
 *  is closed by itself. */
aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);

/** Ends one import, or an export; importers come first, and one that does not keeps its memory all the
 *  same. */
aclError aclrtIpcMemClose(const char *key);

/* ---- Functions: copies --------------------------------------------------------------------------------- */

/** Copies `count` bytes and waits for it; `kind` has no effect. */
aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind);

/** Copies `count` bytes in a stream; with pageable host memory it returns when the copy is done. */
aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream);

/** As aclrtMemcpyAsync, under its older name. */
aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                       aclrtMemcpyKind kind, aclrtStream stream);

/** Copies `height` rows of `width` bytes, `dpitch` and `spitch` bytes apart, and waits for it. */
aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind);

/** Copies rows in a stream; with pageable host memory it returns when the copy is done. */
aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream);

/** Makes `numBatches` copies, unordered, and waits; `failIndex` is the refused one, or SIZE_MAX. */
aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                          size_t *failIndex);

/** As aclrtMemcpyBatch, without `failIndex`. */
aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                            aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs);

/** As aclrtMemcpyBatch, in a stream; with pageable host memory it returns when the copies are done. */
aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                               size_t *failIndex, aclrtStream stream);

/** As aclrtMemcpyBatchAsync, without `failIndex`. */
aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                 aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                                 aclrtStream stream);

/** Bytes of a copy descriptor; `kind` is ACL_MEMCPY_INNER_DEVICE_TO_DEVICE. */
aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);

/** Fills a descriptor in device memory; source before destination, `config` is NULL. */
aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count,
                            void *config);

/** Makes the copy that a descriptor holds when the stream gets there. */
aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);

/** Copies from `*src` + `srcDataOffset` to `*dst` + `dstDataOffset`, both read when the stream gets there. */
aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset, const void **src,
                                    size_t count, size_t srcDataOffset, aclrtMemcpyKind kind,
                                    aclrtStream stream);

/* ---- Functions: fills ---------------------------------------------------------------------------------- */

/** Sets `count` bytes to the low byte of `value` and waits for it. */
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);

/** The same in a stream. */
aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);

/** Sets `N` 32-bit elements to `value` and waits for it. */
aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);

/** The same in a stream; host memory is set before the call returns. */
aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream);

/* ---- Functions: reductions ----------------------------------------------------------------------------- */

/**
 * Combines in a stream: every element at `dst` becomes its sum, maximum or minimum with the one at `src`.
 * Both lie in memory of the stream's device; `count` is in bytes; `reserve` is NULL. Types and kinds differ
 * between products.
 */
aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind, aclDataType type,
                          aclrtStream stream, void *reserve);

/* ---- Graphs: work that is captured or built once and executed many times ------------------------------- */

typedef void *aclmdlRI; /**< A model: a graph of tasks; opaque. */
typedef void *aclrtTaskGrp; /**< A group of tasks of a captured model; opaque. */

/** How strict a capture, or a thread, is with calls that would break a capture. */
typedef enum aclmdlRICaptureMode {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0, /**< No such calls in any thread that is as strict. */
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1, /**< No such calls in the capturing thread. */
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2 /**< Such calls are the caller's risk. */
} aclmdlRICaptureMode;

/** What a stream has to do with captures. */
typedef enum aclmdlRICaptureStatus {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0, /**< It is not captured. */
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1, /**< It is captured. */
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2 /**< It is captured, and the capture is broken. */
} aclmdlRICaptureStatus;

#define ACL_MODEL_STREAM_FLAG_HEAD 0x00000000U /**< aclmdlRIBindStream: the stream begins with the model. */
#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU /**< aclmdlRIBindStream: it begins when it is activated. */

/** Begins to capture a stream: its tasks are recorded, and do not run, until aclmdlRICaptureEnd. */
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);

/** Whether a stream is captured, and into which model. Either output may be NULL. */
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI);

/** Gives the calling thread the mode in `*mode`, and returns there the one it had. */
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);

/** Ends the capture that began on the stream. `*modelRI` is the model, or NULL if the capture was broken. Not
 *  of mode RELAXED, it is ended by the thread that began it, or by any other when that has ended. */
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);

/** Begins a group of tasks that can be updated later. */
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);

/** Ends the group. */
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);

/** Begins to update a group, on a stream that is not captured. */
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);

/** Ends the update. */
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/** Writes the tasks of a model to a file, as a JSON array of trace events. */
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);

/** Writes the tasks of a model to the log. */
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

/** Begins to build a model from streams that are bound to it. `flag` is 0. */
aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag);

/** Binds a stream, made with ACL_STREAM_PERSISTENT, to a model that is being built. */
aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag);

/** A bound stream has all of its tasks. */
aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream);

/** The model is complete and can be executed. `reserve` is NULL. */
aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve);

/** Takes a stream from a model. */
aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream);

/** Executes a model and waits for it: for ever if `timeout` is -1, else so many milliseconds. */
aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);

/** Executes a model as one task of a stream. A model runs one execution at a time: while one runs or is
 *  queued, on whichever stream, this one is queued behind it. */
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);

/** Destroys a model that is not being executed. */
aclError aclmdlRIDestroy(aclmdlRI modelRI);

/** Names a model; names longer than 512 bytes are cut. */
aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);

/** The name of a model, with its end, in at most `maxLen` bytes. */
aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);

/** A number that no other model of the process has. */
aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);

/** Stops the execution of a model that was built. */
aclError aclmdlRIAbort(aclmdlRI modelRI);

/** Has a function run when a model is destroyed. */
aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData);

/** Takes that back. */
aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func);

/**
 * In a model that is being built: `activeStream` begins when `stream` comes here. It was bound as default,
 * and begins once in an execution: a head, `stream` itself, and one that is activated already are refused
 * (107000).
 */
aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);

/** As aclrtRecordEvent; with flag 1 a task of a captured model that streams outside can wait for. */
aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);

/** As aclrtStreamWaitEvent; with flag 1 a task of a captured model that waits for a record outside. */
aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_RT_H */
