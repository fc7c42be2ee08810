//! Matrix products that keep a GPU busy, which copies are measured beside.
//!
//! They are of bfloat16 numbers, by cuBLAS where it is found, else by a kernel of our own, product.cu. A
//! thread submits one after the other, a few ahead, so that the GPU never waits for it. Some elements are
//! compared with what the processor makes of them.

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferry_abi::error::ensure;
use ferry_abi::{Error, Result};

use crate::bytes::Bytes;
use crate::random::Random;
use crate::shape;

use super::driver::{CudaBlock, CudaDriver, CudaEvent, CudaKernel, CudaStream, LaunchShape};

use cublas::CuBlas;

mod cublas;

/// The kernel, made of product.cu by regenerate.sh.
const PTX: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("product/product.ptx"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the PTX has a zero in it"),
    };
/// Threads of a block of the kernel, and the shared memory of a block.
const THREADS: u32 = 256;
const SHARED: u32 = 4 * (128 + 256) * 64;
/// What the side of a matrix is a multiple of.
pub const SIDE_UNIT: usize = 256;

/// Products that are submitted before the oldest is waited for: the GPU never waits for the host, and what
/// shares the way into the GPU with them waits for no more.
const QUEUED: usize = 4;
/// What is named in place of a library for our kernel.
const NONE: &str = "none";
/// Elements of a product that are compared.
const COMPARED: usize = 24;
/// Numbers written at a time.
const CHUNK: usize = 1 << 20;

/// The product of two square matrices, again and again into the same third one: what is in row i and column j
/// of that is the sum of the products of row i of the first and row j of the second.
pub struct MatrixProduct {
    cuda: Arc<CudaDriver>,
    stream: CudaStream,
    /// Before the first product that is timed, and behind the last.
    ends: [CudaEvent; 2],
    /// Behind the newest products.
    behind: [CudaEvent; QUEUED],
    left: CudaBlock,
    right: CudaBlock,
    out: CudaBlock,
    side: usize,
    by: MultipliedBy,
}

/// Who multiplies.
enum MultipliedBy {
    CuBlas(CuBlas),
    /// Our kernel, with as many blocks as there are multiprocessors, and what these share.
    Ours {
        kernel: CudaKernel,
        blocks: u32,
        counters: CudaBlock,
    },
}

impl MatrixProduct {
    /// Of matrices with so many rows and columns, after some elements were found to be right. `cublas` is a
    /// library, or `none` for our kernel, which also takes the place of one that is not named and missing or
    /// fails.
    pub fn new(cuda: &Arc<CudaDriver>, side: usize, cublas: Option<&Path>) -> Result<MatrixProduct> {
        let is_found = |product: MatrixProduct| product.check().map(|()| product);
        if cublas != Some(Path::new(NONE)) {
            let stream = CudaStream::new(cuda)?;
            let found = CuBlas::find(&stream, cublas).map(MultipliedBy::CuBlas);
            let product = found.and_then(|by| MatrixProduct::by(cuda, stream, side, by)).and_then(is_found);
            if product.is_ok() || cublas.is_some() {
                return product;
            }
        }
        MatrixProduct::by(cuda, CudaStream::new(cuda)?, side, MultipliedBy::ours(cuda)?).and_then(is_found)
    }

    fn by(
        cuda: &Arc<CudaDriver>,
        stream: CudaStream,
        side: usize,
        by: MultipliedBy,
    ) -> Result<MatrixProduct> {
        assert!(side > 0 && side.is_multiple_of(SIDE_UNIT), "a side of {side} is not whole tiles");
        let cuda = cuda.clone();
        let block = || CudaBlock::new(&cuda, side * side * size_of::<u16>());
        let (left, right, out) = (block()?, block()?, block()?);
        let mut random = Random::new();
        write_numbers(&left, &mut random)?;
        write_numbers(&right, &mut random)?;
        let ends = [CudaEvent::timed(&cuda)?, CudaEvent::timed(&cuda)?];
        let behind = (0..QUEUED).map(|_| CudaEvent::of_sleepers(&cuda)).collect::<Result<Vec<_>>>()?;
        let behind = behind.try_into().unwrap_or_else(|_| unreachable!("as many as were made"));
        Ok(MatrixProduct { cuda, stream, ends, behind, left, right, out, side, by })
    }

    /// What is multiplied, and by whom.
    pub fn about(&self) -> String {
        let by = match &self.by {
            MultipliedBy::CuBlas(library) => library.name.clone(),
            MultipliedBy::Ours { .. } => "a kernel of Ferry's".to_owned(),
        };
        format!("beside bfloat16 products of {} x {} by {by}", self.side, self.side)
    }

    /// Floating-point operations of one product.
    pub fn operations(&self) -> u64 {
        2 * (self.side as u64).pow(3)
    }

