/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of libruntime.so, whose functions these are, and of libacl_op_compiler.so, since the PyTorch adapter
 * wants them and is not linked with libruntime.so: kernels, which a runtime that copies memory does not run.
 * Each is refused, and its outputs are 0 or NULL.
 */
#include "boundary.h"

static aclError refuse_kernels(const char *function)
{
    return refuse(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "this runtime copies memory and runs no kernels");
}

EXPORTED int32_t rtDevBinaryRegister(const void *bin, void **handle)
{
    (void)bin;
    clear(handle, sizeof *handle);
    return refuse_kernels(__func__);
}

EXPORTED int32_t rtFunctionRegister(void *handle, const void *stub, const char *name, const void *device,
                                    uint32_t mode)
{
    (void)handle, (void)stub, (void)name, (void)device, (void)mode;
    return refuse_kernels(__func__);
}

EXPORTED int32_t rtKernelLaunch(const void *function, uint32_t blocks, void *args, uint32_t size, void *desc,
                                aclrtStream stream)
{
    (void)function, (void)blocks, (void)args, (void)size, (void)desc, (void)stream;
    return refuse_kernels(__func__);
}

EXPORTED int32_t rtGetC2cCtrlAddr(uint64_t *address, uint32_t *len)
{
    clear(address, sizeof *address);
    clear(len, sizeof *len);
    return refuse_kernels(__func__);
}
