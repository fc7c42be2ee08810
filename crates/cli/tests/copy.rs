//! `ferry copy`, run as a person would: files, pipes, and everything that can be wrong with them.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use command::{ferry, output, text};

mod command;

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copy").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// Bytes without a pattern that a lost or doubled chunk would fit into; the same each time.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_file_arrives_as_it_was_whatever_its_size_and_the_chunks() {
    let folder = folder("sizes");
    let (src, dst) = (folder.join("src"), folder.join("dst"));
    for size in [0, 1, 4095, 65_535, 65_536, 65_537, 3 * 65_536, 11 * 65_536 + 123, 9_000_001] {
        let bytes = noise(size);
        fs::write(&src, &bytes).expect("written");
        for options in [&["--chunk", "64K"][..], &["--chunk", "64K", "--depth", "1"], &["--depth", "9"], &[]]
        {
            // Longer than what comes: the rest must go.
            fs::write(&dst, noise(size + 100)).expect("written");
            let copy = output(ferry(&["copy", name(&src), name(&dst)]).args(options));
            let said = text(&copy.stderr);
            assert!(copy.status.success(), "{size} {options:?}: {said}");
            assert!(fs::read(&dst).expect("there") == bytes, "{size} {options:?}");
            assert!(said.starts_with(&format!("ferry: {size} bytes in ")), "{said}");
            assert!(said.ends_with(" through device 0, backend host; all bytes compared\n"), "{said}");
            assert_eq!(said.contains(" GB/s (up "), size > 0, "{said}");
            assert_eq!((said.lines().count(), said.contains('\x1b'), copy.stdout.len()), (1, false, 0));
        }
    }
}

#[test]
fn zeros_are_compared_too() {
    let folder = folder("zeros");
    let (src, dst) = (folder.join("src"), folder.join("dst"));
    fs::write(&src, [0; 300_000]).expect("written");
    let copy = output(&mut ferry(&["copy", name(&src), name(&dst), "--chunk", "64K"]));
    assert!(copy.status.success(), "{}", text(&copy.stderr));
    assert!(fs::read(&dst).expect("there") == [0; 300_000]);
}

