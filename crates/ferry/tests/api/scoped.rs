//! Scopes: nothing that was lent is in use when `Stream::scope` is over, however it ends.

use crate::{
    blocker::{A_WHILE, block},
    device, pattern, runtime, says,
};
use ferry::{Kind, Result, Stream};
use std::{
    mem::forget,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

const LEN: usize = 5000;

/// Runs `scope` on a thread of its own with the stream held up, and checks that it is not over before the
/// stream goes on. `scope` says when its body is over.
pub fn is_held<R: Send>(stream: &Stream, scope: impl FnOnce(Sender<()>) -> R + Send) -> R {
    thread::scope(|threads| {
        let gate = block(stream);
        let (tell_body, body) = channel();
        let (tell_end, end) = channel();
        let run = threads.spawn(move || {
            let result = scope(tell_body);
            let _ = tell_end.send(());
            result
        });
        // With a limit: a body that panics half-way waits for the gate.
        body.recv_timeout(Duration::from_secs(60)).expect("the body gets to its end");
        assert!(end.recv_timeout(A_WHILE).is_err(), "the scope is over with work in flight");
        gate.unblock();
        run.join().expect("the scope returns")
    })
}

#[test]
fn a_scope_waits_at_its_end() {
    let (device, stream) = device();
    let there = device.alloc::<u8>(LEN).unwrap();
    let host = device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap();
    let mut back = device.runtime().alloc_host::<u8>(LEN).unwrap();
    let number = is_held(&stream, |over| {
        stream.scope(|scope| {
            scope.upload(&there, &host)?;
            scope.download(&mut back, &there)?;
            over.send(()).unwrap();
            Ok(42)
        })
    });
    assert_eq!(number.unwrap(), 42, "what the body returns");
    assert_eq!(back[..], pattern(LEN, 1));
}

#[test]
fn a_scope_waits_though_its_tokens_were_forgotten() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 2)).unwrap();
    let mut back = device.runtime().alloc_host::<u8>(LEN).unwrap();
    is_held(&stream, |over| {
        stream.scope(|scope| {
            forget(scope.download(&mut back, &there)?);
            over.send(()).unwrap();
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(back[..], pattern(LEN, 2));
}

#[test]
fn a_scope_waits_though_its_body_fails() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 3)).unwrap();
    let mut back = device.runtime().alloc_host::<u8>(LEN).unwrap();
    let result: Result<()> = is_held(&stream, |over| {
        stream.scope(|scope| {
            scope.download(&mut back, &there)?;
            over.send(()).unwrap();
            Err(Kind::Unsupported.because("what the body says"))
        })
    });
    says(&result.unwrap_err(), Kind::Unsupported, &["what the body says"]);
    assert_eq!(back[..], pattern(LEN, 3));
    stream.synchronize().unwrap();
}

