//! cuBLAS, found at run time: by the loader, where CUDA installs it, or where PyTorch's packages have it.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferry_abi::{Error, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::super::driver::CudaStream;

/// Versions that have the functions below.
const NAMES: [&str; 2] = ["libcublas.so.13", "libcublas.so.12"];
/// Where packages of Python have it, below a folder of its path.
const PACKAGES: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cublas/lib"];
/// Where CUDA installs it.
const TOOLKIT: &str = "/usr/local/cuda/lib64";

/// `cublasStatus_t`: 0 is success.
type BlasStatus = i32;

functions! {
    /// The functions of cuBLAS that are used.
    BlasFunctions {
        cublasCreate_v2: fn(*mut usize) -> BlasStatus;
        cublasDestroy_v2: fn(usize) -> BlasStatus;
        cublasSetStream_v2: fn(usize, usize) -> BlasStatus;
        cublasGemmEx: fn(
            usize, i32, i32, i32, i32, i32,
            *const c_void, *const c_void, i32, i32, *const c_void, i32, i32,
            *const c_void, *mut c_void, i32, i32, i32, i32
        ) -> BlasStatus;
    }
}

/// The library with a handle that multiplies in one stream. The library is never unloaded.
pub struct CuBlas {
    functions: BlasFunctions,
    handle: usize,
    /// The name of its file.
    pub name: String,
}

impl CuBlas {
    /// The library that is named, or the first that can be opened.
    pub fn find(stream: &CudaStream, named: Option<&Path>) -> Result<CuBlas> {
        let open = |file: PathBuf| CuBlas::open(stream, &file);
        if let Some(file) = named {
            return open(file.to_owned()).map_err(|error| Error::Setup(error.to_string()));
        }
        let by_the_loader = NAMES.into_iter().map(PathBuf::from).map(open).find(Result::is_ok);
        let in_folders = || {
            let files = folders().into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
            files.filter(|file| file.exists()).map(open).find(Result::is_ok)
        };
        by_the_loader.or_else(in_folders).unwrap_or_else(|| Err(missing("not found")))
    }

    fn open(stream: &CudaStream, file: &Path) -> Result<CuBlas> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wrong = |error: libloading::Error| missing(&format!("{}: {error}", file.display()));
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // It needs this one, which a package may have where the loader does not look: what is loaded
            // already is found by its name.
            let needed = folder.join(name.replace("libcublas.", "libcublasLt."));
            // SAFETY: cuBLAS's own other library; loading it runs no more than its initialisers.
            if let Ok(needed) = unsafe { Library::open(Some(needed), RTLD_NOW | RTLD_GLOBAL) } {
                std::mem::forget(needed);
            }
        }
        // SAFETY: cuBLAS by its name, or what the user says is cuBLAS.
        let library: libloading::Library =
            unsafe { Library::open(Some(file), RTLD_NOW) }.map_err(wrong)?.into();
        // SAFETY: as above.
        let functions = unsafe { BlasFunctions::load(&library) }.map_err(wrong)?;
        std::mem::forget(library);
        let mut handle = 0;
        let stream_handle = stream.handle();
        stream.driver().within(|| {
            // SAFETY: `handle` is writable, and the context is current.
            check("cublasCreate", unsafe { (functions.cublasCreate_v2)(&mut handle) })?;
            // SAFETY: the handle was made above, and the stream outlives what is multiplied in it.
            check("cublasSetStream", unsafe { (functions.cublasSetStream_v2)(handle, stream_handle) })
        })?;
        Ok(CuBlas { functions, handle, name })
    }

    /// cublasGemmEx: `left` times `right`, whose rows are the columns of what is multiplied.
    ///
    /// # Safety
    /// All three are matrices of `side` rows and columns of bfloat16 that live until the stream has passed
    /// the product. The context is current, and no other thread uses the handle.
    pub unsafe fn multiply(&self, left: usize, right: usize, out: usize, side: usize) -> Result<()> {
        const NORMAL: i32 = 0;
        const TRANSPOSED: i32 = 1;
        /// CUDA_R_16BF.
        const BFLOAT16: i32 = 14;
        /// CUBLAS_COMPUTE_32F.
        const IN_FLOAT: i32 = 68;
        /// CUBLAS_GEMM_DEFAULT.
        const ANY_ALGORITHM: i32 = -1;
        let (one, none, side) = (1.0f32, 0.0f32, side as i32);
        let (one, none) = ((&raw const one).cast(), (&raw const none).cast());
        let (multiply, handle) = (self.functions.cublasGemmEx, self.handle);
        let (left, right, out) = (left as *const c_void, right as *const c_void, out as *mut c_void);
        // Its matrices are stored by columns: to it, ours are transposed, and so is what comes out. That is
        // `right`, transposed back, times `left`.
        // SAFETY: passed on to the caller; both factors are read before the call returns.
        let code = unsafe {
            multiply(
                handle,
                TRANSPOSED,
                NORMAL,
                side,
                side,
                side,
                one,
                right,
                BFLOAT16,
                side,
                left,
                BFLOAT16,
                side,
                none,
                out,
                BFLOAT16,
                side,
                IN_FLOAT,
                ANY_ALGORITHM,
            )
        };
        check("cublasGemmEx", code)
    }
}

/// Where Python's packages and CUDA would have it.
fn folders() -> Vec<PathBuf> {
    let path = Command::new("python3").args(["-c", "import sys; print(*sys.path, sep='\\n')"]).output();
    let path = path.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned()).unwrap_or_default();
    let packages = path.lines().filter(|line| !line.is_empty());
    let packages = packages.flat_map(|folder| PACKAGES.map(|package| Path::new(folder).join(package)));
    packages.chain([PathBuf::from(TOOLKIT)]).collect()
}

fn check(name: &str, code: BlasStatus) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Setup(format!("{name} answered {code}"))) }
}

fn missing(why: &str) -> Error {
    Error::NotHere(format!("no cuBLAS: {why}"))
}

impl Drop for CuBlas {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `open` and is destroyed once; what it multiplied has been waited
        // for.
        unsafe { (self.functions.cublasDestroy_v2)(self.handle) };
    }
}
