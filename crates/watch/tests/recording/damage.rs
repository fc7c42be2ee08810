//! Files that are cut or changed.

use super::facts::any_facts;
use super::program::{Program, file_of};
use ferry_watch::recording::{Recording, read};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

/// A file of several frames.
fn sample() -> Vec<u8> {
    let mut program = Program::new();
    let streams = [program.stream(0), program.stream(1)];
    program.block(0x1000, 4096, Some(0));
    for round in 0..20 {
        let copy = program.copy(streams[round % 2], 0x1000, 0x9000_0000 + round as u64 * 8, 64);
        program.pass(copy, round as u64, round as u64);
    }
    program.file()
}

/// Whether one recording is the beginning of another.
fn begins(part: &Recording, whole: &Recording) -> bool {
    let same = part.ops.iter().zip(&whole.ops).all(|(one, other)| one.point == other.point);
    same && part.ops.len() <= whole.ops.len() && part.steps.len() <= whole.steps.len()
}

#[test]
fn a_file_that_is_cut_is_read_up_to_there() {
    let file = sample();
    let whole = read(&file).expect("whole").recording;
    let mut most = 0;
    for len in 0..file.len() {
        match read(&file[..len]) {
            Err(why) => assert!(len < 16, "{len} bytes: {why}"),
            Ok(part) => {
                assert!(len >= 16);
                let damage = part.damage.expect("a cut file says so");
                assert!(damage.contains(&format!("of {len}")), "{damage}");
                assert!(begins(&part.recording, &whole), "{len} bytes");
                assert!(part.recording.ops.len() >= most, "more bytes never give less");
                most = part.recording.ops.len();
            }
        }
    }
    assert_eq!(most, whole.ops.len(), "all but the end mark is there");
}

#[test]
fn a_byte_that_is_changed_is_noticed() {
    let file = sample();
    let whole = read(&file).expect("whole").recording;
    for at in 0..file.len() {
        let mut bent = file.clone();
        bent[at] ^= 1 << (at % 8);
        match read(&bent) {
            Err(why) => assert!(at < 16, "byte {at}: {why}"),
            Ok(part) => {
                assert!(part.damage.is_some(), "byte {at}");
                assert!(begins(&part.recording, &whole), "byte {at}");
            }
        }
    }
}

#[test]
fn other_files_and_versions_are_refused_by_name() {
    let refusal = |bytes: &[u8]| read(bytes).expect_err("a refusal");
    assert!(refusal(b"\x7fELF and so on, longer than a header").contains("no recording"));
    assert!(refusal(b"").contains("no recording"));
    let mut newer = sample();
    newer[8] = 2;
    let why = refusal(&newer);
    assert!(why.contains("version 2") && why.contains("version 1"), "{why}");
    let mut longer = sample();
    longer.push(0);
    let damage = read(&longer).expect("readable").damage.expect("something follows");
    assert!(damage.contains("1 bytes follow"), "{damage}");
}

/// Frames that are whole but hold nonsense: each byte of records is changed before the checksum is made.
#[test]
fn records_that_make_no_sense_are_no_panic() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..3 {
        let facts = any_facts().new_tree(&mut runner).expect("facts").current();
        let file = file_of(&facts);
        for (at, records) in frames(&file) {
            for index in 0..records.len() {
                for value in [0, 0xff, records[index].wrapping_add(1)] {
                    let mut bent = records.clone();
                    bent[index] = value;
                    let mut file = file[..at].to_vec();
                    put_frame(&mut file, &bent);
                    put_frame(&mut file, &[]);
                    // Either is right; what it must not do is panic or take all memory.
                    let _ = read(&file).map(|loaded| loaded.recording.duration());
                }
            }
        }
    }
}

/// The frames of a file, unpacked, and where each begins.
fn frames(file: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes")) as usize;
    let mut frames = Vec::new();
    let mut at = 16;
    while word(at) > 0 {
        let payload = &file[at + 16..at + 16 + word(at)];
        frames.push((
            at,
            match word(at) == word(at + 4) {
                true => payload.to_vec(),
                false => lz4_flex::block::decompress(payload, word(at + 4)).expect("packed"),
            },
        ));
        at += 16 + word(at);
    }
    frames
}

/// Appends a frame that is not packed.
fn put_frame(file: &mut Vec<u8>, records: &[u8]) {
    let len = (records.len() as u32).to_le_bytes();
    let frame = [&len[..], &len, records].concat();
    file.extend_from_slice(&frame[..8]);
    file.extend_from_slice(&ferry_watch::ContentHasher::hash(&frame).to_le_bytes());
    file.extend_from_slice(records);
}
