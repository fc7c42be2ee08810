//! Copies that borrow their buffer from a scope.

use crate::{Set, set};
use ferry::{Batch, Result};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

#[test]
fn scoped_destination_read() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        let host = scope.download(&mut host, &there)?.wait()?;
        assert_eq!(host[0], 1);
        Ok(())
    })
}

#[test]
fn scoped_source_written() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        scope.upload(&there, &host)?;
        Ok(())
    })?;
    host[0] = 1;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn scoped_buffer_freed() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    stream.scope(|scope| {
        scope.upload(&there, &host)?;
        Ok(())
    })?;
    drop(host);
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn scoped_buffer_replaced() -> Result<()> {
    let Set { stream, there, mut host, device } = set()?;
    stream.scope(|scope| {
        scope.upload(&there, &host)?;
        Ok(())
    })?;
    host = device.runtime().alloc_host_from(&[5])?;
    assert_eq!(host[..], [5]);
    Ok(())
}

#[test]
fn scoped_buffer_swapped() -> Result<()> {
    let Set { stream, there, mut host, device } = set()?;
    let mut other = device.runtime().alloc_host_from(&[5])?;
    stream.scope(|scope| {
        scope.download(&mut host, &there)?;
        Ok(())
    })?;
    std::mem::swap(&mut host, &mut other);
    assert_eq!((host[0], other[0]), (5, 1));
    Ok(())
}

#[test]
fn scoped_buffer_given_away() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        scope.download(&mut host, &there)?;
        Ok(())
    })?;
    assert_eq!(std::thread::spawn(move || host[0]).join().ok(), Some(1));
    Ok(())
}

#[test]
fn scoped_two_downloads() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let (left, right) = host.split_at_mut(2)?;
    stream.scope(|scope| {
        scope.download(left, there.slice(..2)?)?;
        scope.download(right, there.slice(..2)?)?;
        Ok(())
    })?;
    assert_eq!(host[..], [1, 2, 1, 2]);
    Ok(())
}

#[test]
fn scoped_upload_and_download() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        let token = scope.upload(&there, &mut host)?;
        scope.download(token, &there)?;
        Ok(())
    })?;
    assert_eq!(host[..], [0; 4]);
    Ok(())
}

#[test]
fn scoped_local_buffer() -> Result<()> {
    let Set { stream, there, .. } = set()?;
    stream.scope(|scope| {
        let host = stream.device().runtime().alloc_host::<u8>(4)?;
        scope.upload(&there, host)?;
        Ok(())
    })?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn scoped_local_batch() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        let mut batch = Batch::new(&mut host);
        batch.push(&there, 0..4)?;
        scope.download_batch(batch)?;
        Ok(())
    })?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn scoped_token_outlives_buffer() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let token = stream.scope(|scope| Ok(scope.download(&mut host, &there)?))?;
    assert_eq!(token.wait()?[0], 1);
    drop(host);
    Ok(())
}

#[test]
fn scope_escapes() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let mut kept = None;
    stream.scope(|scope| {
        kept = Some(scope.stream().clone());
        Ok(())
    })?;
    if let Some(stream) = kept {
        host = stream.download(host, &there)?.wait()?;
    }
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn scope_escapes_to_a_thread() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    stream.scope(|scope| {
        let sent = std::thread::scope(|threads| threads.spawn(|| scope.upload(&there, &host).is_ok()).join());
        assert_eq!(sent.ok(), Some(true));
        Ok(())
    })
}

#[test]
fn scope_with_async_body() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        scope.download(&mut host, &there)?;
        Ok(())
    })?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn scope_kept_by_a_future() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let host = &mut host;
    let early = stream.scope(|scope| Ok(scope.download(host, &there).is_ok()))?;
    assert!(early);
    Ok(())
}

#[test]
fn scope_with_await() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        scope.download(&mut host, &there)?.wait()?;
        Ok(())
    })
}

#[test]
fn scoped_function_writes_source() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        let lent = scope.upload(&there, &mut host)?.wait()?;
        scope.call(|| lent[0] = 1)
    })?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn scoped_function_borrows_local() -> Result<()> {
    let Set { stream, .. } = set()?;
    let mut done = false;
    let lent = &mut done;
    stream.scope(|scope| scope.call(move || *lent = true))?;
    assert!(done);
    Ok(())
}

#[test]
fn scoped_function_not_send() -> Result<()> {
    let Set { stream, .. } = set()?;
    let count = Arc::new(AtomicU32::new(0));
    stream.scope(|scope| scope.call(|| count.store(1, Ordering::Relaxed)))?;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn scoped_destination_only_read() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    stream.scope(|scope| {
        scope.download(&mut *host, &there)?;
        Ok(())
    })?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn scoped_matrix_only_read() -> Result<()> {
    let Set { stream, there, mut host, .. } = set()?;
    let matrix = host.matrix_mut(2, 2)?;
    stream.scope(|scope| {
        scope.download(matrix, &there)?;
        Ok(())
    })?;
    assert_eq!(host[0], 1);
    Ok(())
}

#[test]
fn scoped_local_lent_to_outer_scope() -> Result<()> {
    let Set { device, stream, there, host } = set()?;
    let other = device.stream()?;
    stream.scope(|outer| {
        other.scope(|_inner| {
            outer.upload(&there, &host)?;
            Ok(())
        })
    })?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn scoped_function_lends_local() -> Result<()> {
    let Set { stream, there, host, .. } = set()?;
    let (lent, to) = (&host, &there);
    stream.scope(|scope| scope.call(move || scope.upload(to, lent).map(drop).expect("a copy")))?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}
