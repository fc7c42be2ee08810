/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl_base.h
 * @brief Scalar types, general enums and the codes that every AscendCL call may return.
 */
#ifndef ACL_ACL_BASE_H
#define ACL_ACL_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "error_codes/ge_error_codes.h"
#include "error_codes/rt_error_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a call returns: ACL_SUCCESS, or one of the codes below. */
typedef int aclError;

/** A 16-bit float as its bits; it is carried, never computed with. */
typedef uint16_t aclFloat16;

typedef void *aclrtStream; /**< A stream; NULL is the default stream of the current context. */
typedef void *aclrtEvent; /**< An event. */

/* Success, in its two spellings. */
#define ACL_ERROR_NONE 0 /**< Done; deprecated alias of ACL_SUCCESS. */
#define ACL_SUCCESS 0 /**< Done. */

/* 1xxxxx: the caller or the environment is at fault. */
#define ACL_ERROR_INVALID_PARAM 100000 /**< An argument failed checking at the acl layer. */
#define ACL_ERROR_UNINITIALIZE 100001 /**< aclInit (or a feature's own init) has not been called. */
#define ACL_ERROR_REPEAT_INITIALIZE 100002 /**< Already initialised; callers may ignore it. */
#define ACL_ERROR_INVALID_FILE 100003 /**< File missing or not accessible. */
#define ACL_ERROR_WRITE_FILE 100004 /**< Writing a file failed. */
#define ACL_ERROR_INVALID_FILE_SIZE 100005 /**< File size not acceptable. */
#define ACL_ERROR_PARSE_FILE 100006 /**< File content could not be parsed. */
#define ACL_ERROR_FILE_MISSING_ATTR 100007 /**< A required entry is missing from a file. */
#define ACL_ERROR_FILE_ATTR_INVALID 100008 /**< An entry in a file has a bad value. */
#define ACL_ERROR_INVALID_DUMP_CONFIG 100009 /**< Bad dump settings. */
#define ACL_ERROR_INVALID_PROFILING_CONFIG 100010 /**< Bad profiling settings. */
#define ACL_ERROR_INVALID_MODEL_ID 100011 /**< No such model id. */
#define ACL_ERROR_DESERIALIZE_MODEL 100012 /**< Model deserialisation failed. */
#define ACL_ERROR_PARSE_MODEL 100013 /**< Model parsing failed. */
#define ACL_ERROR_READ_MODEL_FAILURE 100014 /**< Model could not be read. */
#define ACL_ERROR_MODEL_SIZE_INVALID 100015 /**< Model size not valid. */
#define ACL_ERROR_MODEL_MISSING_ATTR 100016 /**< Model lacks a parameter. */
#define ACL_ERROR_MODEL_INPUT_NOT_MATCH 100017 /**< Model input mismatch. */
#define ACL_ERROR_MODEL_OUTPUT_NOT_MATCH 100018 /**< Model output mismatch. */
#define ACL_ERROR_MODEL_NOT_DYNAMIC 100019 /**< Model is not dynamic. */
#define ACL_ERROR_OP_TYPE_NOT_MATCH 100020 /**< Operator type mismatch. */
#define ACL_ERROR_OP_INPUT_NOT_MATCH 100021 /**< Operator input mismatch. */
#define ACL_ERROR_OP_OUTPUT_NOT_MATCH 100022 /**< Operator output mismatch. */
#define ACL_ERROR_OP_ATTR_NOT_MATCH 100023 /**< Operator attribute mismatch. */
#define ACL_ERROR_OP_NOT_FOUND 100024 /**< Operator not found. */
#define ACL_ERROR_OP_LOAD_FAILED 100025 /**< Operator failed to load. */
#define ACL_ERROR_UNSUPPORTED_DATA_TYPE 100026 /**< Data type not supported. */
#define ACL_ERROR_FORMAT_NOT_MATCH 100027 /**< Tensor format mismatch. */
#define ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED 100028 /**< No binary selector registered for the operator. */
#define ACL_ERROR_KERNEL_NOT_FOUND 100029 /**< Kernel not registered. */
#define ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED 100030 /**< Binary selector registered twice. */
#define ACL_ERROR_KERNEL_ALREADY_REGISTERED 100031 /**< Kernel registered twice. */
#define ACL_ERROR_INVALID_QUEUE_ID 100032 /**< Bad queue id. */
#define ACL_ERROR_REPEAT_SUBSCRIBE 100033 /**< Stream subscribed twice via aclrtSubscribeReport. */
#define ACL_ERROR_STREAM_NOT_SUBSCRIBE 100034 /**< Stream not subscribed; deprecated, use
                                                   ACL_ERROR_RT_STREAM_NO_CB_REG. */
#define ACL_ERROR_THREAD_NOT_SUBSCRIBE 100035 /**< Thread not subscribed; deprecated, use
                                                   ACL_ERROR_RT_THREAD_SUBSCRIBE. */
