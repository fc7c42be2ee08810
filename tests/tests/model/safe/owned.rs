//! Copies of page-locked memory: the buffer goes along with the copy, is lent to a scope, or is shared.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ferry::{HostBuffer, InFlight, SharedBuffer};

use super::lane::{Far, Item, Lane, Near, is_rect, rect};
use super::tasks::block_on;
use super::{Outcome, Safe, any};
use crate::program::{Act, Span};

/// Where a page-locked buffer is.
pub enum Held {
    Here(HostBuffer<u8>),
    /// Owned by a copy.
    Away(InFlight<HostBuffer<u8>>, Since),
    /// Owned by a batch, together with others: all of them, in order.
    Together(InFlight<Vec<HostBuffer<u8>>>, Vec<usize>, Since),
    /// With this buffer, which has the token.
    With(usize),
    Shared(SharedBuffer<u8>),
}

/// The streams that a buffer has been to, the last one first, and how often each had been aborted when it
/// came.
pub struct Since(Vec<(usize, usize)>);

impl Safe<'_> {
    /// A copy or batch of page-locked memory.
    pub(super) fn copy_owned(&self, act: &Act, on: usize, waits: bool) -> Outcome<()> {
        let moves = act.moves();
        let up = self.program.home(moves[0].0.buffer).is_device();
        let near = |(dst, src): &(Span, Span)| if up { *src } else { *dst };
        let buffers: BTreeSet<_> = moves.iter().map(|pair| near(pair).buffer).collect();
        let buffers: Vec<_> = buffers.into_iter().collect();
        let item = |pair: &(Span, Span)| {
            let (far, near) = (if up { pair.0 } else { pair.1 }, near(pair));
            let nth = buffers.iter().position(|b| *b == near.buffer).expect("in the list");
            Item { device: self.device(far.buffer), far: far.bytes(), nth, near: near.bytes() }
        };
        let items: Vec<_> = moves.iter().map(item).collect();
        let lane = Lane { stream: &self.streams[on], up, scoped: waits && any(act) % 8 > 4 };
        match self.take(buffers[0]) {
            Held::Shared(shared) => {
                self.put(buffers[0], Held::Shared(shared.clone()));
                return self.upload_shared(lane, act, &buffers, &items, waits);
            }
            held if buffers.len() > 1 => self.copy_together(lane, held, &buffers, &items, on)?,
            Held::Here(mut host) if waits && any(act).is_multiple_of(3) => {
                self.lend(lane, act, &mut host, &items)?;
                self.put(buffers[0], Held::Here(host));
                return Ok(());
            }
            Held::Here(host) => {
                let token = match self.near(act, up, false) {
                    Some(near) => lane.part(self.far(act, &items[0])?, host, &near)?,
                    None => lane.batch(host, &items)?,
                };
                self.put(buffers[0], Held::Away(token, self.since(on, Since(vec![]))));
            }
            Held::Away(token, since) => {
                let token = match self.near(act, up, false) {
                    Some(near) => lane.part(self.far(act, &items[0])?, token, &near)?,
                    None => lane.batch(token, &items)?,
                };
                self.put(buffers[0], Held::Away(token, self.since(on, since)));
            }
            Held::Together(..) | Held::With(_) => panic!("taken back before it travels alone"),
        }
        if waits { self.land(buffers[0]) } else { Ok(()) }
    }

    /// A batch over several buffers, which are at hand, or in flight together.
    fn copy_together(
        &self,
        lane: Lane,
        first: Held,
        buffers: &[usize],
        items: &[Item],
        on: usize,
    ) -> Outcome<()> {
        let (token, since) = match first {
            Held::Together(token, all, since) => {
                assert_eq!(all, buffers, "taken back before others travel together");
                (lane.batch(token, items)?, self.since(on, since))
            }
            first => {
                let others = buffers[1..].iter().map(|buffer| self.take(*buffer));
                let here = |held| match held {
                    Held::Here(host) => host,
                    _ => panic!("taken back before it travels with others"),
                };
                let all: Vec<_> = [first].into_iter().chain(others).map(here).collect();
                (lane.batch(all, items)?, self.since(on, Since(vec![])))
            }
        };
        self.put(buffers[0], Held::Together(token, buffers.to_vec(), since));
        buffers[1..].iter().for_each(|buffer| self.put(*buffer, Held::With(buffers[0])));
        Ok(())
    }

    /// What is shared is uploaded without asking who else does. The token is waited for, or given up.
    fn upload_shared(
        &self,
        lane: Lane,
        act: &Act,
        buffers: &[usize],
        items: &[Item],
        waits: bool,
    ) -> Outcome<()> {
        let shared = |buffer: &usize| match self.take(*buffer) {
            Held::Shared(shared) => {
                self.put(*buffer, Held::Shared(shared.clone()));
                shared
            }
            _ => panic!("a batch takes only what is shared, or nothing that is"),
        };
        let mut all: Vec<_> = buffers.iter().map(shared).collect();
        match self.near(act, true, false) {
            _ if buffers.len() > 1 => {
                let token = lane.upload_batch(all, items)?;
                if waits {
                    token.wait().map(drop)?
                }
            }
            None => {
                let token = lane.upload_batch(all.remove(0), items)?;
                if waits {
                    block_on(token).map(drop)?
                }
            }
            Some(near) => {
                let (far, shared) = (self.far(act, &items[0])?, all.remove(0));
                let token = match near {
                    Near::All => lane.upload(far, shared.into_slice(..)?)?,
                    Near::Line(range) => lane.upload(far, shared.into_slice(range)?)?,
                    Near::Grid(rows, width, height) => {
                        let (grid, (rows_of, cols_of)) = rect(&rows, width, height);
                        lane.upload(
                            far,
                            shared.into_matrix(grid.0, grid.1, rows.pitch)?.rect(rows_of, cols_of)?,
                        )?
                    }
                };
                if waits {
                    token.wait().map(drop)?
                }
            }
        }
        Ok(())
    }

    /// Lends memory to a scope, or to a call that waits.
    fn lend(&self, lane: Lane, act: &Act, host: &mut HostBuffer<u8>, items: &[Item]) -> Outcome<()> {
        match (act, self.near(act, lane.up, true)) {
            (_, None) => lane.lend_pieces(host, items),
            (Act::Copy2d { .. }, _) if any(act).is_multiple_of(5) => lane.lend_pieces(host, items),
            (Act::Copy { .. }, _) if any(act).is_multiple_of(5) => {
                let Item { device, far, near, .. } = &items[0];
                match lane.up {
                    true => lane.stream.write(device.slice(far.clone())?, &host[near.clone()]),
                    false => lane.stream.read(&mut host[near.clone()], device.slice(far.clone())?),
                }
            }
            (_, Some(near)) => lane.lend(self.far(act, &items[0])?, host, &near),
        }
    }

    /// A buffer comes to a stream.
    fn since(&self, stream: usize, Since(mut streams): Since) -> Since {
        let aborts = self.aborts[stream].load(Ordering::SeqCst);
        let known = streams.iter().find(|(other, _)| *other == stream).map_or(aborts, |(_, first)| *first);
        streams.retain(|(other, _)| *other != stream);
        streams.insert(0, (stream, known));
        Since(streams)
    }

    /// The page-locked end of a copy, if that is to be a copy and not a batch. An owned matrix starts where
    /// its buffer does, so a rectangle of it cannot go round its edge; what is lent can.
    fn near(&self, act: &Act, up: bool, lent: bool) -> Option<Near> {
        match act {
            _ if any(act).is_multiple_of(7) => None,
            Act::Copy { dst, src, .. } => {
                let near = if up { src } else { dst };
                let all = 0..self.program.buffers[near.buffer].len;
                Some(if near.bytes() == all { Near::All } else { Near::Line(near.bytes()) })
            }
            Act::Copy2d { dst, src, width, height, .. } => {
                let near = if up { src } else { dst };
                // A matrix without gaps is as good as a line.
                let dense = near.pitch == *width && any(act).is_multiple_of(2);
                let line = Near::Line(near.at..near.at + width * height);
                match (lent || is_rect(near, *width)).then_some(Near::Grid(*near, *width, *height)) {
                    _ if dense => Some(line),
                    grid => grid,
                }
            }
            _ => None,
        }
    }

    /// The device's end of a copy whose first row is `first`.
    fn far<'d>(&self, act: &Act, first: &'d Item) -> Outcome<Far<'d>> {
        let Act::Copy2d { dst, src, width, height, .. } = act else {
            return Ok(Far::Line(first.device.slice(first.far.clone())?));
        };
        let far = if self.program.home(dst.buffer).is_device() { dst } else { src };
        if is_rect(far, *width) && any(act).is_multiple_of(2) {
            let (grid, (rows_of, cols_of)) = rect(far, *width, *height);
            return Ok(Far::Grid(
                first.device.matrix_pitched(grid.0, grid.1, far.pitch)?.rect(rows_of, cols_of)?,
            ));
        }
        Ok(Far::Grid(first.device.slice(far.at..)?.matrix_pitched(*height, *width, far.pitch)?))
    }

    /// Takes a buffer back, and those that travel with it.
    pub(super) fn land(&self, buffer: usize) -> Outcome<()> {
        match self.take(buffer) {
            Held::Away(token, since) => {
                let host = self.wait_for(token, since)?;
                self.put(buffer, Held::Here(host));
            }
            Held::Together(token, buffers, since) => {
                let all = self.wait_for(token, since)?;
                buffers.iter().zip(all).for_each(|(buffer, host)| self.put(*buffer, Held::Here(host)));
            }
            Held::With(first) => return self.land(first),
            here => self.put(buffer, here),
        }
        Ok(())
    }

    /// Waits in one of the ways there are. A copy of the buffer may have been dropped only if its stream was
    /// aborted.
    fn wait_for<B: Unpin>(&self, token: InFlight<B>, Since(streams): Since) -> Outcome<B> {
        let waited = match streams[0].0 % 3 {
            0 => token.wait(),
            1 => block_on(token),
            _ => {
                while !token.wait_timeout(std::time::Duration::from_millis(20)) {}
                assert!(token.is_done());
                token.wait()
            }
        };
        waited.or_else(|failed| match failed.error.kind {
            ferry::Kind::Aborted if streams.iter().any(|(s, aborts)| self.has_aborted(*s, *aborts)) => {
                Ok(failed.buffer)
            }
            _ => Err(failed.error),
        })
    }

    pub(super) fn share(&self, buffer: usize) {
        match self.take(buffer) {
            Held::Here(host) => self.put(buffer, Held::Shared(host.share())),
            _ => panic!("only what is at hand can be shared"),
        }
    }
}
