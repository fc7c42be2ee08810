//! 2-D copies of random widths, pitches and heights: the five that do worst beside the peer, the one that a
//! tenth does worse than, and the one in the middle. Each row notes its matrix as a name that `-t` takes;
//! `--seed` draws others.

use ferry_abi::Result;
use ferry_abi::session::Session;

use crate::copier::Timing;
use crate::matrix::Matrix;
use crate::peers::{CopySpec, MemcpyPeers, Peers};
use crate::random::Random;
use crate::report::{Row, ratio};
use crate::room::must_fit;
use crate::route::Route;
use crate::sampling::{Figures, Sampling, measure, prove};
use crate::shape::Shape;

/// Samples of each matrix at most.
const SAMPLES: usize = 5;
/// How many matrices are compared of peers, too.
const COMPARED_OF_PEERS: usize = 10;
/// What the rows of those that do worst are called.
const WORST: [&str; 5] = ["worst", "2nd", "3rd", "4th", "5th"];

/// `count` matrices of at most `len` bytes, and the rows of some of them.
pub fn worst(
    session: &Session,
    peers: &Peers,
    (route, count, len): (Route, usize, usize),
    plan: Sampling,
    row: &Row,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Row>> {
    let mut random = Random::of_the_user();
    let matrices: Vec<Matrix> = (0..count).map(|_| Matrix::random(&mut random, len)).collect();
    let room = matrices.iter().map(Matrix::room).max().unwrap_or(len);
    must_fit(session, room)?;
    let memory = peers.memory(session, &CopySpec { room, ..spec(route, matrices[0]) })?;
    let mut measured = Vec::new();
    for (index, matrix) in matrices.into_iter().enumerate() {
        let (mut contenders, _) = peers.contenders_in(&memory, session, &spec(route, matrix))?;
        let mut verified = vec![0; contenders.len()];
        // Compared once, and peers with the first matrices only: that takes longer than the samples.
        let compared = if index < COMPARED_OF_PEERS { contenders.len() } else { 1 };
        prove(&mut contenders[..compared], plan, &mut verified)?;
        let unproven = Sampling { samples: plan.samples.min(SAMPLES), verify: false };
        let mut figures = measure(&mut contenders, unproven, &mut |_| {})?;
        figures.iter_mut().zip(verified).for_each(|(one, verified)| one.verified = verified);
        measured.push((matrix, figures));
        progress((index + 1) * plan.samples / count);
    }
    measured.sort_by(|one, other| standing(one).total_cmp(&standing(other)));
    let ranked = WORST.into_iter().enumerate();
    let places = ranked.map(|(index, name)| (name, index)).chain([("p10", count / 10), ("p50", count / 2)]);
    let places: Vec<_> = places.filter(|(_, index)| *index < count).collect();
    Ok(places.into_iter().map(|(name, index)| shown(row, name, &measured[index])).collect())
}

fn spec(route: Route, rows: Matrix) -> CopySpec {
    CopySpec {
        timing: Timing::Whole { rounds: 1, queued: 1 },
        memcpy_peers: MemcpyPeers::OneThread,
        ..CopySpec::new(route, Shape::Grid(rows), rows.room())
    }
}

/// How well Ferry does: beside the peer, or by its throughput where there is none.
fn standing((matrix, figures): &(Matrix, Vec<Figures>)) -> f64 {
    let throughput = || matrix.bytes() as f64 / figures[0].median.as_secs_f64().max(1e-12);
    figures.get(1).map_or_else(throughput, |peer| ratio(&figures[0], peer))
}

fn shown(row: &Row, name: &str, (matrix, figures): &(Matrix, Vec<Figures>)) -> Row {
    Row { bytes: matrix.bytes(), note: Some(matrix.to_string()), ..row.part(name, figures.clone()) }
}
