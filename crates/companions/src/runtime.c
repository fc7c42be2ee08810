/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libruntime.so: the name under which programs link the rt* functions. libascendcl.so has those that work, since transfer engines look
 * them up there; these are about kernels, which a runtime that copies memory does not run: each is refused, and its outputs are NULL.
 */
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

/* In libascendcl.so, for its companions; described in crates/capi/src/private.rs. */
extern aclError ferryRefuse(const char *function, const char *note, int32_t code);
extern aclError ferryHostRange(const void *ptr, size_t len, int32_t write, char *note, size_t room);

#define EXPORTED __attribute__((visibility("default")))

static int32_t refuse_kernels(const char *function)
{
    return ferryRefuse(function, "this runtime copies memory and runs no kernels", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

/* Writes zero to an output of a function that is refused, if it can be written. */
static void clear(uint64_t *out)
{
    char why[8];
    if (out != NULL && ferryHostRange(out, sizeof *out, 1, why, sizeof why) == ACL_SUCCESS) {
        *out = 0;
    }
}

EXPORTED int32_t rtDevBinaryRegister(const void *bin, void **handle)
{
    (void)bin;
    clear((uint64_t *)handle);
    return refuse_kernels(__func__);
}

EXPORTED int32_t rtFunctionRegister(void *handle, const void *stub, const char *name, const void *device, uint32_t mode)
{
    (void)handle, (void)stub, (void)name, (void)device, (void)mode;
    return refuse_kernels(__func__);
}

EXPORTED int32_t rtKernelLaunch(const void *function, uint32_t blocks, void *args, uint32_t size, void *desc, aclrtStream stream)
{
    (void)function, (void)blocks, (void)args, (void)size, (void)desc, (void)stream;
    return refuse_kernels(__func__);
}

EXPORTED int32_t rtGetC2cCtrlAddr(uint64_t *address, uint32_t *len)
{
    (void)len;
    clear(address);
    return refuse_kernels(__func__);
}
