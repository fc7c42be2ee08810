//! Sizes, ranges, shapes and pitches that make no sense: an error that names the numbers, and never a panic.

use crate::{device, error, pattern, says};
use bytemuck::{Pod, Zeroable};
use ferry::{Batch, Kind, Result};
use std::ops::Bound;

const MAX: usize = usize::MAX;

/// Something that each kind of memory is asked for.
fn check<T>(name: &str, got: Result<T>, kind: Kind, words: &[&str]) {
    match got {
        Ok(_) => panic!("{name} was taken"),
        Err(error) => says(&error, kind, words),
    }
}

#[test]
fn ranges_that_are_no_part_are_refused_with_their_numbers() {
    let (device, _) = device();
    let there = device.alloc::<u32>(10).unwrap();
    let mut host = device.runtime().alloc_host::<u32>(10).unwrap();
    let excluded = |start| (Bound::Excluded(start), Bound::Unbounded);
    let table = [
        ((Bound::Included(3), Bound::Excluded(11)), "3..11"),
        ((Bound::Included(11), Bound::Unbounded), "11.."),
        ((Bound::Included(5), Bound::Excluded(4)), "5..4"),
        ((Bound::Unbounded, Bound::Included(10)), "..=10"),
        ((Bound::Unbounded, Bound::Included(MAX)), &format!("..={MAX}")),
        ((Bound::Included(MAX), Bound::Excluded(MAX)), &format!("{MAX}..{MAX}")),
        ((Bound::Included(0), Bound::Excluded(MAX)), &format!("0..{MAX}")),
        (excluded(10), "10<.."),
        (excluded(MAX), &format!("{MAX}<..")),
    ];
    for (range, shown) in table {
        let words = [shown, "10 elements"];
        check("DeviceBuffer::slice", there.slice(range), Kind::OutOfBounds, &words);
        check("DeviceSlice::slice", there.as_slice().slice(range), Kind::OutOfBounds, &words);
        check("HostSlice::slice", host.slice(range), Kind::OutOfBounds, &words);
        check("HostSlice::slice_mut", host.slice_mut(range), Kind::OutOfBounds, &words);
        let failed = host.into_slice(range).unwrap_err();
        says(&failed.error, Kind::OutOfBounds, &words);
        host = failed.buffer;
        let shared = host.share();
        says(&error(shared.clone().into_slice(range)), Kind::OutOfBounds, &words);
        host = device.runtime().alloc_host::<u32>(10).unwrap();
        let columns = [shown, "10 columns"];
        let rows = [shown, "10 rows"];
        check(
            "DeviceMatrix::rect",
            there.matrix(1, 10).unwrap().rect(.., range).map(drop),
            Kind::OutOfBounds,
            &columns,
        );
        check(
            "DeviceMatrix::rect",
            there.matrix(10, 1).unwrap().rect(range, ..).map(drop),
            Kind::OutOfBounds,
            &rows,
        );
        check(
            "HostMatrix::rect",
            host.matrix(10, 1).unwrap().rect(range, ..).map(drop),
            Kind::OutOfBounds,
            &rows,
        );
        check(
            "HostMatrixMut::rect",
            host.matrix_mut(10, 1).unwrap().rect(range, ..).map(drop),
            Kind::OutOfBounds,
            &rows,
        );
        let part = host.into_matrix(10, 1, 1).unwrap();
        let failed = part.rect(range, ..).unwrap_err();
        says(&failed.error, Kind::OutOfBounds, &rows);
        host = failed.buffer.into_inner();
    }
    for mid in [11, MAX] {
        check("split_at_mut", host.split_at_mut(mid), Kind::OutOfBounds, &[&mid.to_string(), "10 elements"]);
    }
    assert_eq!(host.chunks_mut(0).count(), 0);
    assert_eq!(host.chunks_mut(MAX).count(), 1);
}

#[test]
fn matrices_that_do_not_fit_are_refused_with_their_numbers() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u32>(100).unwrap();
    let mut host = device.runtime().alloc_host::<u32>(100).unwrap();
    for (rows, cols, pitch, kind) in [
        (11, 10, 10, Kind::OutOfBounds),
        (3, 10, 46, Kind::OutOfBounds),
        (2, 4, 3, Kind::BadShape),
        (1, MAX, MAX, Kind::OutOfBounds),
        (MAX, 1, 1, Kind::OutOfBounds),
        (MAX, MAX, MAX, Kind::OutOfBounds),
        (2, 1, MAX, Kind::OutOfBounds),
        (MAX / 2, 2, 4, Kind::OutOfBounds),
        (2, MAX, 1, Kind::BadShape),
        (0, MAX, MAX - 1, Kind::BadShape),
    ] {
        let numbers = [rows.to_string(), cols.to_string(), pitch.to_string()];
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let words = if kind == Kind::BadShape { &numbers[1..] } else { &numbers[..] };
        let name = format!("{rows} x {cols} / {pitch}");
        check(&name, there.matrix_pitched(rows, cols, pitch).map(drop), kind, words);
        check(&name, there.slice(..).unwrap().matrix_pitched(rows, cols, pitch).map(drop), kind, words);
        check(&name, host.matrix_pitched(rows, cols, pitch).map(drop), kind, words);
        check(&name, host.matrix_pitched_mut(rows, cols, pitch).map(drop), kind, words);
        let failed = host.into_matrix(rows, cols, pitch).unwrap_err();
        says(&failed.error, kind, words);
        host = failed.buffer;
        let token = stream.upload(&there, host).unwrap();
        let failed = token.into_matrix(rows, cols, pitch).unwrap_err();
        says(&failed.error, kind, words);
        host = failed.buffer.wait().unwrap();
    }
}

