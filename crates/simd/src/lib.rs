//! Function multiversioning: portable loops, compiled once more for the vector instructions of the CPU at
//! hand.
//!
//! A loop is written as plain Rust that compilers turn into vector instructions. [`best`] chooses, when it
//! runs, the version for this CPU. Nothing here knows what the loops compute, and the crates that write them
//! need no intrinsics. Wider instructions than AVX2 gained nothing on one Xeon and took twice the time on
//! another.

/// A loop. `run` must be `#[inline(always)]`, or there is only one version of it.
///
/// ```
/// /// The bits of all words together.
/// struct Union<'a>(&'a [u64]);
///
/// impl ferry_simd::Loop for Union<'_> {
///     type Output = u64;
///
///     #[inline(always)]
///     fn run(self) -> u64 {
///         self.0.iter().fold(0, |all, word| all | word)
///     }
/// }
/// assert_eq!(ferry_simd::best(Union(&[1, 4, 5])), 5);
/// ```
pub trait Loop {
    /// What it computes.
    type Output;

    /// Computes it.
    fn run(self) -> Self::Output;
}

/// Runs the version of a loop that is compiled for this CPU.
#[inline(always)]
pub fn best<L: Loop>(this: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { with_avx2(this) };
    }
    this.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<L: Loop>(this: L) -> L::Output {
    this.run()
}
