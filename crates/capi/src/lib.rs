#![allow(non_snake_case,non_camel_case_types,missing_docs,clippy::all)]
use std::ffi::*;
pub type aclrtHostFunc=Option<unsafe extern "C" fn(*mut c_void)>;
#[repr(C)]#[derive(Clone,Copy,Debug,Default,PartialEq)] pub struct aclrtMemLocation{pub id:u32,pub type_:i32}
#[repr(C)]#[derive(Clone,Copy)] pub struct aclrtMemcpyBatchAttr{pub dstLoc:aclrtMemLocation,pub srcLoc:aclrtMemLocation,pub rsv:[u8;16]}
#[repr(C)]#[derive(Clone,Copy)] pub struct aclrtPtrAttributes{pub location:aclrtMemLocation,pub pageSize:u32,pub rsv:[u32;4]}
pub unsafe fn aclGetRecentErrMsg()->*const c_char{todo!()}
pub unsafe fn aclrtGetSocName()->*const c_char{todo!()}

pub unsafe extern "C" fn aclInit(_configPath: *const c_char)->i32{todo!()}
pub unsafe extern "C" fn aclFinalize()->i32{todo!()}
pub unsafe extern "C" fn aclrtGetRunMode(_runMode: *mut i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtSetDevice(_device: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtResetDevice(_device: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtGetDevice(_device: *mut i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtGetDeviceCount(_count: *mut u32)->i32{todo!()}
pub unsafe extern "C" fn aclrtSynchronizeDevice()->i32{todo!()}
pub unsafe extern "C" fn aclrtGetMemInfo(_attr: i32, _free: *mut usize, _total: *mut usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtDeviceCanAccessPeer(_can: *mut i32, _device: i32, _peer: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtDeviceEnablePeerAccess(_peer: i32, _flags: u32)->i32{todo!()}
pub unsafe extern "C" fn aclrtDeviceDisablePeerAccess(_peer: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtCreateContext(_context: *mut *mut c_void, _device: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtDestroyContext(_context: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtSetCurrentContext(_context: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtGetCurrentContext(_context: *mut *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtCreateStream(_stream: *mut *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtCreateStreamWithConfig(_stream: *mut *mut c_void, _priority: u32, _flag: u32)->i32{todo!()}
pub unsafe extern "C" fn aclrtDestroyStream(_stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtSynchronizeStream(_stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtSynchronizeStreamWithTimeout(_stream: *mut c_void, _timeout: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtStreamQuery(_stream: *mut c_void, _status: *mut i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtStreamWaitEvent(_stream: *mut c_void, _event: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtCreateEvent(_event: *mut *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtCreateEventWithFlag(_event: *mut *mut c_void, _flag: u32)->i32{todo!()}
pub unsafe extern "C" fn aclrtCreateEventExWithFlag(_event: *mut *mut c_void, _flag: u32)->i32{todo!()}
pub unsafe extern "C" fn aclrtDestroyEvent(_event: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtRecordEvent(_event: *mut c_void, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtQueryEventStatus(_event: *mut c_void, _status: *mut i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtSynchronizeEvent(_event: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtEventElapsedTime(_ms: *mut f32, _start: *mut c_void, _end: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtLaunchHostFunc(_stream: *mut c_void, _func: aclrtHostFunc, _args: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMalloc(_ptr: *mut *mut c_void, _size: usize, _policy: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtFree(_ptr: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMallocHost(_ptr: *mut *mut c_void, _size: usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtFreeHost(_ptr: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtPointerGetAttributes(_ptr: *mut c_void, _attributes: *mut aclrtPtrAttributes)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpy(_dst: *mut c_void, _destMax: usize, _src: *mut c_void, _count: usize, _kind: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyAsync(_dst: *mut c_void, _destMax: usize, _src: *mut c_void, _count: usize, _kind: i32, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyAsyncWithCondition(_dst: *mut c_void, _destMax: usize, _src: *mut c_void, _count: usize, _kind: i32, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpy2d(_dst: *mut c_void, _dpitch: usize, _src: *mut c_void, _spitch: usize, _width: usize, _height: usize, _kind: i32)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpy2dAsync(_dst: *mut c_void, _dpitch: usize, _src: *mut c_void, _spitch: usize, _width: usize, _height: usize, _kind: i32, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyBatch(_dsts: *mut *mut c_void, _destMaxs: *mut usize, _srcs: *mut *mut c_void, _sizes: *mut usize, _numBatches: usize, _attrs: *mut aclrtMemcpyBatchAttr, _attrsIndexes: *mut usize, _numAttrs: usize, _failIndex: *mut usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyBatchV2(_dsts: *mut *mut c_void, _destMaxs: *mut usize, _srcs: *mut *mut c_void, _sizes: *mut usize, _numBatches: usize, _attrs: *mut aclrtMemcpyBatchAttr, _attrsIndexes: *mut usize, _numAttrs: usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyBatchAsync(_dsts: *mut *mut c_void, _destMaxs: *mut usize, _srcs: *mut *mut c_void, _sizes: *mut usize, _numBatches: usize, _attrs: *mut aclrtMemcpyBatchAttr, _attrsIndexes: *mut usize, _numAttrs: usize, _failIndex: *mut usize, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyBatchAsyncV2(_dsts: *mut *mut c_void, _destMaxs: *mut usize, _srcs: *mut *mut c_void, _sizes: *mut usize, _numBatches: usize, _attrs: *mut aclrtMemcpyBatchAttr, _attrsIndexes: *mut usize, _numAttrs: usize, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtGetMemcpyDescSize(_kind: i32, _descSize: *mut usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtSetMemcpyDesc(_desc: *mut c_void, _kind: i32, _srcAddr: *mut c_void, _dstAddr: *mut c_void, _count: usize, _config: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyAsyncWithDesc(_desc: *mut c_void, _kind: i32, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemcpyAsyncWithOffset(_dst: *mut c_void, _destMax: usize, _dstDataOffset: usize, _src: *mut c_void, _count: usize, _srcDataOffset: usize, _kind: i32, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemset(_ptr: *mut c_void, _maxCount: usize, _value: i32, _count: usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemsetAsync(_ptr: *mut c_void, _maxCount: usize, _value: i32, _count: usize, _stream: *mut c_void)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemsetD32(_ptr: *mut c_void, _memSize: usize, _value: u32, _n: usize)->i32{todo!()}
pub unsafe extern "C" fn aclrtMemsetD32Async(_ptr: *mut c_void, _memSize: usize, _value: u32, _n: usize, _stream: *mut c_void)->i32{todo!()}