/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file rt_error_codes.h
 * @brief Codes of the runtime layer. Plain macros, so that `#if`, `switch` and binding generators can read
 * them.
 */
#ifndef ACL_ERROR_CODES_RT_ERROR_CODES_H
#define ACL_ERROR_CODES_RT_ERROR_CODES_H

#define ACL_RT_SUCCESS 0 /**< Done, in the spelling of the runtime layer. */

/* 107xxx: the caller or the environment is at fault. */
#define ACL_ERROR_RT_PARAM_INVALID 107000 /**< An argument failed checking at the runtime layer. */
#define ACL_ERROR_RT_INVALID_DEVICEID 107001 /**< Device id not valid. */
#define ACL_ERROR_RT_CONTEXT_NULL 107002 /**< Thread has no current context (no aclrtSetDevice /
                                              aclrtSetCurrentContext). */
#define ACL_ERROR_RT_STREAM_CONTEXT 107003 /**< Stream belongs to another context (also: another device). */
#define ACL_ERROR_RT_MODEL_CONTEXT 107004 /**< Model belongs to another context. */
#define ACL_ERROR_RT_STREAM_MODEL 107005 /**< Stream not part of this model. */
#define ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID 107006 /**< Event carries no usable timestamp. */
#define ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL 107007 /**< End event is earlier than start event. */
#define ACL_ERROR_RT_ADDR_UNALIGNED 107008 /**< Memory address misaligned. */
#define ACL_ERROR_RT_FILE_OPEN 107009 /**< File open failed. */
#define ACL_ERROR_RT_FILE_WRITE 107010 /**< File write failed. */
#define ACL_ERROR_RT_STREAM_SUBSCRIBE 107011 /**< Stream not subscribed, or subscribed twice. */
#define ACL_ERROR_RT_THREAD_SUBSCRIBE 107012 /**< Thread not subscribed, or subscribed twice. */
#define ACL_ERROR_RT_GROUP_NOT_SET 107013 /**< Group not set. */
#define ACL_ERROR_RT_GROUP_NOT_CREATE 107014 /**< Group id out of range. */
#define ACL_ERROR_RT_STREAM_NO_CB_REG 107015 /**< Callback launched on a stream with no registered thread. */
#define ACL_ERROR_RT_INVALID_MEMORY_TYPE 107016 /**< Memory type not valid. */
#define ACL_ERROR_RT_INVALID_HANDLE 107017 /**< Resource handle not valid. */
#define ACL_ERROR_RT_INVALID_MALLOC_TYPE 107018 /**< Allocation type not valid. */
#define ACL_ERROR_RT_WAIT_TIMEOUT 107019 /**< Wait timed out. */
#define ACL_ERROR_RT_TASK_TIMEOUT 107020 /**< Task execution timed out. */
#define ACL_ERROR_RT_SYSPARAMOPT_NOT_SET 107021 /**< Reading a context system parameter that was never set. */
#define ACL_ERROR_RT_DEVICE_TASK_ABORT 107022 /**< Collides with a running aclrtDeviceTaskAbort. */
#define ACL_ERROR_RT_STREAM_ABORT 107023 /**< Stream is being aborted; waits on it return this. */
#define ACL_ERROR_RT_CAPTURE_DEPENDENCY 107024 /**< Capture: event wait without matching record. */
#define ACL_ERROR_RT_STREAM_UNJOINED 107025 /**< Capture: forked stream not joined back. */
#define ACL_ERROR_RT_MODEL_CAPTURED 107026 /**< Model is being captured. */
#define ACL_ERROR_RT_STREAM_CAPTURED 107027 /**< Stream is being captured. */
#define ACL_ERROR_RT_EVENT_CAPTURED 107028 /**< Event is being captured. */
#define ACL_ERROR_RT_STREAM_NOT_CAPTURED 107029 /**< Stream is not being captured. */
#define ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT 107030 /**< Operation not allowed in this capture mode. */
#define ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT 107031 /**< Default stream used during capture. */
#define ACL_ERROR_STREAM_CAPTURE_CONFLICT 107032 /**< Event and stream belong to different captures. */
#define ACL_ERROR_STREAM_TASK_GROUP_STATUS 107033 /**< Task-group state wrong. */
#define ACL_ERROR_STREAM_TASK_GROUP_INTR 107034 /**< Task-group recording interrupted. */
#define ACL_ERROR_RT_TASK_ABORT_STOP 107035 /**< Device task abort stopped before post-processing. */
#define ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED 107036 /**< Capture end without begin. */
#define ACL_ERROR_RT_MODEL_RUNNING 107037 /**< Model running, cannot be destroyed. */
#define ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD 107038 /**< Capture begin/end on different threads. */
#define ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY 107039 /**< Caller's array too small. */
#define ACL_ERROR_RT_MODEL_UPDATE_FAILED 107040 /**< Model update failed. */
#define ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC 107041 /**< Capture mode forbids an async call that would
                                                          become synchronous. */