    /// Submits one product; the context is current.
    fn submit(&self) -> Result<()> {
        let [left, right, out] = [&self.left, &self.right, &self.out].map(CudaBlock::at);
        match &self.by {
            // SAFETY: the matrices live as long as this, which waits for the stream when it is dropped; they
            // have so many rows and columns.
            MultipliedBy::CuBlas(library) => unsafe { library.multiply(left, right, out, self.side) },
            MultipliedBy::Ours { kernel, blocks, counters } => {
                let (mut addresses, mut side) = ([left, right, out, counters.at()], self.side as u32);
                let [left, right, out, counters] = addresses.each_mut().map(|one| (&raw mut *one).cast());
                let mut arguments: [*mut c_void; 5] = [left, right, out, (&raw mut side).cast(), counters];
                let shape = LaunchShape { blocks: *blocks, threads: THREADS, shared: SHARED };
                // SAFETY: three matrices, their side, two counters: what product.cu declares; they live as
                // above.
                unsafe { self.stream.launch(kernel, shape, &mut arguments) }
            }
        }
    }

    /// Products one after the other for so long: the time of one.
    pub fn back_to_back(&self, time: Duration) -> Result<Duration> {
        self.cuda.within(|| {
            let (begin, [first, last]) = (Instant::now(), &self.ends);
            // Not counted: it may wait for what came before.
            self.submit()?;
            self.stream.record(first)?;
            let mut count = 0;
            while count < QUEUED || begin.elapsed() < time {
                let behind = &self.behind[count % QUEUED];
                if count >= QUEUED {
                    behind.synchronise()?;
                }
                self.submit()?;
                self.stream.record(behind)?;
                count += 1;
            }
            self.stream.record(last)?;
            self.stream.synchronise()?;
            Ok(last.since(first)? / count as u32)
        })
    }

    /// Makes a product, and fails unless some of its elements are right.
    pub fn check(&self) -> Result<()> {
        shape::spoil(&self.out)?;
        self.cuda.within(|| {
            self.submit()?;
            self.stream.synchronise()
        })?;
        let (mut random, last) = (Random::new(), self.side - 1);
        let places = (0..COMPARED).map(|_| (random.below(self.side), random.below(self.side)));
        places.chain([(0, 0), (0, last), (last, 0), (last, last)]).try_for_each(|place| self.compare(place))
    }

    fn compare(&self, (row, column): (usize, usize)) -> Result<()> {
        let (left, right) = (self.row(&self.left, row)?, self.row(&self.right, column)?);
        let wanted: f64 = left.iter().zip(&right).map(|(one, other)| one * other).sum();
        let seen = self.row(&self.out, row)?[column];
        // A bfloat16 has 8 bits; sums of floats in another order differ by less.
        let is_near = (seen - wanted).abs() <= wanted.abs() / 128.0 + 0.01;
        ensure(is_near, &format!("row {row} and column {column} of a product"), wanted, seen)
    }

    fn row(&self, matrix: &CudaBlock, row: usize) -> Result<Vec<f64>> {
        let mut bytes = vec![0; self.side * size_of::<u16>()];
        matrix.get(row * bytes.len(), &mut bytes)?;
        let number = |pair: &[u8]| {
            let bits = u32::from(u16::from_ne_bytes([pair[0], pair[1]]));
            f64::from(f32::from_bits(bits << 16))
        };
        Ok(bytes.chunks_exact(size_of::<u16>()).map(number).collect())
    }
}

impl MultipliedBy {
    fn ours(cuda: &Arc<CudaDriver>) -> Result<MultipliedBy> {
        let kernel = CudaKernel::load(cuda, PTX, c"ferry_product", SHARED)?;
        let counters = CudaBlock::new(cuda, 2 * size_of::<u32>())?;
        counters.put(0, &[0; 2 * size_of::<u32>()])?;
        Ok(MultipliedBy::Ours { kernel, blocks: cuda.multiprocessors()?, counters })
    }
}

impl Drop for MatrixProduct {
    fn drop(&mut self) {
        // Where a product failed, others may still use the matrices.
        let _ = self.cuda.within(|| self.stream.synchronise());
    }
}

/// Fills a matrix with numbers from -2 to 2: a GPU that multiplies zeros draws less power, and is faster.
fn write_numbers(to: &CudaBlock, random: &mut Random) -> Result<()> {
    /// Sign and mantissa of a bfloat16.
    const SIGN_AND_MANTISSA: u16 = 0x807F;
    let number = |bits: u16| (bits & SIGN_AND_MANTISSA) | (124 + ((bits >> 8) & 3)) << 7;
    let mut chunk = vec![0u8; CHUNK * size_of::<u16>()];
    for start in (0..to.len()).step_by(chunk.len()) {
        let chunk = &mut chunk[..(to.len() - start).min(CHUNK * size_of::<u16>())];
        for numbers in chunk.chunks_exact_mut(size_of::<u64>()) {
            let bits = random.next();
            for (place, pair) in numbers.chunks_exact_mut(size_of::<u16>()).enumerate() {
                pair.copy_from_slice(&number((bits >> (16 * place)) as u16).to_ne_bytes());
            }
        }
        to.put(start, chunk)?;
    }
    Ok(())
}

/// What is missing where there is no product.
pub fn missing() -> Error {
    Error::NotHere("needs a GPU and --peers: products are put into a stream of the CUDA driver".to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn the_shipped_kernel_was_made_of_the_shipped_source() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/copiers/cuda/product");
        let sum = Command::new("cksum").arg(folder.join("product.cu")).output().expect("POSIX has cksum");
        let sum = String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap_or_default().to_owned();
        let first = super::PTX.to_str().expect("text").lines().next().unwrap_or_default();
        assert!(first.ends_with(&format!("cksum {sum}")), "run regenerate.sh: {sum}, {first}");
    }
}