#[test]
fn a_scope_waits_though_its_body_panics() {
    for with_a_call in [false, true] {
        let (device, stream) = device();
        let there = device.alloc_from(&pattern(LEN, 4)).unwrap();
        let mut back = device.runtime().alloc_host::<u8>(LEN).unwrap();
        let mut called = false;
        let panicked = is_held(&stream, |over| {
            catch_unwind(AssertUnwindSafe(|| {
                stream.scope(|scope| -> Result<()> {
                    scope.download(&mut back, &there)?;
                    if with_a_call {
                        scope.call(|| called = true)?;
                    }
                    over.send(()).unwrap();
                    panic!("in the body of a scope")
                })
            }))
        });
        assert!(panicked.is_err());
        assert_eq!(back[..], pattern(LEN, 4));
        assert_eq!(called, with_a_call);
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_token_gives_its_borrow_back_before_the_scope_ends() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 5)).unwrap();
    let mut host = device.runtime().alloc_host::<u8>(LEN).unwrap();
    stream
        .scope(|scope| {
            let host = scope.download(&mut host, &there)?.wait()?;
            assert_eq!(host[..], pattern(LEN, 5));
            host.fill(1);
            let token = scope.upload(&there, host)?;
            let host = scope.download(token, &there)?.wait()?;
            assert_eq!(host[..], [1; LEN]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_refused_copy_leaves_the_scope_as_it_was() {
    let (device, stream) = device();
    let there = device.alloc::<u8>(LEN).unwrap();
    let mut host = device.runtime().alloc_host_from(&pattern(LEN, 6)).unwrap();
    stream
        .scope(|scope| {
            let failed = scope.download(host.slice_mut(1..)?, &there).unwrap_err();
            says(&failed.error, Kind::BadShape, &["4999", "5000"]);
            let host = failed.buffer;
            assert_eq!(host[..], pattern(LEN, 6)[1..]);
            scope.upload(there.slice(1..)?, host)?;
            Ok(())
        })
        .unwrap();
    assert_eq!(stream.read_vec(there.slice(1..).unwrap()).unwrap(), pattern(LEN, 6)[1..]);
}

#[test]
fn scopes_of_two_streams_nest() {
    let (device, outer) = device();
    let inner = device.stream().unwrap();
    let (a, b) = (device.alloc_from(&pattern(LEN, 7)).unwrap(), device.alloc_zeroed::<u8>(LEN).unwrap());
    let mut far = device.runtime().alloc_host::<u8>(LEN).unwrap();
    let mut near = device.runtime().alloc_host::<u8>(LEN).unwrap();
    is_held(&outer, |over| {
        outer.scope(|lent| {
            let token = lent.download(&mut far, &a)?;
            // The inner scope ends though the outer stream stands still.
            inner.scope(|scope| {
                scope.download(&mut near, &a)?;
                Ok(())
            })?;
            assert_eq!(near[..], pattern(LEN, 7));
            over.send(()).unwrap();
            // The inner stream takes the outer's token over, and waits for it.
            inner.scope(|scope| {
                scope.upload(&b, token)?;
                Ok(())
            })
        })
    })
    .unwrap();
    assert_eq!(far[..], pattern(LEN, 7));
    assert_eq!(inner.read_vec(&b).unwrap(), pattern(LEN, 7));
}

/// The wait of the inner stream for the outer one is dropped: the borrow still belongs to the outer scope.
#[test]
fn an_abort_of_the_inner_stream_does_not_end_the_outer_borrow() {
    let (device, outer) = device();
    let inner = device.stream().unwrap();
    let (a, b) = (device.alloc_from(&pattern(LEN, 8)).unwrap(), device.alloc_zeroed::<u8>(LEN).unwrap());
    let mut far = device.runtime().alloc_host::<u8>(LEN).unwrap();
    let seen = is_held(&outer, |over| {
        outer.scope(|lent| {
            let token = lent.download(&mut far, &a)?;
            let token = inner.scope(|scope| {
                let token = scope.upload(&b, token)?;
                inner.abort();
                Ok(token)
            });
            says(&token.as_ref().unwrap_err().clone(), Kind::Aborted, &[]);
            over.send(()).unwrap();
            Ok(token.is_err())
        })
    });
    assert!(seen.unwrap());
    assert_eq!(far[..], pattern(LEN, 8));
    assert_eq!(inner.read_vec(&b).unwrap(), vec![0; LEN]);
}

#[test]
fn chunks_are_in_flight_on_several_streams() {
    let (device, first) = device();
    let (second, third) = (device.stream().unwrap(), device.stream().unwrap());
    let there = device.alloc_from(&pattern(30 * 100, 9)).unwrap();
    let mut host = device.runtime().alloc_host::<u8>(30 * 100).unwrap();
    let chunks = host.chunks_mut(100);
    first
        .scope(|a| {
            second.scope(|b| {
                third.scope(|c| {
                    for (index, chunk) in chunks.enumerate() {
                        let from = there.slice(100 * index..100 * (index + 1))?;
                        match index % 3 {
                            0 => drop(a.download(chunk, from)?),
                            1 => drop(b.download(chunk, from)?),
                            _ => drop(c.download(chunk, from)?),
                        }
                    }
                    Ok(())
                })
            })
        })
        .unwrap();
    assert_eq!(host[..], pattern(30 * 100, 9));
}

#[test]
fn matrices_and_batches_are_lent() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(64, 10)).unwrap();
    let mut host = device.runtime().alloc_host::<u8>(64).unwrap();
    is_held(&stream, |over| {
        stream.scope(|scope| {
            let (top, rest) = host.split_at_mut(32)?;
            scope.download(top.matrix_pitched_mut(4, 4, 8)?, there.slice(..16)?)?;
            let mut batch = ferry::Batch::new(rest.chunks_mut(8).collect::<Vec<_>>());
            batch.push(there.slice(..8)?, (3, 0..8))?;
            batch.push(there.slice(8..10)?, (0, 6..8))?;
            scope.download_batch(batch)?;
            over.send(()).unwrap();
            Ok(())
        })
    })
    .unwrap();
    let bytes = pattern(64, 10);
    let mut want = vec![0; 64];
    for row in 0..4 {
        want[8 * row..8 * row + 4].copy_from_slice(&bytes[4 * row..4 * row + 4]);
    }
    want[56..].copy_from_slice(&bytes[..8]);
    want[38..40].copy_from_slice(&bytes[8..10]);
    assert_eq!(host[..], want);
}

#[test]
fn several_threads_use_one_scope() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 11)).unwrap();
    let mut host = device.runtime().alloc_host::<u8>(LEN).unwrap();
    is_held(&stream, |over| {
        stream.scope(|scope| {
            thread::scope(|threads| {
                for (index, chunk) in host.chunks_mut(LEN / 4).enumerate() {
                    let range = index * LEN / 4..(index + 1) * LEN / 4;
                    let from = there.slice(range).unwrap();
                    threads.spawn(move || drop(scope.download(chunk, from).unwrap()));
                }
            });
            over.send(()).unwrap();
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(host[..], pattern(LEN, 11));
}

#[test]
fn memory_of_another_runtime_cannot_be_lent() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(8).unwrap();
    let mut stranger = runtime().alloc_host_from(b"stranger").unwrap();
    stream
        .scope(|scope| {
            let failed = scope.upload(&there, &*stranger).unwrap_err();
            says(&failed.error, Kind::BadRoute, &["another runtime"]);
            let failed = scope.upload(&there, stranger.matrix(2, 4)?).unwrap_err();
            says(&failed.error, Kind::BadRoute, &["another runtime"]);
            Ok(())
        })
        .unwrap();
    stream
        .scope(|scope| {
            let failed = scope.download(&mut stranger, &there).unwrap_err();
            says(&failed.error, Kind::BadRoute, &["another runtime"]);
            Ok(())
        })
        .unwrap();
    assert_eq!(stranger[..], *b"stranger");
    assert_eq!(stream.read_vec(&there).unwrap(), [0; 8]);
}
