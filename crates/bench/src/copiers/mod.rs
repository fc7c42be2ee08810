//! Whatever can do the copies of a case: Ferry through its C ABI, and the peers that it is measured beside.
//!
//! Each is a `Copier`. The peers are memcpy on one thread and on two, a thread that does memcpy for others,
//! OpenCL and the CUDA driver; the last two are found at run time, and nothing is linked. No copier knows
//! another one, nor what is measured: they see the shape of a copy and the memory on both sides.

/// Declares a table of a library's functions and how each is found by its name.
macro_rules! functions {
    ($(#[$doc:meta])* $access:vis $table:ident { $($name:ident: fn($($argument:ty),*) -> $answer:ty;)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        $access struct $table { $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $answer,)* }

        impl $table {
            /// # Safety
            /// The library is the one that these functions are declared for.
            pub(super) unsafe fn load(
                library: &libloading::Library,
            ) -> std::result::Result<$table, libloading::Error> {
                Ok($table { $(
                    // SAFETY: the type is the prototype that the library's documents give this name.
                    $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,
                )* })
            }
        }
    };
}

pub mod acl;
pub mod cuda;
pub mod memcpy;
pub mod opencl;
pub mod thread;
