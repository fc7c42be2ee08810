//! Two runtimes know nothing of each other: memory of one is refused by the streams of the other, events
//! work.

use crate::{blocker::block, device, error, pattern, says};
use ferry::{Batch, Device, Kind, Stream};

const LEN: usize = 100;
const REFUSED: &[&str] = &["another runtime"];

fn two() -> [(Device, Stream); 2] {
    [device(), device()]
}

#[test]
fn memory_of_another_runtime_is_refused_and_comes_back_unchanged() {
    let [(ours, stream), (theirs, their_stream)] = two();
    let (near, far) =
        (ours.alloc_from(&pattern(LEN, 1)).unwrap(), theirs.alloc_from(&pattern(LEN, 2)).unwrap());

    let host = ours.runtime().alloc_host_from(&pattern(LEN, 3)).unwrap();
    let failed = stream.upload(&far, host).unwrap_err();
    says(&failed.error, Kind::BadRoute, REFUSED);
    let failed = stream.download(failed.buffer, &far).unwrap_err();
    says(&failed.error, Kind::BadRoute, REFUSED);
    assert_eq!(failed.buffer[..], pattern(LEN, 3));

    let host = theirs.runtime().alloc_host_from(&pattern(LEN, 4)).unwrap();
    let failed = stream.upload(&near, host).unwrap_err();
    says(&failed.error, Kind::BadRoute, REFUSED);
    let failed = stream.download(failed.buffer, &near).unwrap_err();
    says(&failed.error, Kind::BadRoute, REFUSED);
    let failed =
        stream.upload(near.slice(..10).unwrap(), failed.buffer.into_slice(..10).unwrap()).unwrap_err();
    says(&failed.error, Kind::BadRoute, REFUSED);
    let host = failed.buffer.into_inner();
    assert_eq!(host[..], pattern(LEN, 4));
    says(&error(stream.upload(&near, host.share())), Kind::BadRoute, REFUSED);

    for result in [
        stream.copy(&near, &far),
        stream.copy(&far, &near),
        stream.fill(&far, 0),
        stream.fill_bytes(far.matrix(10, 10).unwrap(), 0),
        stream.write(&far, &[0; LEN]),
        stream.write_staged(&far, &[0; LEN]),
        stream.read(&mut [0; LEN], &far),
        stream.read_vec(&far).map(drop),
    ] {
        says(&result.unwrap_err(), Kind::BadRoute, REFUSED);
    }
    assert_eq!(stream.read_vec(&near).unwrap(), pattern(LEN, 1));
    assert_eq!(their_stream.read_vec(&far).unwrap(), pattern(LEN, 2));
}

#[test]
fn batches_of_another_runtime_are_refused() {
    let [(ours, stream), (theirs, _)] = two();
    let (near, far) = (ours.alloc_from(&pattern(LEN, 1)).unwrap(), theirs.alloc::<u8>(LEN).unwrap());
    let their_host = || theirs.runtime().alloc_host_from(&pattern(LEN, 2)).unwrap();
    let our_host = || ours.runtime().alloc_host_from(&pattern(LEN, 3)).unwrap();

    for (host, there) in [(their_host(), &near), (our_host(), &far), (their_host(), &far)] {
        let before = host.to_vec();
        let mut batch = Batch::new(host);
        batch.push(there, 0..LEN).unwrap();
        let failed = stream.upload_batch(batch).unwrap_err();
        says(&failed.error, Kind::BadRoute, REFUSED);
        let failed = stream.download_batch(failed.buffer).unwrap_err();
        says(&failed.error, Kind::BadRoute, REFUSED);
        assert_eq!(failed.into_host()[..], before);
    }
    let mut mixed = Batch::new(vec![our_host(), their_host()]);
    mixed.push(near.slice(..10).unwrap(), (0, 0..10)).unwrap();
    says(&error(mixed.push(near.slice(..10).unwrap(), (1, 0..10))), Kind::BadRoute, REFUSED);
    says(&error(mixed.push(far.slice(..10).unwrap(), (0, 0..10))), Kind::BadRoute, REFUSED);
    stream.upload_batch(mixed).unwrap().wait().expect("what was refused is not in it");
    assert_eq!(stream.read_vec(near.slice(..10).unwrap()).unwrap(), pattern(LEN, 3)[..10]);
}