#[test]
fn input_and_output_may_be_pipes() {
    let bytes = noise(1_000_003);
    for (option, lines) in [("--device=1", 1), ("--quiet", 0)] {
        let mut command = ferry(&["copy", "-", "-", "--chunk", "64K", option]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut input = child.stdin.take().expect("piped");
        let copy = std::thread::scope(|scope| {
            // Pieces that fit neither the chunks nor the pipe.
            scope.spawn(|| {
                bytes.chunks(70_001).for_each(|piece| input.write_all(piece).expect("it is read"));
                drop(input);
            });
            child.wait_with_output().expect("it ends")
        });
        let said = text(&copy.stderr);
        assert!(copy.status.success() && copy.stdout == bytes, "{said}");
        assert_eq!(said.lines().count(), lines, "{said}");
        assert_eq!(said.contains("1000003 bytes") && said.contains("device 1,"), lines == 1, "{said}");
    }
}

#[test]
fn an_empty_input_makes_an_empty_file() {
    let dst = folder("empty").join("dst");
    let copy = output(ferry(&["copy", "-", name(&dst)]).stdin(Stdio::null()));
    assert!(copy.status.success(), "{}", text(&copy.stderr));
    assert!(text(&copy.stderr).starts_with("ferry: 0 bytes in "), "{}", text(&copy.stderr));
    assert_eq!(fs::read(&dst).expect("made"), b"");
}

#[test]
fn what_the_system_makes_up_is_copied_though_it_has_no_size() {
    let copy = output(&mut ferry(&["copy", "/proc/version", "-"]));
    assert!(copy.status.success(), "{}", text(&copy.stderr));
    assert_eq!(text(&copy.stdout), fs::read_to_string("/proc/version").expect("it is read"));
}

#[test]
fn what_cannot_begin_says_why_and_leaves_the_destination_alone() {
    let folder = folder("refused");
    let (src, dst) = (folder.join("src"), folder.join("dst"));
    let (src, dst) = (name(&src), name(&dst));
    fs::write(src, noise(100_000)).expect("written");
    fs::write(dst, "precious").expect("written");
    let missing = format!("{src}.not");
    for (args, variable, code, says) in [
        (&[&missing, dst][..], ("", ""), 1, "src.not: No such file or directory"),
        (&["/proc", dst], ("", ""), 1, "cannot read /proc: is a directory"),
        (&[src, dst, "--device", "7"], ("", ""), 1, "cannot open device 7: "),
        (&[src, dst, "--chunk", "64Q"], ("", ""), 2, "'64Q' is not a size"),
        (&[src, dst, "--chunk", "0"], ("", ""), 2, "at least one byte"),
        (&[src, dst, "--depth", "0"], ("", ""), 2, "1..=256"),
        (&[src, dst, "--backend", "tpu"], ("", ""), 2, "host, cuda"),
        (&[src, dst], ("FERRY_BACKEND", "tpu"), 1, "host, cuda"),
        (
            &[src, dst],
            ("FERRY_DEVICE_MEMORY", "64K"),
            1,
            "cannot make room on device 0 for chunks of 97.7 KiB, 1 at a time: ",
        ),
        (&[src, dst], ("FERRY_DEVICE_MEMORY", "64K"), 1, "of 65536 are free"),
        (&[src], ("", ""), 2, "<DST>"),
    ] {
        let mut command = ferry(&["copy"]);
        if !variable.0.is_empty() {
            command.env(variable.0, variable.1);
        }
        let copy = output(command.args(args));
        let said = text(&copy.stderr);
        assert_eq!(copy.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
        assert_eq!(fs::read_to_string(dst).expect("there"), "precious", "{args:?}");
    }
}

#[test]
fn a_file_is_not_copied_onto_itself_by_any_name() {
    let folder = folder("same");
    let (src, link, hard) = (folder.join("src"), folder.join("link"), folder.join("hard"));
    fs::write(&src, "precious").expect("written");
    std::os::unix::fs::symlink(&src, &link).expect("linked");
    fs::hard_link(&src, &hard).expect("linked");
    for (from, to) in [(&src, &src), (&src, &link), (&hard, &src), (&link, &hard)] {
        let copy = output(&mut ferry(&["copy", name(from), name(to)]));
        let want = format!("ferry: {} and {} are the same file\n", from.display(), to.display());
        assert_eq!((copy.status.code(), text(&copy.stderr)), (Some(1), want));
    }
    let append = File::options().append(true).open(&src).expect("opened");
    for (command, stdout) in [
        (&mut ferry(&["copy", name(&src), "-"]), Stdio::from(append)),
        (ferry(&["copy", "-", name(&src)]).stdin(File::open(&src).expect("opened")), Stdio::null()),
    ] {
        let copy = output(command.stdout(stdout));
        assert!(text(&copy.stderr).ends_with(" are the same file\n"), "{}", text(&copy.stderr));
    }
    assert_eq!(fs::read_to_string(&src).expect("there"), "precious");
    let copy = output(&mut ferry(&["copy", "/dev/null", "/dev/null"]));
    assert!(copy.status.success(), "nothing is lost there: {}", text(&copy.stderr));
}

#[test]
fn a_failing_read_is_told_after_what_came_before_it() {
    let dst = folder("unreadable").join("dst");
    // Our own memory as a file: it can be read up to the end of the stack, and nothing is mapped behind that.
    let maps = fs::read_to_string("/proc/self/maps").expect("read");
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).expect("there is a stack");
    let end =
        stack.split(['-', ' ']).nth(1).and_then(|end| u64::from_str_radix(end, 16).ok()).expect("a range");
    let mut memory = File::open("/proc/self/mem").expect("opened");
    memory.seek(SeekFrom::Start(end - 10_000)).expect("moved");

    let copy = output(ferry(&["copy", "-", name(&dst), "--chunk", "5000"]).stdin(memory));
    assert_eq!(copy.status.code(), Some(1));
    assert!(text(&copy.stderr).starts_with("ferry: cannot read standard input: "), "{}", text(&copy.stderr));
    assert_eq!(fs::read(&dst).expect("there").len(), 10_000);
}

#[test]
fn a_failing_write_ends_the_copy_though_the_input_goes_on() {
    let mut command = ferry(&["copy", "-", "/dev/full", "--chunk", "4K"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&noise(4096)).expect("it is read");
    // The pipe stays open: whoever waited for the end of the input would wait for ever.
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert!(said.starts_with("ferry: cannot write /dev/full: No space left on device"), "{said}");
    drop(input);
}

#[test]
fn a_reader_that_leaves_is_an_error_since_not_everything_arrived() {
    let src = folder("left").join("src");
    fs::write(&src, noise(1_000_000)).expect("written");
    let mut command = ferry(&["copy", name(&src), "-", "--chunk", "64K"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut first = [0; 100];
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut first).expect("the beginning");
    drop(out);
    let copy = child.wait_with_output().expect("it ends");
    assert_eq!(copy.status.code(), Some(1));
    assert_eq!(text(&copy.stderr), "ferry: cannot write standard output: Broken pipe (os error 32)\n");
    assert_eq!(first, noise(1_000_000)[..100]);
}

#[test]
fn the_backend_of_the_option_beats_that_of_the_environment() {
    let mut command = ferry(&["copy", "/dev/null", "/dev/null", "--backend", "host"]);
    let copy = output(command.env("FERRY_BACKEND", "cuda").env("FERRY_LIBRARY", "/does/not/exist"));
    assert!(copy.status.success(), "{}", text(&copy.stderr));
    assert!(text(&copy.stderr).contains("backend host"), "{}", text(&copy.stderr));
}