#define ACL_ERROR_RT_SYMBOL_NOT_FOUND 107042 /**< Symbol not found. */
#define ACL_ERROR_RT_INVALID_SYMBOL 107043 /**< Symbol not valid. */
#define ACL_ERROR_RT_INVALID_DEVICE_FUNCTION 107044 /**< Kernel symbol not valid. */

/* 207xxx: a resource is short, or the product does not have it. */
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT 207000 /**< Feature not supported on this product/form. */
#define ACL_ERROR_RT_MEMORY_ALLOCATION 207001 /**< Memory allocation failed. */
#define ACL_ERROR_RT_MEMORY_FREE 207002 /**< Memory free failed. */
#define ACL_ERROR_RT_AICORE_OVER_FLOW 207003 /**< AI Core arithmetic overflow. */
#define ACL_ERROR_RT_NO_DEVICE 207004 /**< No usable device. */
#define ACL_ERROR_RT_RESOURCE_ALLOC_FAIL 207005 /**< Resource allocation failed. */
#define ACL_ERROR_RT_NO_PERMISSION 207006 /**< Operation not permitted. */
#define ACL_ERROR_RT_NO_EVENT_RESOURCE 207007 /**< Out of events. */
#define ACL_ERROR_RT_NO_STREAM_RESOURCE 207008 /**< Out of streams. */
#define ACL_ERROR_RT_NO_NOTIFY_RESOURCE 207009 /**< Out of notifies. */
#define ACL_ERROR_RT_NO_MODEL_RESOURCE 207010 /**< Out of models. */
#define ACL_ERROR_RT_NO_CDQ_RESOURCE 207011 /**< Internal queue resource exhausted. */
#define ACL_ERROR_RT_OVER_LIMIT 207012 /**< Too many queues. */
#define ACL_ERROR_RT_QUEUE_EMPTY 207013 /**< Queue empty. */
#define ACL_ERROR_RT_QUEUE_FULL 207014 /**< Queue full. */
#define ACL_ERROR_RT_REPEATED_INIT 207015 /**< Queue initialised twice. */
#define ACL_ERROR_RT_AIVEC_OVER_FLOW 207016 /**< Vector core overflow. */
#define ACL_ERROR_RT_OVER_FLOW 207017 /**< Generic overflow. */
#define ACL_ERROR_RT_DEVICE_OOM 207018 /**< Device memory exhausted. */
#define ACL_ERROR_RT_DEVIDE_OOM 207018 /**< Device memory exhausted (second spelling in use). */
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP 207019 /**< Driver cannot update this operator. */
#define ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED 207021 /**< Link type not supported. */