#define ACL_ERROR_WAIT_CALLBACK_TIMEOUT 100036 /**< No callback arrived in time; deprecated, use
                                                    ACL_ERROR_RT_REPORT_TIMEOUT. */
#define ACL_ERROR_REPEAT_FINALIZE 100037 /**< Already finalised. */
#define ACL_ERROR_NOT_STATIC_AIPP 100038 /**< No static AIPP info; deprecated, use
                                              ACL_ERROR_GE_AIPP_NOT_EXIST. */
#define ACL_ERROR_COMPILING_STUB_MODE 100039 /**< The process loaded the link-time stub library instead of
                                                  the real one. */
#define ACL_ERROR_GROUP_NOT_SET 100040 /**< Group not set; deprecated, use ACL_ERROR_RT_GROUP_NOT_SET. */
#define ACL_ERROR_GROUP_NOT_CREATE 100041 /**< Group does not exist; deprecated, use
                                               ACL_ERROR_RT_GROUP_NOT_CREATE. */
#define ACL_ERROR_PROF_ALREADY_RUN 100042 /**< Profiling already active. */
#define ACL_ERROR_PROF_NOT_RUN 100043 /**< aclprofInit missing. */
#define ACL_ERROR_DUMP_ALREADY_RUN 100044 /**< Dump already active. */
#define ACL_ERROR_DUMP_NOT_RUN 100045 /**< aclmdlInitDump missing. */
#define ACL_ERROR_PROF_REPEAT_SUBSCRIBE 148046 /**< Same model subscribed twice for profiling. */
#define ACL_ERROR_PROF_API_CONFLICT 148047 /**< Two profiling API families mixed. */
#define ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG 148048 /**< Bad max_opqueue_num setting. */
#define ACL_ERROR_INVALID_OPP_PATH 148049 /**< ASCEND_OPP_PATH unset or wrong. */
#define ACL_ERROR_OP_UNSUPPORTED_DYNAMIC 148050 /**< Operator has no dynamic-shape support. */
#define ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED 148051 /**< Dependent resource still alive. */
#define ACL_ERROR_UNSUPPORTED_JPEG 148052 /**< JPEG encoding variant not supported. */
#define ACL_ERROR_INVALID_BUNDLE_MODEL_ID 148053 /**< Bad bundle model id. */

/* 2xxxxx: a resource is short, or the hardware does not fit. */
#define ACL_ERROR_BAD_ALLOC 200000 /**< Memory allocation failed. */
#define ACL_ERROR_API_NOT_SUPPORT 200001 /**< This API is not supported. */
#define ACL_ERROR_INVALID_DEVICE 200002 /**< No such device; deprecated, use ACL_ERROR_RT_INVALID_DEVICEID. */
#define ACL_ERROR_MEMORY_ADDRESS_UNALIGNED 200003 /**< Address misaligned (acl layer). */
#define ACL_ERROR_RESOURCE_NOT_MATCH 200004 /**< Stream/context etc. does not belong here. */
#define ACL_ERROR_INVALID_RESOURCE_HANDLE 200005 /**< Handle already destroyed or in use. */
#define ACL_ERROR_FEATURE_UNSUPPORTED 200006 /**< Feature not supported (acl layer). */
#define ACL_ERROR_PROF_MODULES_UNSUPPORTED 200007 /**< Profiling setting not supported. */

/* 3xxxxx: a limit of the service was reached. */
#define ACL_ERROR_STORAGE_OVER_LIMIT 300000 /**< Storage limit exceeded. */

/* 5xxxxx: something inside failed; unknown errors become ACL_ERROR_INTERNAL_ERROR. */
#define ACL_ERROR_INTERNAL_ERROR 500000 /**< Unrecognised internal error (unknown errors map here). */
#define ACL_ERROR_FAILURE 500001 /**< Internal error. */
#define ACL_ERROR_GE_FAILURE 500002 /**< Graph engine error. */
#define ACL_ERROR_RT_FAILURE 500003 /**< Runtime module error. */
#define ACL_ERROR_DRV_FAILURE 500004 /**< Driver error. */
#define ACL_ERROR_PROFILING_FAILURE 500005 /**< Profiling module error. */

