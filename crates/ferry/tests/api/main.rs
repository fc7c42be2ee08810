//! What the API promises when a program runs, as far as types cannot: what happens to memory whose token is
//! dropped, forgotten or sent away, to scopes that fail or panic, and to arguments that make no sense. Copies
//! are held in flight by a function in their stream that blocks it, so no test depends on how fast anything
//! is.

mod aborts;
mod blocker;
mod chains;
mod copies;
mod descriptors;
mod foreign;
mod graphs;
mod limits;
mod owned;
mod reuse;
mod scoped;
mod scoped_calls;
mod shapes;
mod threads;
mod tokens;
mod told;

use ferry::{Device, Error, Kind, Options, Result, Runtime, Stream};

/// What the environment asks for: another backend, say.
pub fn options() -> Options {
    Options::from_env().expect("settings that make sense")
}

/// Two devices of 64 MiB.
pub fn runtime() -> Runtime {
    Runtime::open(&Options { devices: Some(2), device_memory: Some(64 << 20), ..options() })
        .expect("devices of memory")
}

/// The first device of a new runtime, and a stream of it.
pub fn device() -> (Device, Stream) {
    let device = runtime().device(0).expect("there are two");
    let stream = device.stream().expect("the first stream");
    (device, stream)
}

/// Bytes that differ from those of other seeds, and from their neighbours.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ seed).collect()
}

/// Checks the kind of an error, and that its note says each of the words.
#[track_caller]
pub fn says(error: &Error, kind: Kind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.note.contains(word), "'{word}' is not in '{error}'");
    }
}

/// The error of what must fail.
#[track_caller]
pub fn error<T>(result: Result<T, impl Into<Error>>) -> Error {
    result.err().expect("this must fail").into()
}
