//! Our headers as bindgen reads them. Sizes and offsets of structs are checked while this compiles; here a
//! rectangle goes to the device and back through functions and types that came from them.

#[allow(non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code, clippy::all)]
mod acl {
    include!(concat!(env!("OUT_DIR"), "/acl.rs"));
}

use std::error::Error;
use std::ffi::c_void;
use std::ptr::null_mut;

const WIDTH: usize = 48;
const PITCH: usize = 64;
const HEIGHT: usize = 16;

/// Copies HEIGHT rows of WIDTH bytes down and back, and looks at every byte and every gap.
pub fn rectangle() -> Result<(), Box<dyn Error>> {
    // The numbers that two readers of the documents wrote down.
    assert_eq!(acl::ACL_MEMCPY_HOST_TO_DEVICE, cann_sys::acl_memory::ACL_MEMCPY_HOST_TO_DEVICE as _);
    assert_eq!(acl::ACL_ERROR_RT_INVALID_DEVICEID, cann_sys::ACL_ERROR_RT_INVALID_DEVICEID as _);

    let from: Vec<u8> = (0..WIDTH * HEIGHT).map(|at| at as u8).collect();
    let mut to = vec![0xFF_u8; PITCH * HEIGHT];
    let (mut device, mut stream): (*mut c_void, acl::aclrtStream) = (null_mut(), null_mut());
    // SAFETY: out pointers are writable; both host matrices are as large as said and live until the stream
    // was waited for.
    let codes = unsafe {
        let (down, up) = (acl::ACL_MEMCPY_HOST_TO_DEVICE, acl::ACL_MEMCPY_DEVICE_TO_HOST);
        [
            acl::aclrtCreateStream(&mut stream),
            acl::aclrtMalloc(&mut device, PITCH * HEIGHT, acl::ACL_MEM_MALLOC_HUGE_FIRST),
            acl::aclrtMemcpy2dAsync(device, PITCH, from.as_ptr().cast(), WIDTH, WIDTH, HEIGHT, down, stream),
            acl::aclrtMemcpy2dAsync(to.as_mut_ptr().cast(), PITCH, device, PITCH, WIDTH, HEIGHT, up, stream),
            acl::aclrtSynchronizeStream(stream),
            acl::aclrtFree(device),
            acl::aclrtDestroyStream(stream),
        ]
    };
    if codes.iter().any(|code| *code != 0) {
        return Err(format!("a rectangle there and back: {codes:?}").into());
    }
    for (row, (from, to)) in from.chunks(WIDTH).zip(to.chunks(PITCH)).enumerate() {
        if from != &to[..WIDTH] || to[WIDTH..].iter().any(|byte| *byte != 0xFF) {
            return Err(format!("row {row} is {to:?}").into());
        }
    }
    Ok(())
}
