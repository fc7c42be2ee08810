/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libacl_op_compiler.so: operators. The PyTorch adapter is linked with it, and looks functions up by name in
 * it.
 *
 * libascendcl.so exports what works; the names here are apart from it because they do not. An operator fails
 * and goes on failing, kernels and dumps are refused, profiling hears nothing. Descriptors, buffers and
 * attributes are real objects: callers describe a failed operator with what they find in them.
 */
#include "acl/acl_mdl.h"
#include "acl/acl_op_compiler.h"
#include "objects.h"

#include "operator.h"
#include "tensor.h"

#include "refused.h"
