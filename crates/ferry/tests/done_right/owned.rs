//! Copies that own their buffer.

use crate::{Set, set};
use ferry::{Batch, HostBuffer, InFlight, Result};

#[test]
fn owned_destination_read() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let host = stream.download(host, &there)?.wait()?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn owned_source_written() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let mut host = stream.upload(&there, host)?.wait()?;
    host[0] = 1;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn owned_buffer_freed() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let host = stream.upload(&there, host)?.wait()?;
    drop(host);
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn owned_buffer_in_two_copies() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let first = stream.upload(&there, host)?;
    let second = stream.download(first, &there)?;
    assert_eq!(second.wait()?[..], [0; 4]);
    Ok(())
}

#[test]
fn owned_buffer_seen_by_old_view() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let host = stream.download(host, &there)?.wait()?;
    let view = host.slice(..2)?;
    assert_eq!(view[0], 1);
    Ok(())
}

#[test]
fn owned_buffer_written_by_old_view() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let view = host.slice_mut(..2)?;
    view[0] = 9;
    stream.upload(&there, host)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [9, 0, 0, 0]);
    Ok(())
}

#[test]
fn owned_part_read() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let part = stream.download(host.into_slice(..2)?, there.slice(..2)?)?.wait()?;
    assert_eq!(part.into_inner()[..], [1, 2, 0, 0]);
    Ok(())
}

#[test]
fn owned_batch_read() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let mut batch = Batch::new(host);
    batch.push(&there, 0..4)?;
    let host = stream.download_batch(batch)?.wait()?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn token_read_as_buffer() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let token = stream.download(host, &there)?;
    assert_eq!(token.wait()?[0], 1);
    Ok(())
}

#[test]
fn token_opened() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let token = stream.download(host, &there)?;
    let host = token.wait()?;
    assert_eq!(format!("{host:?}"), "[1, 2, 3, 4]");
    Ok(())
}

#[test]
fn token_part_read() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let token = stream.download(host.into_slice(..2)?, there.slice(..2)?)?.into_inner();
    assert_eq!(token.wait()?[3], 0);
    Ok(())
}

#[test]
fn token_used_after_wait() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let host = stream.download(host, &there)?.wait()?;
    let host = stream.download(host, &there)?.wait()?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn token_in_two_copies() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let token = stream.download(host, &there)?;
    let first = stream.upload(&there, token)?;
    let second = stream.download(first, &there)?;
    assert_eq!(second.wait()?[0], 1);
    Ok(())
}

#[test]
fn token_cloned() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let first = stream.upload(&there, host.share())?.wait()?;
    let second = first.clone();
    assert_eq!(first[..], second[..]);
    Ok(())
}

#[test]
fn token_made_up() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let token: InFlight<HostBuffer<u8>> = stream.download(host, &there)?;
    assert_eq!(token.wait()?[0], 1);
    Ok(())
}

#[test]
fn shared_buffer_written() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    host[0] = 9;
    let shared = host.share();
    let token = stream.upload(&there, shared.clone())?;
    assert_eq!(shared[0], 9);
    token.wait()?;
    Ok(())
}

#[test]
fn shared_buffer_as_destination() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let shared = stream.download(host, &there)?.wait()?.share();
    assert_eq!(shared[0], 1);
    Ok(())
}

#[test]
fn borrow_for_upload() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    stream.scope(|scope| {
        scope.upload(&there, &host)?;
        Ok(())
    })?;
    assert_eq!(stream.read_vec(&there)?, host[..]);
    Ok(())
}

#[test]
fn borrow_for_download() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let part = host.slice_mut(..)?;
    stream.scope(|scope| {
        scope.download(part, &there)?;
        Ok(())
    })?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn borrow_for_batch() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let mut batch = Batch::new(&host);
    batch.push(&there, 0..4)?;
    stream.scope(|scope| {
        scope.upload_batch(batch)?;
        Ok(())
    })?;
    assert_eq!(stream.read_vec(&there)?, host[..]);
    Ok(())
}

#[test]
fn function_borrows() -> Result<()> {
    let Set { stream, mut host, .. } = set()?;
    let view = &mut host;
    stream.scope(|scope| scope.call(move || view[0] = 1))?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn function_not_send() -> Result<()> {
    let Set { stream, .. } = set()?;
    let count = std::sync::Arc::new(1);
    let (tell, hear) = std::sync::mpsc::channel();
    stream.call(move || tell.send(*count).expect("somebody listens"))?;
    assert_eq!(hear.recv(), Ok(1));
    Ok(())
}

#[test]
fn shared_token_as_destination() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let token = stream.upload(&there, host)?;
    assert_eq!(stream.download(token, &there)?.wait()?[..], [0; 4]);
    Ok(())
}