/// Matrices without elements that are legal, however odd their numbers.
#[test]
fn empty_matrices_are_copied_and_filled_as_nothing() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(100, 1)).unwrap();
    let wide = device.alloc_zeroed::<u64>(4).unwrap();
    let other = device.alloc_from(&pattern(100, 2)).unwrap();
    let mut host = device.runtime().alloc_host_from(&pattern(100, 3)).unwrap();
    for (rows, cols, pitch) in [
        (0, 0, 0),
        (0, 5, 5),
        (0, MAX, MAX),
        (0, MAX / 2, MAX),
        (5, 0, 0),
        (MAX, 0, 0),
        (5, 0, 20),
        (1, 0, MAX),
    ] {
        let name = format!("{rows} x {cols} / {pitch}");
        let (dst, src) = (
            there.matrix_pitched(rows, cols, pitch).expect(&name),
            other.matrix_pitched(rows, cols, pitch).expect(&name),
        );
        stream.copy(dst, src).expect(&name);
        stream.fill(dst, 0).expect(&name);
        stream.fill_bytes(dst, 0).expect(&name);
        if let Ok(wide) = wide.matrix_pitched(rows, cols, pitch) {
            stream.fill_bytes(wide, 0).expect(&name);
        }
        stream.write(dst, &[]).expect(&name);
        assert_eq!(stream.read_vec(dst).expect(&name), []);
        host = stream
            .upload(dst, host.into_matrix(rows, cols, pitch).expect(&name))
            .expect(&name)
            .wait()
            .unwrap()
            .into_inner();
        host = stream
            .download(host.into_matrix(rows, cols, pitch).expect(&name), src)
            .expect(&name)
            .wait()
            .unwrap()
            .into_inner();
        stream
            .scope(|scope| {
                scope.upload(dst, host.matrix_pitched(rows, cols, pitch)?)?;
                Ok(())
            })
            .expect(&name);
        let rect = dst.rect(.., ..).expect(&name);
        assert_eq!((rect.rows(), rect.cols()), (rows, cols));
        if cols == 0 && rows > 0 {
            assert_eq!(host.matrix_pitched(rows, cols, pitch).unwrap().row(0), Some(&[][..]));
        }
        assert_eq!(host.matrix_pitched(rows, cols, pitch).unwrap().row(rows), None);
    }
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(100, 1));
    assert_eq!(host[..], pattern(100, 3));
}

#[test]
fn shapes_that_differ_are_refused_and_nothing_is_copied() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(100, 1)).unwrap();
    let mut host = device.runtime().alloc_host_from(&pattern(100, 2)).unwrap();
    let token_of = |host| stream.upload(there.matrix(10, 9).unwrap(), host).unwrap_err();
    let failed = token_of(host);
    says(&failed.error, Kind::BadShape, &["10 rows of 9", "100 elements"]);
    host = failed.buffer;
    let failed = stream.download(host, there.slice(..99).unwrap()).unwrap_err();
    says(&failed.error, Kind::BadShape, &["99 elements", "100 elements"]);
    host = failed.buffer;
    let failed = stream.upload(there.matrix(4, 6).unwrap(), host.into_matrix(6, 4, 4).unwrap()).unwrap_err();
    says(&failed.error, Kind::BadShape, &["4 rows of 6", "6 rows of 4"]);
    host = failed.buffer.into_inner();
    assert_eq!(host[..], pattern(100, 2), "the buffer is as it was");

    let mut plain = vec![9; 50];
    says(&stream.write(&there, &plain).unwrap_err(), Kind::BadShape, &["100", "50"]);
    says(&stream.write_staged(&there, &plain).unwrap_err(), Kind::BadShape, &["100", "50"]);
    says(&stream.read(&mut plain, &there).unwrap_err(), Kind::BadShape, &["100", "50"]);
    let (dst, src) = (there.slice(..10).unwrap(), there.slice(..11).unwrap());
    says(&stream.copy(dst, src).unwrap_err(), Kind::BadShape, &["10", "11"]);
    assert_eq!(plain, [9; 50]);
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(100, 1));
    stream.synchronize().expect("what was refused is no failure of the stream");
}

