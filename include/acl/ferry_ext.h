/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file ferry_ext.h
 * @brief What AscendCL does not have: streams shared with other libraries of the process. Not included by
 * acl.h.
 *
 * On the cuda backend a stream is a CUDA stream in the end, and PyTorch, CuPy or a program's own kernels can
 * use the same one. Either function below makes a stream *shared*:
 *
 * - Everything is in the CUDA stream when the acl call returns, in order, and nothing is held back to be
 *   gathered. What another library puts there afterwards runs after it, with no synchronisation in between.
 * - What acl calls put there runs after what other libraries put there before.
 * - aclrtSynchronizeStream, aclrtStreamQuery and aclrtRecordEvent speak of everything in the CUDA stream.
 * - What the host has to do in between (a host function, a copy of pageable memory, a wait for an event that
 *   is yet to be recorded) holds the CUDA stream itself until it is done. A host function must not wait for
 *   work behind it, and not call what waits for the whole GPU, as cudaFree may.
 *
 * A stream stays shared until it is destroyed. A CUDA stream that is being captured into a graph is refused
 * (ACL_ERROR_RT_STREAM_CAPTURED), by these functions and by every call that would put work into it.
 *
 * The host backend has no streams that anybody else could know: both functions return
 * ACL_ERROR_RT_FEATURE_NOT_SUPPORT.
 */
#ifndef ACL_FERRY_EXT_H
#define ACL_FERRY_EXT_H

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a stream of the current context over a stream of another library: a CUstream, which cudaStream_t is
 * as well; NULL is CUDA's legacy default stream. It must belong to the primary context of the current
 * device's GPU, as streams of the CUDA runtime, PyTorch and CuPy do, and live until the new stream is
 * destroyed. Destroying the new one waits for it as usual and leaves the other library's alone. CUDA's
 * per-thread default stream is refused: it is another one in each thread.
 */
aclError ferryStreamAdopt(void *native, aclrtStream *stream);

/**
 * Shares a stream, and gives the CUstream by which other libraries know it; NULL is the default stream of the
 * current context. The CUDA stream stays ours: it goes when the stream is destroyed. For an adopted stream
 * this is what was given.
 */
aclError ferryStreamNative(aclrtStream stream, void **native);

#ifdef __cplusplus
}
#endif

#endif /* ACL_FERRY_EXT_H */
