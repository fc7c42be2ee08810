/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libruntime.so: the name under which programs link the rt* functions. libascendcl.so has those that work,
 * since transfer engines look them up there; those about kernels are here.
 */
#include "kernels.h"
