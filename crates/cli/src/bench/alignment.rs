//! One run of bytes from and to many places in a page, of which the worst is shown.
//!
//! memcpy of the C library falls far behind on some processors where the target lies a little past the source in its page;
//! the pairs look for that, and for odd addresses on either side.

use std::sync::Arc;

use super::block::Route;
use super::copies::Ours;
use super::plain::{Plain, Sides};
use super::report::ratio;
use super::shape::{Piece, Shape};
use super::trial::{Contender, Figures, Plan, measure};
use crate::error::Result;
use crate::tour::ctx::Ctx;

/// Where the source starts in its page, and how much further the target does.
const SOURCES: [usize; 4] = [0, 1, 64, 2051];
const FURTHER: [usize; 7] = [0, 1, 16, 64, 256, 2048, 4032];
const PAGE: usize = 4096;

/// The figures of the pair of places at which ours does worst beside memcpy, and where that is.
pub fn worst(
    ctx: &Ctx,
    route: Route,
    len: usize,
    plan: Plan,
    progress: &mut dyn FnMut(usize),
) -> Result<(Vec<Figures>, String)> {
    let pairs: Vec<(usize, usize)> =
        SOURCES.iter().flat_map(|src| FURTHER.map(|further| (*src, (src + further) % PAGE))).collect();
    let mut found: Option<(Vec<Figures>, (usize, usize))> = None;
    let mut verified = [0; 2];
    for (index, (src, dst)) in pairs.iter().enumerate() {
        let shape = Arc::new(Shape::Line(Piece { dst: *dst, src: *src, len }));
        let room = len + PAGE;
        let sides = Sides::new(ctx.library, route, room)?;
        let mut contenders: [Box<dyn Contender>; 2] =
            [Box::new(Ours::new(ctx, route, &shape, room)?), Box::new(Plain::one_thread(&sides, &shape))];
        let figures = measure(&mut contenders, plan, &mut |_| {})?;
        for (sum, one) in verified.iter_mut().zip(&figures) {
            *sum += one.verified;
        }
        let of = |figures: &[Figures]| ratio(&figures[0], &figures[1]);
        if found.as_ref().is_none_or(|(worst, _)| of(&figures) < of(worst)) {
            found = Some((figures, (*src, *dst)));
        }
        progress((index + 1) * plan.samples / pairs.len());
    }
    let (mut figures, (src, dst)) = found.expect("there are pairs");
    for (one, sum) in figures.iter_mut().zip(verified) {
        one.verified = sum;
    }
    let note = format!("worst of {}: source {src} and target {dst} bytes into a page", pairs.len());
    Ok((figures, note))
}
