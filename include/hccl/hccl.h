/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file hccl.h
 * @brief Collective communication, of which there is none here: its types alone.
 *
 * libhccl.so is there for programs that are linked with it, and has no functions, so none is declared: what
 * compiles also links.
 */
#ifndef HCCL_HCCL_H
#define HCCL_HCCL_H

#include "../acl/acl_base.h"
#include "hccl_types.h"

#endif /* HCCL_HCCL_H */
