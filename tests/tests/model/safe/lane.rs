//! One copy of page-locked memory, in all the forms in which it can be asked for.

use std::ops::Range;

use ferry::{
    Batch, DeviceBuffer, DeviceMatrix, DeviceSlice, HostBuffer, HostPool, HostPoolMut, HostRead, HostWrite,
    InFlight, Part, Stream,
};

use super::Outcome;
use crate::program::Rows;

/// How a copy is handed over.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    pub stream: &'a Stream,
    pub up: bool,
    /// By way of a scope, which waits.
    pub scoped: bool,
}

/// The part of page-locked memory that a copy uses.
pub enum Near {
    All,
    Line(Range<usize>),
    /// Start and pitch, width and height.
    Grid(Rows, usize, usize),
}

/// The device's end of a copy.
#[derive(Clone, Copy)]
pub enum Far<'d> {
    Line(DeviceSlice<'d, u8>),
    Grid(DeviceMatrix<'d, u8>),
}

/// A piece of a batch: device memory, and where it is in which of the host's buffers.
pub struct Item {
    pub device: DeviceBuffer<u8>,
    pub far: Range<usize>,
    pub nth: usize,
    pub near: Range<usize>,
}

/// Whether rows are a rectangle of a matrix that starts with its buffer, and do not go round its edge.
pub fn is_rect(rows: &Rows, width: usize) -> bool {
    rows.at.checked_rem(rows.pitch).is_some_and(|column| column + width <= rows.pitch)
}

/// Rows and columns of such a matrix, and which of them the rectangle consists of.
pub fn rect(rows: &Rows, width: usize, height: usize) -> ((usize, usize), (Range<usize>, Range<usize>)) {
    let (row, column) = (rows.at / rows.pitch, rows.at % rows.pitch);
    ((row + height, column + width), (row..row + height, column..column + width))
}

impl Lane<'_> {
    /// Hands over memory to read that is owned, or the token of it.
    pub fn upload<S>(&self, far: Far, host: S) -> Outcome<InFlight<S::Buffer>>
    where
        S: HostRead<Elem = u8> + 'static,
    {
        Ok(match (far, self.scoped) {
            (Far::Line(slice), false) => self.stream.upload(slice, host)?,
            (Far::Grid(matrix), false) => self.stream.upload(matrix, host)?,
            (Far::Line(slice), true) => self.stream.scope(|scope| Ok(scope.upload(slice, host)?))?,
            (Far::Grid(matrix), true) => self.stream.scope(|scope| Ok(scope.upload(matrix, host)?))?,
        })
    }

    fn download<S>(&self, far: Far, host: S) -> Outcome<InFlight<S::Buffer>>
    where
        S: HostWrite<Elem = u8> + 'static,
    {
        Ok(match (far, self.scoped) {
            (Far::Line(slice), false) => self.stream.download(host, slice)?,
            (Far::Grid(matrix), false) => self.stream.download(host, matrix)?,
            (Far::Line(slice), true) => self.stream.scope(|scope| Ok(scope.download(host, slice)?))?,
            (Far::Grid(matrix), true) => self.stream.scope(|scope| Ok(scope.download(host, matrix)?))?,
        })
    }

    fn copy<S>(&self, far: Far, host: S) -> Outcome<InFlight<S::Buffer>>
    where
        S: HostWrite<Elem = u8> + 'static,
    {
        if self.up { self.upload(far, host) } else { self.download(far, host) }
    }

    /// A copy of a part of a buffer, which is owned all the same.
    pub fn part<W: Whole>(&self, far: Far, host: W, near: &Near) -> Outcome<InFlight<HostBuffer<u8>>> {
        match near {
            Near::All => self.copy(far, host),
            _ => Ok(self.copy(far, host.part(near)?)?.into_inner()),
        }
    }

    pub fn upload_batch<H>(&self, host: H, items: &[Item]) -> Outcome<InFlight<H::Buffer>>
    where
        H: HostPool<Elem = u8> + 'static,
    {
        let batch = filled(host, items)?;
        Ok(match self.scoped {
            false => self.stream.upload_batch(batch)?,
            true => self.stream.scope(|scope| Ok(scope.upload_batch(batch)?))?,
        })
    }

    pub fn batch<H>(&self, host: H, items: &[Item]) -> Outcome<InFlight<H::Buffer>>
    where
        H: HostPoolMut<Elem = u8> + 'static,
    {
        if self.up {
            return self.upload_batch(host, items);
        }
        let batch = filled(host, items)?;
        Ok(match self.scoped {
            false => self.stream.download_batch(batch)?,
            true => self.stream.scope(|scope| Ok(scope.download_batch(batch)?))?,
        })
    }

    /// A copy of memory that is lent.
    pub fn lend(&self, far: Far, host: &mut HostBuffer<u8>, near: &Near) -> Outcome<()> {
        self.stream.scope(|scope| {
            match (near, far) {
                (Near::All, Far::Line(slice)) if self.up => drop(scope.upload(slice, &*host)?),
                (Near::All, Far::Line(slice)) => drop(scope.download(host, slice)?),
                (Near::Line(range), Far::Line(slice)) if self.up => {
                    drop(scope.upload(slice, host.slice(range.clone())?)?);
                }
                (Near::Line(range), Far::Line(slice)) => {
                    drop(scope.download(host.slice_mut(range.clone())?, slice)?);
                }
                (Near::Line(range), Far::Grid(matrix)) if self.up => {
                    drop(scope.upload(matrix, host.slice(range.clone())?)?);
                }
                (Near::Line(range), Far::Grid(matrix)) => {
                    drop(scope.download(host.slice_mut(range.clone())?, matrix)?);
                }
                (Near::Grid(Rows { at, pitch, .. }, width, height), Far::Grid(matrix)) if self.up => {
                    let rows = host.slice(*at..)?.matrix_pitched(*height, *width, *pitch)?;
                    drop(scope.upload(matrix, rows)?);
                }
                (Near::Grid(Rows { at, pitch, .. }, width, height), Far::Grid(matrix)) => {
                    let rows = host.slice_mut(*at..)?.matrix_pitched_mut(*height, *width, *pitch)?;
                    drop(scope.download(rows, matrix)?);
                }
                _ => unreachable!("both ends are of one copy"),
            }
            Ok(())
        })
    }

    /// Each piece as a copy of its own, all in one scope.
    pub fn lend_pieces(&self, host: &mut HostBuffer<u8>, items: &[Item]) -> Outcome<()> {
        let mut items: Vec<_> = items.iter().collect();
        items.sort_by_key(|item| (item.near.start, item.near.end));
        self.stream.scope(|scope| {
            if self.up {
                for Item { device, far, near, .. } in items {
                    drop(scope.upload(device.slice(far.clone())?, host.slice(near.clone())?)?);
                }
                return Ok(());
            }
            let (mut rest, mut start) = (host.slice_mut(..)?, 0);
            for Item { device, far, near, .. } in items {
                let (_, from) = rest.split_at_mut(near.start - start)?;
                let (own, behind) = from.split_at_mut(near.len())?;
                (rest, start) = (behind, near.end);
                drop(scope.download(own, device.slice(far.clone())?)?);
            }
            Ok(())
        })
    }
}

