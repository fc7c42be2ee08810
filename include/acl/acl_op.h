/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl_op.h
 * @brief Descriptions of tensors and of operators' attributes. Not included by acl.h.
 *
 * The functions are in libacl_op_compiler.so: link with `-lacl_op_compiler -lascendcl`. Objects are real and
 * can be asked for what they hold, so that programs which prepare operators run up to the first one; that one
 * fails (acl_op_compiler.h).
 */
#ifndef ACL_ACL_OP_H
#define ACL_ACL_OP_H

#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopAttr aclopAttr; /**< Attributes of an operator. */

/** What an operator is to run on (values: aclcppdevg_03_1386). */
typedef enum {
    ACL_ENGINE_SYS = 0, /**< Whatever is there. */
    ACL_ENGINE_AICORE = 1, /**< AI cores. */
    ACL_ENGINE_VECTOR = 2 /**< Vector cores. */
} aclopEngineType;

/* ---- Tensors ------------------------------------------------------------------------------------------- */

/** Describes a tensor; no dimensions with ACL_DT_UNDEFINED are an optional input that is not there. NULL if
 *  `dims` cannot be read. */
aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format);

/** Ends a description. */
void aclDestroyTensorDesc(const aclTensorDesc *desc);

/** Type of the elements. */
aclDataType aclGetTensorDescType(const aclTensorDesc *desc);

/** How the elements lie. */
aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc);

/** Number of dimensions. */
size_t aclGetTensorDescNumDims(const aclTensorDesc *desc);

/** One dimension. */
aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize);

/** Sets the dimensions in memory. */
aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims);

/** Sets how the elements lie in memory. */
aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format);

/** Says whether the tensor is in host or device memory. */
aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType);

/** Names a tensor. */
void aclSetTensorDescName(aclTensorDesc *desc, const char *name);

/** The memory of a tensor; NULL and 0 are an optional input that is not there. */
aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);

/** Ends that; the memory stays. */
aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer);

/* ---- Attributes ---------------------------------------------------------------------------------------- */

/** A list of attributes. */
aclopAttr *aclopCreateAttr(void);

/** Ends a list of attributes. */
void aclopDestroyAttr(const aclopAttr *attr);

/** Sets an attribute: 0 or 1. */
aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue);

/** Sets an attribute. */
aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue);

/** Sets an attribute. */
aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue);

/** Sets an attribute. */
aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue);

/** Sets an attribute. */
aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue);

/** Sets an attribute that is a list. */
aclError aclopSetAttrListBool(aclopAttr *attr, const char *attrName, int numValues, const uint8_t *values);

/** Sets an attribute that is a list. */
aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues, const int64_t *values);

/** Sets an attribute that is a list. */
aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues, const float *values);

/** Sets an attribute that is a list of lists. */
aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
                                 const int64_t *const values[]);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_OP_H */