/* 507xxx: the runtime, the driver or the device failed. */
#define ACL_ERROR_RT_INTERNAL_ERROR 507000 /**< Runtime internal error. */
#define ACL_ERROR_RT_TS_ERROR 507001 /**< Task scheduler internal error. */
#define ACL_ERROR_RT_STREAM_TASK_FULL 507002 /**< Stream task queue full. */
#define ACL_ERROR_RT_STREAM_TASK_EMPTY 507003 /**< Stream task queue empty. */
#define ACL_ERROR_RT_STREAM_NOT_COMPLETE 507004 /**< Stream still has unfinished tasks. */
#define ACL_ERROR_RT_END_OF_SEQUENCE 507005 /**< AI CPU sequence ended. */
#define ACL_ERROR_RT_EVENT_NOT_COMPLETE 507006 /**< Event not finished. */
#define ACL_ERROR_RT_CONTEXT_RELEASE_ERROR 507007 /**< Context release failed. */
#define ACL_ERROR_RT_SOC_VERSION 507008 /**< SoC version query failed. */
#define ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT 507009 /**< Task type not supported. */
#define ACL_ERROR_RT_LOST_HEARTBEAT 507010 /**< Task scheduler heartbeat lost. */
#define ACL_ERROR_RT_MODEL_EXECUTE 507011 /**< Model execution failed. */
#define ACL_ERROR_RT_REPORT_TIMEOUT 507012 /**< No report arrived in time (aclrtProcessReport timeout). */
#define ACL_ERROR_RT_SYS_DMA 507013 /**< System DMA hardware error. */
#define ACL_ERROR_RT_AICORE_TIMEOUT 507014 /**< AI Core timeout. */
#define ACL_ERROR_RT_AICORE_EXCEPTION 507015 /**< AI Core exception. */
#define ACL_ERROR_RT_AICORE_TRAP_EXCEPTION 507016 /**< AI Core trap. */
#define ACL_ERROR_RT_AICPU_TIMEOUT 507017 /**< AI CPU timeout. */
#define ACL_ERROR_RT_AICPU_EXCEPTION 507018 /**< AI CPU exception. */
#define ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR 507019 /**< AI CPU dump reply missing. */
#define ACL_ERROR_RT_AICPU_MODEL_RSP_ERR 507020 /**< AI CPU model reply missing. */
#define ACL_ERROR_RT_PROFILING_ERROR 507021 /**< Profiling failure. */
#define ACL_ERROR_RT_IPC_ERROR 507022 /**< Inter-process communication failure. */
#define ACL_ERROR_RT_MODEL_ABORT_NORMAL 507023 /**< Model exited. */
#define ACL_ERROR_RT_KERNEL_UNREGISTERING 507024 /**< Kernel being unregistered. */
#define ACL_ERROR_RT_RINGBUFFER_NOT_INIT 507025 /**< Ring buffer not initialised. */
#define ACL_ERROR_RT_RINGBUFFER_NO_DATA 507026 /**< Ring buffer empty. */
#define ACL_ERROR_RT_KERNEL_LOOKUP 507027 /**< Internal kernel not registered. */
#define ACL_ERROR_RT_KERNEL_DUPLICATE 507028 /**< Internal kernel registered twice. */
#define ACL_ERROR_RT_DEBUG_REGISTER_FAIL 507029 /**< Debug registration failed. */
#define ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL 507030 /**< Debug deregistration failed. */
#define ACL_ERROR_RT_LABEL_CONTEXT 507031 /**< Label belongs to another context. */
#define ACL_ERROR_RT_PROGRAM_USE_OUT 507032 /**< Too many programs registered. */
#define ACL_ERROR_RT_DEV_SETUP_ERROR 507033 /**< Device start-up failed. */
#define ACL_ERROR_RT_VECTOR_CORE_TIMEOUT 507034 /**< Vector core timeout. */
#define ACL_ERROR_RT_VECTOR_CORE_EXCEPTION 507035 /**< Vector core exception. */
#define ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION 507036 /**< Vector core trap. */
#define ACL_ERROR_RT_CDQ_BATCH_ABNORMAL 507037 /**< Internal queue batch failure. */
#define ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR 507038 /**< Die mode cannot be changed. */
#define ACL_ERROR_RT_DIE_SET_ERROR 507039 /**< Die cannot be chosen in single-die mode. */
#define ACL_ERROR_RT_INVALID_DIEID 507040 /**< Bad die id. */
#define ACL_ERROR_RT_DIE_MODE_NOT_SET 507041 /**< Die mode not set. */
#define ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW 507042 /**< AI Core out-of-bounds read. */
#define ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW 507043 /**< AI Core out-of-bounds write. */
#define ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW 507044 /**< Vector core out-of-bounds read. */
#define ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW 507045 /**< Vector core out-of-bounds write. */
#define ACL_ERROR_RT_STREAM_SYNC_TIMEOUT 507046 /**< Stream (or device) wait exceeded the caller's timeout. */
#define ACL_ERROR_RT_EVENT_SYNC_TIMEOUT 507047 /**< Event wait exceeded the caller's timeout. */
#define ACL_ERROR_RT_FFTS_PLUS_TIMEOUT 507048 /**< Internal task timeout. */
#define ACL_ERROR_RT_FFTS_PLUS_EXCEPTION 507049 /**< Internal task exception. */
#define ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION 507050 /**< Internal task trap. */
#define ACL_ERROR_RT_SEND_MSG 507051 /**< Message send failed while enqueueing data. */
#define ACL_ERROR_RT_COPY_DATA 507052 /**< Memory copy failed while enqueueing data. */
#define ACL_ERROR_RT_DEVICE_MEM_ERROR 507053 /**< Uncorrectable device memory error. */
#define ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR 507054 /**< HBM multi-bit ECC fault. */
#define ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR 507055 /**< Possible memory error on a peer device. */
#define ACL_ERROR_RT_LINK_ERROR 507056 /**< Link between two devices lost. */
#define ACL_ERROR_RT_SUSPECT_REMOTE_ERROR 507057 /**< Possible peer memory fault or local out-of-bounds
                                                      access. */