/** Element types. */
typedef enum {
    ACL_DT_UNDEFINED = -1, /**< No type. */
    ACL_FLOAT = 0, /**< 32-bit float. */
    ACL_FLOAT16 = 1, /**< 16-bit float. */
    ACL_INT8 = 2, /**< 8-bit signed integer. */
    ACL_INT32 = 3, /**< 32-bit signed integer. */
    ACL_UINT8 = 4, /**< 8-bit unsigned integer. */
    ACL_INT16 = 6, /**< 16-bit signed integer. */
    ACL_UINT16 = 7, /**< 16-bit unsigned integer. */
    ACL_UINT32 = 8, /**< 32-bit unsigned integer. */
    ACL_INT64 = 9, /**< 64-bit signed integer. */
    ACL_UINT64 = 10, /**< 64-bit unsigned integer. */
    ACL_DOUBLE = 11, /**< 64-bit float. */
    ACL_BOOL = 12, /**< Truth value. */
    ACL_STRING = 13, /**< Text. */
    ACL_COMPLEX64 = 16, /**< Complex number of 64 bits. */
    ACL_COMPLEX128 = 17, /**< Complex number of 128 bits. */
    ACL_BF16 = 27, /**< 16-bit brain float. */
    ACL_INT4 = 29, /**< 4-bit signed integer. */
    ACL_UINT1 = 30, /**< 1-bit unsigned integer. */
    ACL_COMPLEX32 = 33, /**< Complex number of 32 bits. */
    ACL_HIFLOAT8 = 34, /**< 8-bit float of variable precision. */
    ACL_FLOAT8_E5M2 = 35, /**< 8-bit float, 5 exponent and 2 mantissa bits. */
    ACL_FLOAT8_E4M3FN = 36, /**< 8-bit float, 4 exponent and 3 mantissa bits, no infinities. */
    ACL_FLOAT8_E8M0 = 37, /**< 8-bit float, 8 exponent and 0 mantissa bits. */
    ACL_FLOAT6_E3M2 = 38, /**< 6-bit float, 3 exponent and 2 mantissa bits. */
    ACL_FLOAT6_E2M3 = 39, /**< 6-bit float, 2 exponent and 3 mantissa bits. */
    ACL_FLOAT4_E2M1 = 40, /**< 4-bit float, 2 exponent and 1 mantissa bits. */
    ACL_FLOAT4_E1M2 = 41 /**< 4-bit float, 1 exponent and 2 mantissa bits. */
} aclDataType;

/** Bytes of an element of this type; 0 for ACL_STRING and what is no type. */
size_t aclDataTypeSize(aclDataType dataType);

/** A 16-bit float as a 32-bit one. */
float aclFloat16ToFloat(aclFloat16 value);

/** The nearest 16-bit float, the even one of two; infinity for what is too large. */
aclFloat16 aclFloatToFloat16(float value);

/** How the elements of a tensor lie in memory (values: aclcppdevg_03_1348). */
typedef enum {
    ACL_FORMAT_UNDEFINED = -1, /**< None, or unknown. */
    ACL_FORMAT_NCHW = 0, /**< Batch, channels, height, width. */
    ACL_FORMAT_NHWC = 1, /**< Batch, height, width, channels. */
    ACL_FORMAT_ND = 2, /**< Any dimensions, in their order. */
    ACL_FORMAT_NC1HWC0 = 3, /**< Channels in blocks. */
    ACL_FORMAT_FRACTAL_Z = 4, /**< Weights of convolutions. */
    ACL_FORMAT_NC1HWC0_C04 = 12, /**< Channels in blocks of 4. */
    ACL_FORMAT_HWCN = 16, /**< Height, width, channels, batch. */
    ACL_FORMAT_NDHWC = 27, /**< Batch, depth, height, width, channels. */
    ACL_FORMAT_FRACTAL_NZ = 29, /**< Matrices in blocks. */
    ACL_FORMAT_NCDHW = 30, /**< Batch, channels, depth, height, width. */
    ACL_FORMAT_NDC1HWC0 = 32, /**< With depth, channels in blocks. */
    ACL_FRACTAL_Z_3D = 33, /**< Weights of convolutions with depth. */
    ACL_FORMAT_NC = 35, /**< Batch, channels. */
    ACL_FORMAT_NCL = 47 /**< Batch, channels, length. */
} aclFormat;

typedef struct aclTensorDesc aclTensorDesc; /**< Describes a tensor: acl_op.h. */
typedef struct aclDataBuffer aclDataBuffer; /**< The memory of a tensor: acl_op.h. */

/** Where memory given to the library lies. */
typedef enum {
    ACL_MEMTYPE_DEVICE = 0,                  /**< Device memory. */
    ACL_MEMTYPE_HOST = 1,                    /**< Host memory. */
    ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2 /**< Host memory, independent of compilation. */
} aclMemType;

/** Levels of the application log. */
typedef enum {
    ACL_DEBUG = 0,   /**< Details for developers. */
    ACL_INFO = 1,    /**< Normal progress. */
    ACL_WARNING = 2, /**< Something unexpected that was dealt with. */
    ACL_ERROR = 3    /**< A failure. */
} aclLogLevel;

/** Writes a line of the program's to the log; `fmt` and what follows as in printf. */
void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...);

/** The same, with the place filled in: ACL_APP_LOG(ACL_INFO, "%d copies", 3). */
#define ACL_APP_LOG(level, ...) aclAppLog((level), __func__, __FILE__, (uint32_t)__LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_BASE_H */
