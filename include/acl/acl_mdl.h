/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl_mdl.h
 * @brief Models of operators, of which there are none here. Not included by acl.h. Models that are captured
 * from streams (aclmdlRI) are declared in acl_rt.h.
 *
 * The functions are in libacl_op_compiler.so: link with `-lacl_op_compiler -lascendcl`.
 */
#ifndef ACL_ACL_MDL_H
#define ACL_ACL_MDL_H

#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclmdlDesc aclmdlDesc; /**< Describes a model; opaque. */
typedef struct aclmdlDataset aclmdlDataset; /**< Inputs or outputs of a model; opaque. */
typedef struct aclmdlAIPP aclmdlAIPP; /**< How images are prepared for a model; opaque. */
typedef struct aclmdlConfigHandle aclmdlConfigHandle; /**< Settings of a model; opaque. */

/** Begins to dump tensors of operators: refused, ACL_ERROR_API_NOT_SUPPORT. */
aclError aclmdlInitDump(void);

/** Sets what is dumped: refused, ACL_ERROR_API_NOT_SUPPORT. */
aclError aclmdlSetDump(const char *dumpCfgPath);

/** Ends dumping. */
aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_MDL_H */