/// Borrowed memory does not say whose it is: the engine finds that it does not know it.
#[test]
fn borrowed_pieces_of_another_runtime_are_refused() {
    let [(ours, stream), (theirs, _)] = two();
    let near = ours.alloc_from(&pattern(LEN, 1)).unwrap();
    let mut host = theirs.runtime().alloc_host_from(&pattern(LEN, 2)).unwrap();
    stream
        .scope(|scope| {
            let mut batch = Batch::new(vec![&mut host]);
            batch.push(&near, (0, 0..LEN))?;
            let failed = scope.upload_batch(batch).unwrap_err();
            says(&failed.error, Kind::BadRoute, REFUSED);
            says(&error(scope.download_batch(failed.buffer)), Kind::BadRoute, REFUSED);
            Ok(())
        })
        .unwrap();
    assert_eq!(host[..], pattern(LEN, 2));
    assert_eq!(stream.read_vec(&near).unwrap(), pattern(LEN, 1));
}

#[test]
fn tokens_of_another_runtime_are_refused_and_stay_in_flight() {
    let [(ours, stream), (theirs, their_stream)] = two();
    let (near, far) = (ours.alloc::<u8>(LEN).unwrap(), theirs.alloc::<u8>(LEN).unwrap());
    let gate = block(&their_stream);
    let token =
        their_stream.upload(&far, theirs.runtime().alloc_host_from(&pattern(LEN, 5)).unwrap()).unwrap();
    let failed = stream.upload(&near, token).unwrap_err();
    says(&failed.error, Kind::BadRoute, REFUSED);
    assert!(!failed.buffer.is_done(), "the token came back, as it was");
    gate.unblock();
    assert_eq!(failed.buffer.wait().unwrap()[..], pattern(LEN, 5));
    assert_eq!(their_stream.read_vec(&far).unwrap(), pattern(LEN, 5));
    assert!(stream.is_idle());
}

#[test]
fn descriptors_of_another_runtime_are_refused() {
    let [(ours, stream), (theirs, _)] = two();
    let (near, far) = (ours.alloc::<u8>(LEN).unwrap(), theirs.alloc::<u8>(LEN).unwrap());
    let descriptor = theirs.descriptor().unwrap();
    says(&descriptor.set(&near, &far).unwrap_err(), Kind::BadRoute, &["destination", "another runtime"]);
    says(&descriptor.set(&far, &near).unwrap_err(), Kind::BadRoute, &["source", "another runtime"]);
    says(&stream.run(&descriptor).unwrap_err(), Kind::BadRoute, REFUSED);
    says(&stream.set_descriptor(&descriptor, &near, &near).unwrap_err(), Kind::BadRoute, REFUSED);
    says(&stream.set_descriptor(&descriptor, &far, &far).unwrap_err(), Kind::BadRoute, REFUSED);
}

#[test]
fn events_of_another_runtime_are_waited_for() {
    let [(ours, stream), (theirs, their_stream)] = two();
    let (near, far) = (ours.alloc_zeroed::<u8>(LEN).unwrap(), theirs.alloc_zeroed::<u8>(LEN).unwrap());
    let gate = block(&their_stream);
    their_stream.fill(&far, 1).unwrap();
    let event = their_stream.record().unwrap();
    stream.wait_for(&event).unwrap();
    stream.fill(&near, 1).unwrap();
    assert!(!stream.is_idle());
    // The other runtime goes, with its work queued.
    drop((theirs, their_stream, far));
    gate.unblock();
    stream.synchronize().unwrap();
    assert!(event.is_done());
    assert_eq!(stream.read_vec(&near).unwrap(), [1; LEN]);
}