#define ACL_ERROR_RT_DRV_INTERNAL_ERROR 507899 /**< Driver internal error. */
#define ACL_ERROR_RT_AICPU_INTERNAL_ERROR 507900 /**< AI CPU internal error. */
#define ACL_ERROR_RT_SOCKET_CLOSE 507901 /**< Host-device session closed. */
#define ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR 507902 /**< AI CPU scheduling failed. */
#define ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED 507903 /**< Capture became invalid. */
#define ACL_ERROR_RT_COMM_OP_RETRY_FAIL 507904 /**< Communication operator retry failed. */
#define ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT 507905 /**< Snapshot lock timed out. */
#define ACL_ERROR_SNAPSHOT_LOCK_FAILED 507906 /**< Snapshot lock failed. */
#define ACL_ERROR_SNAPSHOT_UNLOCK_FAILED 507907 /**< Snapshot unlock failed. */
#define ACL_ERROR_SNAPSHOT_BACKUP_FAILED 507908 /**< Snapshot backup failed. */
#define ACL_ERROR_SNAPSHOT_RESTORE_FAILED 507909 /**< Snapshot restore failed. */
#define ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED 507910 /**< Host memory is already registered. */
#define ACL_ERROR_HOST_MEMORY_NOT_REGISTERED 507911 /**< Host memory to unregister was never registered. */
#define ACL_ERROR_SNAPSHOT_CALLBACK_FAILED 507912 /**< Snapshot callback failed. */
#define ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED 507913 /**< Snapshot callback registration failed. */
#define ACL_ERROR_RT_L3_PORT_ERROR 507914 /**< L3 port error. */
#define ACL_ERROR_RT_CCU_TIMEOUT 507915 /**< CCU timeout. */
#define ACL_ERROR_RT_CCU_EXCEPTION 507916 /**< CCU exception. */

#endif /* ACL_ERROR_CODES_RT_ERROR_CODES_H */
