/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl_op_compiler.h
 * @brief Compiling and running operators, of which there are none here. Not included by acl.h.
 *
 * The functions are in libacl_op_compiler.so: link with `-lacl_op_compiler -lascendcl`.
 */
#ifndef ACL_ACL_OP_COMPILER_H
#define ACL_ACL_OP_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"
#include "acl_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which operators are compiled (values: aclcppdevg_03_1387). */
typedef enum {
    ACL_COMPILE_SYS = 0, /**< Those of the system. */
    ACL_COMPILE_UNREGISTERED = 1 /**< Others. */
} aclopCompileType;

/** Options of the compiler (values: aclcppdevg_03_1371). */
typedef enum {
    ACL_PRECISION_MODE = 0, /**< Precision of a network. */
    ACL_AICORE_NUM = 1, /**< AI cores. */
    ACL_AUTO_TUNE_MODE = 2, /**< Tuning. */
    ACL_OP_SELECT_IMPL_MODE = 3, /**< Precise or fast operators. */
    ACL_OPTYPELIST_FOR_IMPLMODE = 4, /**< Which of them. */
    ACL_OP_DEBUG_LEVEL = 5, /**< Debugging. */
    ACL_DEBUG_DIR = 6, /**< Where files for debugging go. */
    ACL_OP_COMPILER_CACHE_MODE = 7, /**< Cache of compiled operators. */
    ACL_OP_COMPILER_CACHE_DIR = 8, /**< Where that lies. */
    ACL_OP_PERFORMANCE_MODE = 9, /**< Fast operators. */
    ACL_OP_JIT_COMPILE = 10, /**< Compile when first used. */
    ACL_OP_DETERMINISTIC = 11, /**< Same input, same output. */
    ACL_CUSTOMIZE_DTYPES = 12, /**< Types by operator. */
    ACL_OP_PRECISION_MODE = 13, /**< Precision inside operators. */
    ACL_ALLOW_HF32 = 14, /**< Floats of reduced precision. */
    ACL_PRECISION_MODE_V2 = 15, /**< Precision of a network, newer. */
    ACL_OP_DEBUG_OPTION = 16 /**< Checks of memory accesses. */
} aclCompileOpt;

/** Sets an option of the compiler, which heeds none. */
aclError aclSetCompileopt(aclCompileOpt opt, const char *value);

/**
 * Fails with ACL_ERROR_API_NOT_SUPPORT, as all operators do, and has all streams of the stream's context fail
 * with that code until the context ends: what an operator was to compute is never there, so nothing may go on
 * as if it were.
 */
aclError aclopCompileAndExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                                const aclDataBuffer *const inputs[], int numOutputs,
                                const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[],
                                const aclopAttr *attr, aclopEngineType engineType,
                                aclopCompileType compileFlag, const char *opPath, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_OP_COMPILER_H */
