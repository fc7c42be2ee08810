/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file ferry_rt.h
 * @brief Functions below AscendCL that transfer engines look up in libascendcl.so by name. Not included by
 * acl.h.
 *
 * No document describes them: what they take is what public programs declare for themselves, and all of them
 * return 0 or a code of aclError. New programs have aclrt functions for each.
 */
#ifndef ACL_FERRY_RT_H
#define ACL_FERRY_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** As aclrtDeviceGetBareTgid. */
int32_t rtDeviceGetBareTgid(uint32_t *pid);

/**
 * A number of a device; `moduleType` is 0. `infoType`: 18 chip, 19 die, 26 number in the super pod, 27 server
 * (0x3FF: none), 28 kind of pod (0), 29 super pod (0xFFFFFFFF: none), 30 address mode (0).
 */
int32_t rtGetDeviceInfo(uint32_t deviceId, int32_t moduleType, int32_t infoType, int64_t *value);

/** As aclrtIpcMemGetExportKey with a list of processes; `len` is 65. */
int32_t rtIpcSetMemoryName(const void *ptr, uint64_t size, char *name, uint32_t len);

/** As aclrtIpcMemSetImportPid; there is one server, so `sdid` has no effect. */
int32_t rtSetIpcMemorySuperPodPid(const char *name, uint32_t sdid, int32_t *pid, int32_t num);

/** As aclrtIpcMemImportByKey. */
int32_t rtIpcOpenMemory(void **ptr, const char *name);

/** Ends one import, by its address; bits from 48 on, where callers keep marks, have no effect. */
int32_t rtIpcCloseMemory(const void *ptr);

/** Ends an export. */
int32_t rtIpcDestroyMemoryName(const char *name);

/** Lets two devices reach each other's memory, both ways; `phyIdSrc` is the machine's number of the second,
 *  `flag` is 0. */
int32_t rtEnableP2P(uint32_t devIdDes, uint32_t phyIdSrc, uint32_t flag);

/** Takes back rtEnableP2P. */
int32_t rtDisableP2P(uint32_t devIdDes, uint32_t phyIdSrc);

/** As aclrtGetLogicDevIdByUserDevId. */
int32_t rtGetLogicDevIdByUserDevId(const int32_t userDevId, int32_t *logicDevId);

/** As aclrtMemcpyAsync with ACL_MEMCPY_DEFAULT, whatever `kind` says. */
int32_t rtMemcpyAsyncWithoutCheckKind(void *dst, uint64_t destMax, const void *src, uint64_t count,
                                      uint32_t kind, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* ACL_FERRY_RT_H */
