/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl.h
 * @brief Everything: include this one, link with `-lascendcl`.
 */
#ifndef ACL_ACL_H
#define ACL_ACL_H

#include "acl_base.h"
#include "acl_rt.h"

#endif /* ACL_ACL_H */
