//! Random copies of every shape, against a plain mirror of the elements.

use crate::{device, runtime};
use bytemuck::{Pod, bytes_of};
use ferry::{Batch, DeviceBuffer, DeviceMatrix, FillValue, HostBuffer, Result, Stream};
use proptest::{collection::vec, prelude::*};

/// Elements of each buffer.
const LEN: usize = 200;

/// Where rows of elements lie in a buffer.
#[derive(Clone, Copy, Debug)]
struct Rect {
    start: usize,
    rows: usize,
    cols: usize,
    pitch: usize,
}

impl Rect {
    /// The places of its elements, row by row.
    fn places(self) -> impl Iterator<Item = usize> {
        (0..self.rows).flat_map(move |row| (0..self.cols).map(move |col| self.start + row * self.pitch + col))
    }

    fn on(self, buffer: &DeviceBuffer<u16>) -> Result<DeviceMatrix<'_, u16>> {
        buffer.slice(self.start..)?.matrix_pitched(self.rows, self.cols, self.pitch)
    }
}

/// Some elements of a batch.
#[derive(Clone, Debug)]
struct Piece {
    device: usize,
    far: usize,
    near: usize,
    len: usize,
}

/// Work with two page-locked buffers and three on devices, given by their numbers.
#[derive(Clone, Debug)]
enum Step {
    Up { host: usize, device: usize, to: Rect, from: Rect },
    Down { host: usize, device: usize, to: Rect, from: Rect },
    Inside { dst: usize, src: usize, to: Rect, from: Rect },
    UpBatch { host: usize, pieces: Vec<Piece> },
    DownBatch { host: usize, pieces: Vec<Piece> },
    Fill { device: usize, to: Rect, value: u16 },
    Write { device: usize, to: Rect, value: u16 },
}

/// Some rectangle of so many rows and columns; one without gaps if `dense`.
fn rect(rows: usize, cols: usize, dense: bool) -> impl Strategy<Value = Rect> {
    let widest = if dense || rows < 2 { cols } else { (LEN - cols) / (rows - 1) };
    (cols..=widest).prop_flat_map(move |pitch| {
        let span = rows.checked_sub(1).map_or(0, |before| before * pitch + cols);
        (0..=LEN - span).prop_map(move |start| Rect { start, rows, cols, pitch })
    })
}

/// Two rectangles of one shape.
fn rects() -> impl Strategy<Value = (Rect, Rect)> {
    (0..6_usize, 0..30_usize, any::<bool>(), any::<bool>())
        .prop_flat_map(|(rows, cols, dst, src)| (rect(rows, cols, dst), rect(rows, cols, src)))
}

