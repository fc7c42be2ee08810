/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file acl_prof.h
 * @brief Types of the profiler. Not included by acl.h.
 *
 * There is no profiler of operators here, so no function is declared: programs look those up by name, and do
 * without.
 */
#ifndef ACL_ACL_PROF_H
#define ACL_ACL_PROF_H

#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What is measured of AI cores (values: aclcppdevg_03_1367). */
typedef enum {
    ACL_AICORE_ARITHMETIC_UTILIZATION = 0, /**< Use of the units that compute. */
    ACL_AICORE_PIPE_UTILIZATION = 1, /**< Use of all units. */
    ACL_AICORE_MEMORY_BANDWIDTH = 2, /**< Memory outside of the core. */
    ACL_AICORE_L0B_AND_WIDTH = 3, /**< Memory inside of the core. */
    ACL_AICORE_RESOURCE_CONFLICT_RATIO = 4, /**< Units that wait for each other. */
    ACL_AICORE_MEMORY_UB = 5, /**< Memory of the vector unit. */
    ACL_AICORE_L2_CACHE = 6, /**< Hits of the L2 cache. */
    ACL_AICORE_PIPE_EXECUTE_UTILIZATION = 7, /**< Use of all units while they run. */
    ACL_AICORE_MEMORY_ACCESS = 8, /**< Memory accesses of an operator. */
    ACL_AICORE_NONE = 0xFF /**< Nothing. */
} aclprofAicoreMetrics;

typedef struct aclprofConfig aclprofConfig; /**< What is measured; opaque. */
typedef struct aclprofAicoreEvents aclprofAicoreEvents; /**< Events of AI cores; opaque. */
typedef struct aclprofSubscribeConfig aclprofSubscribeConfig; /**< What is told while it runs; opaque. */
typedef struct aclprofStepInfo aclprofStepInfo; /**< A step of a program; opaque. */

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_PROF_H */
