//! A copy that has been checked, as data. A `Plan` cannot exist unless its bounds, pitches and route are
//! right: the folder `planning` is the only place that makes one.
//!
//! A plan holds one rectangle, several, or a list of segments (`pieces.rs`, `segments.rs`), all in the
//! engine's addresses. This folder knows the address table's results, and neither memory nor backends.

pub(crate) mod linear;
pub(crate) mod pieces;
mod rows;
pub(crate) mod runs;
pub(crate) mod segments;

use crate::{Kind, Origin, Result, block::Block, uses::Touched};
pub use linear::{Linear, Recent};
pub use pieces::Pieces;
use pieces::Store;
pub use rows::{Ends, Misfit, Route, Rows};
pub use runs::{Chunk, Runs};
pub use segments::{Segment, SegmentSink, Sizes};
use std::mem;

/// A checked copy in the engine's addresses: one rectangle, or the pieces of a batch, in no particular order.
/// One copy that was cut where its memory is mapped piece by piece is done in the order given, since its ends
/// may overlap.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(crate) pieces: Store,
    /// None as long as there are no pieces.
    pub(crate) route: Option<Route>,
    /// Whether pieces have routes between several devices.
    mixed: bool,
    pub(crate) plain: bool,
    pub(crate) order: Order,
    /// Which registered memory takes part.
    pub(crate) touched: Touched,
}

/// In which order the pieces of a plan are to be done, and lie in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Any,
    /// As the copy goes on.
    Forward,
    /// From its end.
    Backward,
}

impl Plan {
    /// A piece begins or ends in this block.
    #[inline(always)]
    pub(crate) fn touch(&mut self, block: &Block) {
        if block.origin == Origin::Registered {
            self.touched.add(block.base);
        }
    }

    /// Which registered memory takes part. The plan does not know it any more afterwards.
    #[inline]
    pub(crate) fn take_touched(&mut self) -> Touched {
        mem::take(&mut self.touched)
    }

    /// Itself, with the registered memory that takes part.
    pub(crate) fn touching(self, touched: Touched) -> Plan {
        Plan { touched, ..self }
    }

    /// Adds the route of a piece: all pieces have the same kind of route.
    #[inline]
    pub(crate) fn take_route(&mut self, route: Route) -> Result<()> {
        let before = *self.route.get_or_insert(route);
        if mem::discriminant(&route) != mem::discriminant(&before) {
            return Err(Kind::BadRoute.because(format!("{route:?} among pieces that are {before:?}")));
        }
        self.mixed |= route != before;
        self.route = Some(route);
        Ok(())
    }

    /// Adds the pieces of another plan that has the same route. Neither is ordered.
    pub(crate) fn join(&mut self, other: Plan) {
        other.pieces().iter().for_each(|rows| self.pieces.push(rows));
        self.plain |= other.plain;
        self.touched.join(other.touched);
    }

    /// Whether the pieces must be done one after the other, in the order given.
    pub fn is_ordered(&self) -> bool {
        self.order != Order::Any
    }

    /// Whether that is the order from the end of the copy to its start.
    pub(crate) fn is_backward(&self) -> bool {
        self.order == Order::Backward
    }

    /// The pieces, none of them empty.
    #[inline]
    pub fn pieces(&self) -> Pieces<'_> {
        self.pieces.view()
    }

    /// The segment of a plan that is one row and owns nothing: such a plan can be forgotten in place of
    /// dropped, which spares a call.
    #[inline(always)]
    pub fn lone_segment(&self) -> Option<Segment> {
        match (&self.pieces, &self.touched) {
            (Store::One(rows @ Rows { height: 1, .. }), Touched::Nothing | Touched::One(_)) => {
                Some(Segment::of(rows))
            }
            _ => None,
        }
    }

    /// Between which kinds of memory the bytes move; of the devices, those of the last piece. Inside the
    /// host, if there are none.
    pub fn route(&self) -> Route {
        self.route.unwrap_or_default()
    }

    /// Whether all pieces have one route, between the same devices.
    pub fn has_one_route(&self) -> bool {
        !self.mixed
    }

    /// Whether pageable host memory takes part.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The sink that holds all pieces, if the backend brought one and they are segments. What the backend
    /// takes out of it the plan does not have any more.
    pub fn sink(&mut self) -> Option<&mut dyn SegmentSink> {
        self.pieces.sink()
    }

    /// How many bytes are moved.
    pub fn bytes(&self) -> usize {
        self.sizes().bytes
    }

    /// How many bytes are moved, by all pieces and by the longest.
    pub fn sizes(&self) -> Sizes {
        self.pieces.sizes()
    }
}
