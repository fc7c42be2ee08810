/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file hccl_types.h
 * @brief Types of collective communication.
 *
 * There is no collective communication here: see hccl.h. Values: hcclcpp_07_0038 to 0043.
 */
#ifndef HCCL_HCCL_TYPES_H
#define HCCL_HCCL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a call returns. */
typedef enum {
    HCCL_SUCCESS = 0, /**< Done. */
    HCCL_E_PARA = 1, /**< An argument is wrong. */
    HCCL_E_PTR = 2, /**< A pointer is NULL. */
    HCCL_E_MEMORY = 3, /**< Memory. */
    HCCL_E_INTERNAL = 4, /**< Something inside failed. */
    HCCL_E_NOT_SUPPORT = 5, /**< Not supported. */
    HCCL_E_NOT_FOUND = 6, /**< Not found. */
    HCCL_E_UNAVAIL = 7, /**< Not available. */
    HCCL_E_SYSCALL = 8, /**< The system refused a call. */
    HCCL_E_TIMEOUT = 9, /**< It took too long. */
    HCCL_E_OPEN_FILE_FAILURE = 10, /**< A file cannot be opened. */
    HCCL_E_TCP_CONNECT = 11, /**< No connection, TCP. */
    HCCL_E_ROCE_CONNECT = 12, /**< No connection, RoCE. */
    HCCL_E_TCP_TRANSFER = 13, /**< A transfer failed, TCP. */
    HCCL_E_ROCE_TRANSFER = 14, /**< A transfer failed, RoCE. */
    HCCL_E_RUNTIME = 15, /**< The runtime refused a call. */
    HCCL_E_DRV = 16, /**< The driver refused a call. */
    HCCL_E_PROFILING = 17, /**< The profiler refused a call. */
    HCCL_E_CCE = 18, /**< A kernel library refused a call. */
    HCCL_E_NETWORK = 19, /**< The network library refused a call. */
    HCCL_E_AGAIN = 20, /**< Try again. */
    HCCL_E_REMOTE = 21, /**< The other side failed. */
    HCCL_E_SUSPENDING = 22 /**< The communicator is suspended. */
} HcclResult;

/** Element types. */
typedef enum {
    HCCL_DATA_TYPE_INT8 = 0, /**< 8-bit integer. */
    HCCL_DATA_TYPE_INT16 = 1, /**< 16-bit integer. */
    HCCL_DATA_TYPE_INT32 = 2, /**< 32-bit integer. */
    HCCL_DATA_TYPE_FP16 = 3, /**< 16-bit float. */
    HCCL_DATA_TYPE_FP32 = 4, /**< 32-bit float. */
    HCCL_DATA_TYPE_INT64 = 5, /**< 64-bit integer. */
    HCCL_DATA_TYPE_UINT64 = 6, /**< 64-bit unsigned integer. */
    HCCL_DATA_TYPE_UINT8 = 7, /**< 8-bit unsigned integer. */
    HCCL_DATA_TYPE_UINT16 = 8, /**< 16-bit unsigned integer. */
    HCCL_DATA_TYPE_UINT32 = 9, /**< 32-bit unsigned integer. */
    HCCL_DATA_TYPE_FP64 = 10, /**< 64-bit float. */
    HCCL_DATA_TYPE_BFP16 = 11, /**< 16-bit brain float. */
    HCCL_DATA_TYPE_INT128 = 12, /**< 128-bit integer. */
    HCCL_DATA_TYPE_HIF8 = 14, /**< 8-bit float of variable precision. */
    HCCL_DATA_TYPE_FP8E4M3 = 15, /**< 8-bit float, 4 exponent bits. */
    HCCL_DATA_TYPE_FP8E5M2 = 16, /**< 8-bit float, 5 exponent bits. */
    HCCL_DATA_TYPE_FP8E8M0 = 17, /**< 8-bit float, 8 exponent bits. */
    HCCL_DATA_TYPE_RESERVED = 255 /**< Reserved. */
} HcclDataType;

/** What is made of several elements. */
typedef enum {
    HCCL_REDUCE_SUM = 0, /**< Sum. */
    HCCL_REDUCE_PROD = 1, /**< Product. */
    HCCL_REDUCE_MAX = 2, /**< Maximum. */
    HCCL_REDUCE_MIN = 3, /**< Minimum. */
    HCCL_REDUCE_RESERVED = 4 /**< Reserved. */
} HcclReduceOp;

typedef void *HcclComm; /**< Processes that communicate. */

#define HCCL_ROOT_INFO_BYTES 4108 /**< Bytes of an HcclRootInfo. */

/** How the processes of a communicator find each other. */
typedef struct HcclRootInfoDef {
    char internal[HCCL_ROOT_INFO_BYTES]; /**< Opaque. */
} HcclRootInfo;

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_TYPES_H */