#[test]
fn pieces_that_do_not_fit_are_refused_one_by_one() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(100, 1)).unwrap();
    let hosts = vec![device.runtime().alloc_host_from(&pattern(10, 2)).unwrap()];
    let mut batch = Batch::new(hosts);
    batch.push(there.slice(..4).unwrap(), (0, 6..10)).unwrap();
    let part = there.slice(..4).unwrap();
    says(&error(batch.push(part, (1, 0..4))), Kind::OutOfBounds, &["buffer 1", "over 1"]);
    says(&error(batch.push(part, (MAX, 0..4))), Kind::OutOfBounds, &[&MAX.to_string()]);
    says(&error(batch.push(part, 7..11)), Kind::OutOfBounds, &["7..11", "10 elements"]);
    says(&error(batch.push(part, MAX - 4..MAX)), Kind::OutOfBounds, &["10 elements"]);
    says(&error(batch.push(part, 0..5)), Kind::BadShape, &["4 elements", "5 on the host"]);
    says(&error(batch.push(&there, 0..10)), Kind::BadShape, &["100 elements", "10 on the host"]);
    assert_eq!(batch.len(), 1, "what was refused is not in it");
    let hosts = stream.upload_batch(batch).unwrap().wait().unwrap();
    assert_eq!(stream.read_vec(there.slice(..4).unwrap()).unwrap(), pattern(10, 2)[6..]);

    let mut rows = Batch::new(hosts.into_iter().next().unwrap().into_matrix(2, 2, 5).unwrap());
    says(&error(rows.push(part, 0..4)), Kind::BadShape, &["2 rows of 2"]);
    assert!(rows.is_empty());
    stream.upload_batch(rows).unwrap().wait().expect("a batch of nothing");
    stream.upload_batch(Batch::new(Vec::<ferry::HostBuffer<u8>>::new())).unwrap().wait().unwrap();
}

#[test]
fn allocations_larger_than_anything_are_refused_with_their_size() {
    let (device, _) = device();
    let runtime = device.runtime();
    let words = |len: usize, size: &'static str| [len.to_string(), size.to_owned()];
    for len in [MAX, MAX / 4 + 1, isize::MAX as usize / 4 + 1] {
        let shown = words(len, "4 bytes");
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        check("alloc", device.alloc::<u32>(len), Kind::OutOfMemory, &shown);
        check("alloc_zeroed", device.alloc_zeroed::<f32>(len), Kind::OutOfMemory, &shown);
        check("alloc_host", runtime.alloc_host::<i32>(len), Kind::OutOfMemory, &shown);
    }
    for len in [isize::MAX as usize, isize::MAX as usize - 4096, 65 << 20] {
        check("alloc", device.alloc::<u8>(len), Kind::OutOfMemory, &[&len.to_string(), "free"]);
    }
    check("alloc_host", runtime.alloc_host::<u8>(isize::MAX as usize), Kind::OutOfMemory, &["page-locked"]);
    let most = device.memory_info().unwrap();
    assert_eq!(most.free, most.total, "refusals keep nothing");
}

#[test]
fn empty_buffers_are_as_good_as_others() {
    let (device, stream) = device();
    for there in [device.alloc::<u64>(0), device.alloc_zeroed(0), device.alloc_from(&[])] {
        let there = there.unwrap();
        let host = device.runtime().alloc_host::<u64>(0).unwrap();
        assert!(there.is_empty() && host.is_empty());
        let host = stream.upload(&there, host).unwrap().wait().unwrap();
        let host = stream.download(host, &there).unwrap().wait().unwrap();
        stream.copy(&there, &there).unwrap();
        stream.fill_bytes(&there, 1).unwrap();
        stream.write(&there, &[]).unwrap();
        stream.write_staged(&there, &[]).unwrap();
        stream.read(&mut [], &there).unwrap();
        assert_eq!(stream.read_vec(&there).unwrap(), []);
        let mut batch = Batch::new(host);
        batch.push(&there, 0..0).unwrap();
        stream.upload_batch(batch).unwrap().wait().unwrap();
        assert_eq!(there.as_slice().cast::<u32>().unwrap().len(), 0);
    }
    stream.synchronize().unwrap();
}

