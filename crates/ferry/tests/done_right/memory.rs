//! Elements, views, and which memory goes where.

use crate::{Set, set};
use bytemuck::{Pod, Zeroable};
use ferry::{Batch, HostRead, Result};

#[test]
fn plain_slice_uploaded() -> Result<()> {
    let Set { stream, there, .. } = set()?;
    let words = [7_u8; 4];
    stream.write(&there, &words[..])?;
    assert_eq!(stream.read_vec(&there)?, words);
    Ok(())
}

#[test]
fn plain_vector_downloaded() -> Result<()> {
    let Set { stream, there, .. } = set()?;
    let mut words = vec![0_u8; 4];
    stream.read(&mut words, &there)?;
    assert_eq!(words, [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn plain_memory_made_page_locked() -> Result<()> {
    let Set { device, stream, there, .. } = set()?;
    let words = device.runtime().alloc_host_from(&[7_u8; 4])?;
    stream.scope(|scope| {
        scope.upload(&there, words.slice(..)?)?;
        Ok(())
    })?;
    assert_eq!(stream.read_vec(&there)?, [7; 4]);
    Ok(())
}

#[test]
fn ends_swapped() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    stream.upload(&there, host)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn element_types_differ() -> Result<()> {
    let Set { device, stream, there, .. } = set()?;
    let numbers = device.runtime().alloc_host::<f32>(1)?;
    stream.upload(there.as_slice().cast::<f32>()?, numbers)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn batch_element_types_differ() -> Result<()> {
    let Set { device, stream, there, .. } = set()?;
    let mut batch = Batch::new(device.runtime().alloc_host::<f32>(1)?);
    batch.push(there.as_slice().cast::<f32>()?, 0..1)?;
    stream.upload_batch(batch)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Dense {
    small: u8,
    none: [u8; 3],
    large: u32,
}

// SAFETY: all bytes of 0 are one.
unsafe impl Zeroable for Dense {}
// SAFETY: integers without padding between them.
unsafe impl Pod for Dense {}

#[test]
fn element_reference() -> Result<()> {
    let Set { device, .. } = set()?;
    assert_eq!(device.runtime().alloc_host::<Dense>(4)?[3].small, 0);
    Ok(())
}

#[test]
fn element_bool() -> Result<()> {
    let Set { device, .. } = set()?;
    let flags = device.runtime().alloc_host::<u8>(4)?;
    assert!(flags.iter().all(|flag| *flag == 0));
    Ok(())
}

#[test]
fn element_vector() -> Result<()> {
    let Set { device, .. } = set()?;
    assert_eq!(device.alloc::<[u8; 8]>(4)?.len(), 4);
    Ok(())
}

#[test]
fn element_with_padding() -> Result<()> {
    let Set { device, stream, .. } = set()?;
    let there = device.alloc_from(&[Dense { small: 1, none: [0; 3], large: 2 }])?;
    let back = stream.read_vec(&there)?;
    assert_eq!((back[0].small, back[0].none, back[0].large), (1, [0; 3], 2));
    Ok(())
}

#[test]
fn fill_with_eight_bytes() -> Result<()> {
    let Set { device, stream, .. } = set()?;
    let there = device.alloc::<u32>(4)?;
    stream.fill(&there, 1_u32)?;
    assert_eq!(stream.read_vec(&there)?, [1; 4]);
    Ok(())
}

#[test]
fn two_mutable_views() -> Result<()> {
    let Set { mut host, .. } = set()?;
    let (left, right) = host.split_at_mut(2)?;
    right[0] = 9;
    left[0] = right[0];
    assert_eq!(host[..], [9, 0, 9, 0]);
    Ok(())
}

#[test]
fn matrix_and_slice() -> Result<()> {
    let Set { mut host, .. } = set()?;
    host[1] = 9;
    let second = host.slice(..2)?[1];
    let mut matrix = host.matrix_mut(2, 2)?;
    matrix.row_mut(0).expect("there are two")[0] = second;
    assert_eq!(host[0], 9);
    Ok(())
}

#[test]
fn device_view_after_free() -> Result<()> {
    let Set { stream, there, .. } = set()?;
    let part = there.slice(..2)?;
    stream.fill(part, 1)?;
    drop(there);
    stream.synchronize()
}

#[test]
fn device_buffer_after_free() -> Result<()> {
    let Set { stream, there, .. } = set()?;
    let other = there.clone();
    drop(there);
    assert_eq!(stream.read_vec(&other)?, [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn host_view_after_free() -> Result<()> {
    let Set { host, .. } = set()?;
    let part = host.slice(..2)?;
    assert_eq!(part[0], 0);
    drop(host);
    Ok(())
}

#[test]
fn batch_device_freed() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let mut batch = Batch::new(host);
    batch.push(&there, 0..4)?;
    let token = stream.upload_batch(batch)?;
    drop(there);
    token.wait()?;
    Ok(())
}

#[test]
fn memory_implemented_outside() -> Result<()> {
    fn is_page_locked(_: &impl HostRead) {}
    is_page_locked(&set()?.host);
    Ok(())
}

#[test]
fn hidden_method_called() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let host = stream.download(host, &there)?.wait()?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn batch_of_overlapping_views() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let (left, right) = host.split_at_mut(3)?;
    let mut batch = Batch::new(vec![left, right]);
    batch.push(there.slice(1..)?, (0, 0..3))?;
    batch.push(there.slice(..1)?, (1, 0..1))?;
    stream.scope(|scope| Ok(scope.download_batch(batch).map(drop)?))?;
    assert_eq!(host[..], [2, 3, 4, 1]);
    Ok(())
}

#[test]
fn batch_of_shared_as_destination() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let mut batch = Batch::new(vec![host]);
    batch.push(&there, (0, 0..4))?;
    let shared = stream.download_batch(batch)?.wait()?.remove(0).share();
    assert_eq!(shared[..], [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn matrix_cut_twice() -> Result<()> {
    let Set { mut host, .. } = set()?;
    let left = host.matrix_mut(2, 2)?.rect(.., ..1)?;
    assert_eq!(left.cols(), 1);
    let right = host.matrix_mut(2, 2)?.rect(.., 1..)?;
    assert_eq!(right.cols(), 1);
    Ok(())
}

#[test]
fn descriptor_written() -> Result<()> {
    let Set { stream, there, .. } = set()?;
    let device = stream.device();
    let (descriptor, to) = (device.descriptor()?, device.alloc::<u8>(there.len())?);
    stream.set_descriptor(&descriptor, &to, &there)?;
    stream.run(&descriptor)?;
    assert_eq!(stream.read_vec(&to)?, stream.read_vec(&there)?);
    Ok(())
}
