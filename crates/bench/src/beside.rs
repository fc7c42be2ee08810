//! Copies beside matrix products: what both lose by the other. Products run back to back in a stream of the
//! CUDA driver's. Windows of products alone and of products with copies take turns, so that clocks that
//! wander with the heat move both alike.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferry_abi::session::Session;
use ferry_abi::{Error, Result};
use ferry_terminal::figures;

use crate::copiers::cuda::product::{self, MatrixProduct, SIDE_UNIT};
use crate::peers::{CopySpec, Peers};
use crate::report::Row;
use crate::sampling::{Contender, Figures, Loss, Sampling, prove};

/// What is multiplied, and by what.
#[derive(clap::Args)]
pub struct ProductOptions {
    /// Rows and columns of the matrices that are multiplied beside copies, a multiple of 256
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = side)]
    matrix: usize,
    /// cuBLAS for these products, or `none` for a kernel of ours [libcublas where the loader, PyTorch or CUDA
    /// has it]
    #[arg(long, value_name = "FILE")]
    cublas: Option<PathBuf>,
}

fn side(text: &str) -> std::result::Result<usize, String> {
    let side = text.parse().ok().filter(|side: &usize| *side > 0 && side.is_multiple_of(SIDE_UNIT));
    side.filter(|side| *side <= 1 << 16).ok_or_else(|| "a multiple of 256, 65536 at most".to_owned())
}

/// How long a window takes.
const WINDOW: Duration = Duration::from_millis(300);
/// Windows of each sort at most.
const MOST_ROUNDS: usize = 7;

/// What was measured of one contender, window by window.
#[derive(Default)]
struct Windows {
    copies_alone: Vec<Duration>,
    copies_beside: Vec<Duration>,
    product_alone: Vec<Duration>,
    product_beside: Vec<Duration>,
    verified: usize,
}

/// Ferry's batches, the driver's, and a copy engine: a row for copies alone, copies beside products, products
/// alone, and products beside copies.
pub fn measure(
    session: &Session,
    peers: &Peers,
    spec: &CopySpec,
    options: &ProductOptions,
    plan: Sampling,
    row: &Row,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Row>> {
    let cuda = peers.cuda().ok_or_else(product::missing)?;
    let product = MatrixProduct::new(cuda, options.matrix, options.cublas.as_deref())?;
    let (mut contenders, note) = peers.beside_a_product(session, spec)?;
    contenders.iter_mut().try_for_each(|contender| contender.sample().map(drop))?;
    let mut windows: Vec<Windows> = contenders.iter().map(|_| Windows::default()).collect();
    let rounds = plan.samples.min(MOST_ROUNDS);
    for round in 0..rounds {
        let verify = plan.verify && round == 0;
        measure_round(&product, &mut contenders, &mut windows, round, verify)?;
        progress((round + 1) * plan.samples / rounds);
    }
    product.check()?;
    let mut verified = vec![0; contenders.len()];
    prove(&mut contenders, plan, &mut verified)?;
    windows.iter_mut().zip(verified).for_each(|(windows, verified)| windows.verified += verified);
    let names = contenders.iter().map(|contender| contender.name());
    let all: Vec<(&'static str, Windows)> = names.zip(windows).collect();
    let notes = row.note.iter().cloned().chain(note).chain([product.about()]);
    Ok(rows(row, notes.collect::<Vec<_>>().join("; "), &product, &all))
}

fn rows(row: &Row, note: String, product: &MatrixProduct, all: &[(&'static str, Windows)]) -> Vec<Row> {
    let figures = |times: fn(&Windows) -> &Vec<Duration>| -> Vec<Figures> {
        let each = all.iter();
        each.map(|(name, windows)| Figures::of(name, times(windows).clone(), windows.verified)).collect()
    };
    let mut beside = figures(|windows| &windows.product_beside);
    beside.iter_mut().zip(all).for_each(|(one, (_, windows))| one.loss = Some(windows.loss()));
    let (lost, of_product) = (said_of_losses(&beside), product.operations());
    let part = |part, operations, figures| {
        let bytes = if operations > 0 { 0 } else { row.bytes };
        Row { bytes, operations, note: None, ..row.part(part, figures) }
    };
    vec![
        Row { note: Some(note), ..part("copies/alone", 0, figures(|windows| &windows.copies_alone)) },
        part("copies/beside", 0, figures(|windows| &windows.copies_beside)),
        part("product/alone", of_product, figures(|windows| &windows.product_alone)),
        Row { note: Some(lost), ..part("product/beside", of_product, beside) },
    ]
}

/// `lost: ferry 4.21 % (3.90..4.40), CUDA copy ...`.
fn said_of_losses(all: &[Figures]) -> String {
    let said = |one: &Figures| {
        let loss = one.loss?;
        let [median, low, high] = [loss.median, loss.low, loss.high].map(figures);
        Some(format!("{} {median} % ({low}..{high})", one.name))
    };
    format!("lost: {}", all.iter().filter_map(said).collect::<Vec<_>>().join(", "))
}

impl Windows {
    /// What products lose beside the copies, window by window.
    fn loss(&self) -> Loss {
        let lost = |(alone, beside): (&Duration, &Duration)| {
            100.0 * (1.0 - alone.as_secs_f64() / beside.as_secs_f64().max(1e-12))
        };
        Loss::of(self.product_alone.iter().zip(&self.product_beside).map(lost).collect())
    }
}

/// A window of each sort for each contender, who begins with another one each time.
fn measure_round(
    product: &MatrixProduct,
    contenders: &mut [Box<dyn Contender>],
    windows: &mut [Windows],
    round: usize,
    verify: bool,
) -> Result<()> {
    for (contender, windows) in contenders.iter_mut().zip(&mut *windows) {
        let begin = Instant::now();
        windows.copies_alone.push(copy_until(contender.as_mut(), &|| begin.elapsed() >= WINDOW)?);
    }
    let mut before = product.back_to_back(WINDOW)?;
    for turn in 0..contenders.len() {
        let index = (round + turn) % contenders.len();
        let (contender, windows) = (&mut contenders[index], &mut windows[index]);
        if verify {
            contender.spoil()?;
        }
        let (product_beside, copies_beside) = run_beside(product, contender.as_mut())?;
        let after = product.back_to_back(WINDOW)?;
        if verify {
            windows.verified += contender.check()?;
        }
        windows.product_alone.push((before + after) / 2);
        windows.product_beside.push(product_beside);
        windows.copies_beside.push(copies_beside);
        before = after;
    }
    Ok(())
}

/// Copies for as long as products run: the time of one product, and of one copy.
fn run_beside(product: &MatrixProduct, contender: &mut dyn Contender) -> Result<(Duration, Duration)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let products = scope.spawn(|| {
            let time = product.back_to_back(WINDOW);
            is_over.store(true, Ordering::Release);
            time
        });
        let copies = copy_until(contender, &|| is_over.load(Ordering::Acquire));
        let panicked = |_| Err(Error::Setup("the thread that multiplies has panicked".to_owned()));
        Ok((products.join().unwrap_or_else(panicked)?, copies?))
    })
}

/// Takes samples until it is told: the mean of them. The last one was not all within the window, and counts
/// only if it is the first.
fn copy_until(contender: &mut dyn Contender, is_over: &dyn Fn() -> bool) -> Result<Duration> {
    let (mut time, mut count) = (Duration::ZERO, 0);
    while count == 0 || !is_over() {
        let sample = contender.sample()?;
        if count > 0 && is_over() {
            break;
        }
        (time, count) = (time + sample, count + 1);
    }
    Ok(time / count)
}