/// The part behind the last element is empty, and its address belongs to nobody or to somebody else.
#[test]
fn empty_parts_may_lie_at_the_very_end() {
    for len in [4096, 4095, 8192, 1 << 21] {
        let (device, stream) = device();
        let there = device.alloc_from(&pattern(len, 1)).unwrap();
        let end = there.slice(len..).unwrap();
        let mut host = device.runtime().alloc_host_from(&pattern(len, 2)).unwrap();
        host = stream.upload(end, host.into_slice(len..).unwrap()).unwrap().wait().unwrap().into_inner();
        host = stream.download(host.into_slice(len..).unwrap(), end).unwrap().wait().unwrap().into_inner();
        stream.copy(end, end).unwrap();
        stream.copy(end, there.slice(..0).unwrap()).unwrap();
        stream.fill(end, 1).unwrap();
        stream.write(end, &[]).unwrap();
        assert_eq!(stream.read_vec(end).unwrap(), []);
        let descriptor = device.descriptor().unwrap();
        for (to, from) in [(end, end), (end, there.slice(..0).unwrap()), (there.slice(..0).unwrap(), end)] {
            descriptor.set(to, from).unwrap();
            stream.run(&descriptor).unwrap();
            stream.synchronize().unwrap();
        }
        stream
            .scope(|scope| {
                scope.upload(end, host.slice(len..)?)?;
                Ok(())
            })
            .unwrap();
        let mut batch = Batch::new(host);
        batch.push(end, len..len).unwrap();
        batch.push(there.slice(..1).unwrap(), 0..1).unwrap();
        batch.push(end, len..len).unwrap();
        let host = stream.upload_batch(batch).unwrap().wait().unwrap();
        assert_eq!(host[..], pattern(len, 2));
        stream.synchronize().unwrap();
    }
}

/// Plain data of no size; as many elements as numbers can say.
#[test]
fn elements_of_no_size_take_no_room() {
    let (device, stream) = device();
    for len in [0, 1, 1000, MAX] {
        let there = device.alloc::<[u8; 0]>(len).unwrap();
        device.alloc_zeroed::<()>(len).unwrap();
        let host = device.runtime().alloc_host::<[u8; 0]>(len).unwrap();
        assert_eq!((there.len(), host.len()), (len, len));
        let host = stream.upload(&there, host).unwrap().wait().unwrap();
        let host = stream.download(host, &there).unwrap().wait().unwrap();
        stream.copy(&there, there.slice(..).unwrap()).unwrap();
        stream.fill_bytes(&there, 1).unwrap();
        stream.write(&there, &host).unwrap();
        if len > 1 {
            let rows = there.matrix_pitched(2, 1, len / 2).unwrap();
            stream.copy(rows, rows).unwrap();
            stream.fill_bytes(rows, 0).unwrap();
            stream.upload(rows, host.into_matrix(2, 1, len / 2).unwrap()).unwrap().wait().unwrap();
        }
        assert_eq!(there.as_slice().cast::<u8>().unwrap().len(), 0);
        check(
            "cast",
            device.alloc::<u8>(3).unwrap().as_slice().cast::<()>(),
            Kind::BadShape,
            &["3 bytes", "0 bytes"],
        );
    }
}

#[test]
fn elements_are_aligned_as_they_ask() {
    const ALIGN: usize = 1 << 16;
    #[derive(Clone, Copy)]
    #[repr(C, align(65536))]
    struct Wide([u8; ALIGN]);
    // SAFETY: an array of bytes as large as its alignment has no padding, and all bytes are valid.
    unsafe impl Zeroable for Wide {}
    // SAFETY: as above.
    unsafe impl Pod for Wide {}

    let (device, stream) = device();
    let mut odd = Vec::new();
    for _ in 0..10 {
        odd.push((device.alloc::<u8>(1).unwrap(), device.runtime().alloc_host::<u8>(1).unwrap()));
        let host = device.runtime().alloc_host::<Wide>(3).unwrap();
        let empty = device.runtime().alloc_host::<Wide>(0).unwrap();
        let there = device.alloc::<Wide>(3).unwrap();
        for addr in [host.as_ptr() as usize, empty.as_ptr() as usize, there.addr()] {
            assert_eq!(addr % ALIGN, 0, "{addr:#x}");
        }
        stream.write(there.slice(1..2).unwrap(), &[Wide([7; ALIGN])]).unwrap();
        let host = stream.download(host, &there).unwrap().wait().unwrap();
        assert!(host[1].0 == [7; ALIGN]);
    }
}

#[test]
fn casts_keep_the_bytes_or_are_refused() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(12, 1)).unwrap();
    let words = there.as_slice().cast::<u32>().unwrap();
    assert_eq!(bytemuck::cast_slice::<u32, u8>(&stream.read_vec(words).unwrap()), pattern(12, 1));
    check("cast", there.as_slice().cast::<u64>(), Kind::BadShape, &["12 bytes", "8 bytes"]);
    // At an odd address: the CPU reads a copy, so nothing is misaligned.
    let odd = there.slice(1..9).unwrap().cast::<u64>().unwrap();
    assert_eq!(bytemuck::cast_slice::<u64, u8>(&stream.read_vec(odd).unwrap()), &pattern(12, 1)[1..9]);
}
