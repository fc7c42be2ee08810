/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of libacl_op_compiler.so: what a runtime that copies memory cannot do. Kernels and dumps are
 * refused; a profiler hears nothing. */

#include <time.h>

#include "kernels.h"

/* Dumps of operators' tensors. There are none to dump, and nothing to end. */
EXPORTED aclError aclmdlInitDump(void)
{
    return refuse(__func__, ACL_ERROR_API_NOT_SUPPORT,
                  "there are no operators whose tensors could be dumped");
}

EXPORTED aclError aclmdlSetDump(const char *dumpCfgPath)
{
    (void)dumpCfgPath;
    return refuse(__func__, ACL_ERROR_API_NOT_SUPPORT,
                  "there are no operators whose tensors could be dumped");
}

EXPORTED aclError aclmdlFinalizeDump(void)
{
    return ACL_SUCCESS;
}

/* Kernels, in the runtime's newer interface; the older one is in kernels.h. */
EXPORTED aclError aclrtBinaryLoadFromData(const void *data, size_t length, const void *options,
                                          void **binHandle)
{
    (void)data, (void)length, (void)options;
    clear(binHandle, sizeof *binHandle);
    return refuse_kernels(__func__);
}

EXPORTED aclError aclrtBinaryGetFunction(const void *binHandle, const char *kernelName, void **funcHandle)
{
    (void)binHandle, (void)kernelName;
    clear(funcHandle, sizeof *funcHandle);
    return refuse_kernels(__func__);
}

EXPORTED aclError aclrtGetFunctionAddr(void *funcHandle, void **aicAddr, void **aivAddr)
{
    (void)funcHandle;
    clear(aicAddr, sizeof *aicAddr);
    clear(aivAddr, sizeof *aivAddr);
    return refuse_kernels(__func__);
}

/* The profiler's side of the runtime: nobody listens. */
EXPORTED int32_t MsprofRegisterCallback(uint32_t module,
                                        int32_t (*callback)(uint32_t type, void *data, uint32_t len))
{
    (void)module, (void)callback;
    return 0;
}

EXPORTED int32_t MsprofReportApi(uint32_t aging, const void *api)
{
    (void)aging, (void)api;
    return 0;
}

EXPORTED int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t len)
{
    (void)aging, (void)data, (void)len;
    return 0;
}

EXPORTED int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t len)
{
    (void)aging, (void)data, (void)len;
    return 0;
}

/* Nanoseconds that only grow. */
EXPORTED uint64_t MsprofSysCycleTime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The same number for the same text (FNV-1a). */
EXPORTED uint64_t MsprofGetHashId(const char *text, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325;
    size_t i;
    if (text == NULL || reach(__func__, "text", text, len, 1, 0) != ACL_SUCCESS) {
        return 0;
    }
    for (i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    }
    return hash;
}