fn filled<H: HostPool<Elem = u8>>(host: H, items: &[Item]) -> Outcome<Batch<'_, H>> {
    let mut batch = Batch::new(host);
    for Item { device, far, nth, near } in items {
        match nth {
            0 => batch.push(device.slice(far.clone())?, near.clone())?,
            _ => batch.push(device.slice(far.clone())?, (*nth, near.clone()))?,
        }
    }
    Ok(batch)
}

/// All of a page-locked buffer, at hand or in flight, of which parts are made.
pub trait Whole: HostWrite<Elem = u8, Buffer = HostBuffer<u8>> + 'static {
    type Part: HostWrite<Elem = u8, Buffer = Part<HostBuffer<u8>>> + 'static;

    fn part(self, near: &Near) -> Outcome<Self::Part>;
}

macro_rules! whole {
    ($of:ty, $part:ty) => {
        impl Whole for $of {
            type Part = $part;

            fn part(self, near: &Near) -> Outcome<$part> {
                Ok(match near {
                    Near::All => self.into_slice(..)?,
                    Near::Line(range) => self.into_slice(range.clone())?,
                    Near::Grid(rows, width, height) => {
                        let (grid, (rows_of, cols_of)) = rect(rows, *width, *height);
                        self.into_matrix(grid.0, grid.1, rows.pitch)?.rect(rows_of, cols_of)?
                    }
                })
            }
        }
    };
}

whole!(HostBuffer<u8>, Part<HostBuffer<u8>>);
whole!(InFlight<HostBuffer<u8>>, InFlight<Part<HostBuffer<u8>>>);