/// Pieces that do not meet at either end.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    const ROOM: usize = 5;
    let spots = || Just((0..LEN / ROOM).map(|spot| ROOM * spot).collect::<Vec<_>>()).prop_shuffle();
    (spots(), spots(), vec((0..3_usize, 0..=ROOM), 0..20)).prop_map(|(near, far, rest)| {
        let all = near.into_iter().zip(far).zip(rest);
        all.map(|((near, far), (device, len))| Piece { device, far, near, len }).collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let (host, device) = (|| 0..2_usize, || 0..3_usize);
    prop_oneof![
        (host(), device(), rects()).prop_map(|(host, device, (to, from))| Step::Up {
            host,
            device,
            to,
            from
        }),
        (host(), device(), rects()).prop_map(|(host, device, (to, from))| Step::Down {
            host,
            device,
            to,
            from
        }),
        (device(), 1..3_usize, rects()).prop_map(|(dst, by, (to, from))| Step::Inside {
            dst,
            src: (dst + by) % 3,
            to,
            from
        }),
        (host(), pieces()).prop_map(|(host, pieces)| Step::UpBatch { host, pieces }),
        (host(), pieces()).prop_map(|(host, pieces)| Step::DownBatch { host, pieces }),
        (device(), rects(), any::<u16>()).prop_map(|(device, (to, _), value)| Step::Fill {
            device,
            to,
            value
        }),
        (device(), rects(), any::<u16>()).prop_map(|(device, (to, _), value)| Step::Write {
            device,
            to,
            value
        }),
    ]
}

/// What `Write` puts into a rectangle.
fn written(to: Rect, value: u16) -> Vec<u16> {
    (0..to.rows * to.cols).map(|index| value.wrapping_add(7 * index as u16)).collect()
}

fn run(
    step: &Step,
    stream: &Stream,
    hosts: &mut [HostBuffer<u16>; 2],
    devices: &[DeviceBuffer<u16>; 3],
) -> Result<()> {
    stream.scope(|scope| {
        match step {
            Step::Up { host, device, to, from } => {
                let from =
                    hosts[*host].slice(from.start..)?.matrix_pitched(from.rows, from.cols, from.pitch)?;
                drop(scope.upload(to.on(&devices[*device])?, from)?);
            }
            Step::Down { host, device, to, from } => {
                let to =
                    hosts[*host].slice_mut(to.start..)?.matrix_pitched_mut(to.rows, to.cols, to.pitch)?;
                drop(scope.download(to, from.on(&devices[*device])?)?);
            }
            Step::Inside { dst, src, to, from } => {
                stream.copy(to.on(&devices[*dst])?, from.on(&devices[*src])?)?;
            }
            Step::UpBatch { host, pieces } => {
                let mut batch = Batch::new(&hosts[*host]);
                for Piece { device, far, near, len } in pieces {
                    batch.push(devices[*device].slice(*far..far + len)?, *near..near + len)?;
                }
                drop(scope.upload_batch(batch)?);
            }
            Step::DownBatch { host, pieces } => {
                let mut batch = Batch::new(&mut hosts[*host]);
                for Piece { device, far, near, len } in pieces {
                    batch.push(devices[*device].slice(*far..far + len)?, *near..near + len)?;
                }
                drop(scope.download_batch(batch)?);
            }
            Step::Fill { device, to, value } => stream.fill(to.on(&devices[*device])?, *value)?,
            Step::Write { device, to, value } => {
                let (to, values) = (to.on(&devices[*device])?, written(*to, *value));
                stream.write(to, &values)?;
                assert_eq!(stream.read_vec(to)?, values);
            }
        }
        Ok(())
    })?;
    // The next one may go to another stream.
    stream.synchronize()
}

/// Does a step with plain vectors.
fn mirror(step: &Step, hosts: &mut [Vec<u16>; 2], devices: &mut [Vec<u16>; 3]) {
    fn copy(dst: &mut [u16], to: Rect, src: &[u16], from: Rect) {
        to.places().zip(from.places()).for_each(|(to, from)| dst[to] = src[from]);
    }
    match step {
        Step::Up { host, device, to, from } => copy(&mut devices[*device], *to, &hosts[*host], *from),
        Step::Down { host, device, to, from } => copy(&mut hosts[*host], *to, &devices[*device], *from),
        Step::Inside { dst, src, to, from } => {
            let src = devices[*src].clone();
            copy(&mut devices[*dst], *to, &src, *from);
        }
        Step::UpBatch { host, pieces } => {
            for Piece { device, far, near, len } in pieces {
                devices[*device][*far..far + len].copy_from_slice(&hosts[*host][*near..near + len]);
            }
        }
        Step::DownBatch { host, pieces } => {
            for Piece { device, far, near, len } in pieces {
                hosts[*host][*near..near + len].copy_from_slice(&devices[*device][*far..far + len]);
            }
        }
        Step::Fill { device, to, value } => to.places().for_each(|place| devices[*device][place] = *value),
        Step::Write { device, to, value } => {
            let values = written(*to, *value);
            to.places().zip(values).for_each(|(place, value)| devices[*device][place] = value);
        }
    }
}

/// One copy of a chain: which way, on which stream, and where.
type Link = (bool, usize, usize, usize, usize);

fn links() -> impl Strategy<Value = Vec<Link>> {
    let link = (any::<bool>(), 0..3_usize, 0..=LEN, 0..=LEN, 0..=LEN);
    vec(
        link.prop_map(|(up, stream, near, far, len)| {
            (up, stream, near, far, len.min(LEN - near).min(LEN - far))
        }),
        0..30,
    )
}

/// Fills elements that start anywhere.
fn fills<T: FillValue + Pod>(bytes: [u8; 4], start: usize, len: usize) {
    let value: T = bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()]);
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN * 4).unwrap();
    let range = start..start + len * size_of::<T>();
    stream.fill(there.slice(range.clone()).unwrap().cast::<T>().unwrap(), value).unwrap();
    let mut want = vec![0; LEN * 4];
    want[range].chunks_mut(size_of::<T>()).for_each(|chunk| chunk.copy_from_slice(bytes_of(&value)));
    assert_eq!(stream.read_vec(&there).unwrap(), want, "{}", std::any::type_name::<T>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_copy_moves_what_the_mirror_moves(steps in vec((step(), 0..2_usize), 1..20)) {
        let runtime = runtime();
        let [near, far] = [0, 1].map(|id| runtime.device(id).unwrap());
        let streams = [near.stream().unwrap(), far.stream().unwrap()];
        let values = |seed: u16| (0..LEN as u16).map(|index| seed + index).collect::<Vec<_>>();
        let mut hosts = [1000, 2000].map(values);
        let mut devices = [3000, 4000, 5000].map(values);
        let mut real_hosts = [0, 1].map(|host: usize| runtime.alloc_host_from(&hosts[host]).unwrap());
        let homes = [&near, &near, &far];
        let real_devices = [0, 1, 2].map(|device: usize| homes[device].alloc_from(&devices[device]).unwrap());
        for (step, stream) in &steps {
            run(step, &streams[*stream], &mut real_hosts, &real_devices).unwrap();
            mirror(step, &mut hosts, &mut devices);
        }
        for (real, want) in real_hosts.iter().zip(&hosts) {
            prop_assert_eq!(&real[..], &want[..]);
        }
        for (real, want) in real_devices.iter().zip(&devices) {
            prop_assert_eq!(&streams[0].read_vec(real).unwrap(), want);
        }
    }

    /// One token goes from copy to copy, over three streams, and nobody waits until the end.
    #[test]
    fn a_chain_of_copies_is_in_order(links in links()) {
        let (device, first) = device();
        let streams = [first, device.stream().unwrap(), device.stream().unwrap()];
        let mut host: Vec<u16> = (0..LEN as u16).collect();
        let mut there: Vec<u16> = (1000..1000 + LEN as u16).collect();
        let real = device.alloc_from(&there).unwrap();
        let mut token = streams[0].upload(
            device.alloc::<u16>(LEN).unwrap().as_slice(),
            device.runtime().alloc_host_from(&host).unwrap(),
        ).unwrap();
        for (up, stream, near, far, len) in links {
            let (part, place) = (token.into_slice(near..near + len).unwrap(),
                real.slice(far..far + len).unwrap());
            let stream = &streams[stream];
            token = if up {
                there[far..far + len].copy_from_slice(&host[near..near + len]);
                stream.upload(place, part).unwrap().into_inner()
            } else {
                host[near..near + len].copy_from_slice(&there[far..far + len]);
                stream.download(part, place).unwrap().into_inner()
            };
        }
        prop_assert_eq!(&token.wait().unwrap()[..], &host[..]);
        prop_assert_eq!(streams[0].read_vec(&real).unwrap(), there);
    }

    #[test]
    fn every_value_fills_from_anywhere(bytes in any::<[u8; 4]>(), start in 0..20_usize, len in 0..LEN - 10) {
        fills::<u8>(bytes, start, len);
        fills::<i8>(bytes, start, len);
        fills::<u16>(bytes, start, len);
        fills::<i16>(bytes, start, len);
        fills::<u32>(bytes, start, len);
        fills::<i32>(bytes, start, len);
        fills::<f32>(bytes, start, len);
    }
}
