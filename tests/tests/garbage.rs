//! Every function that the headers declare, called with garbage: each argument in turn is something that it
//! must not be, or some number at the edge of its type, while the others are plausible. Nothing crashes or
//! hangs, every answer is a code that the headers know, and memory, a stream and an event that have nothing
//! to do with it go on working.
//!
//! Each function is a child process, so that a crash ends that child and is told with the call that caused
//! it; on a GPU, where a process takes long to begin, several functions share one. What the functions are and
//! what they take is read from the headers: one that they gain is called here without further ado.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferry_tests::headers::{Argument, Function, Kind, Library, codes, functions};
use ferry_tests::{Home, Memory, page_size};

/// Longest that a call and the look afterwards may take, in seconds.
const LIMIT: u32 = 10;
const INTERNAL_ERROR: i32 = 500000;

/// Where every function is called: with memory of its own on the device, and where host and device memory are
/// one.
const FORMS: [(&str, &str); 2] = [("Ascend910B1", "ep"), ("Ascend310P3", "ctrlcpu")];

#[test]
fn every_function_in_a_process_of_its_own() {
    let functions = functions();
    assert!(functions.len() > 115, "the headers declare {} functions", functions.len());
    // A stream of the CUDA driver is a pointer that the driver follows: there is no telling garbage from it.
    let is_promise = |f: &&Function| f.name == "ferryStreamAdopt" && is_on_cuda();
    let functions: Vec<_> = functions.iter().filter(|f| !is_promise(f)).collect();
    let names: Vec<_> = functions.iter().map(|f| f.name.as_str()).collect();
    let all: Vec<_> =
        FORMS.iter().flat_map(|form| names.chunks(share(form)).map(move |f| (form, f))).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((form, names)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = in_child(names, form) {
                        failed.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn is_on_cuda() -> bool {
    std::env::var("FERRY_BACKEND").is_ok_and(|backend| backend == "cuda")
}

/// How many functions a child walks.
fn share((_, form): &(&str, &str)) -> usize {
    if *form == "ep" && is_on_cuda() { 8 } else { 1 }
}

/// Walks functions in a child; an error says which call went wrong and how.
fn in_child(names: &[&str], (soc, form): &(&str, &str)) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().expect("Linux knows which program runs"));
    child.args(["--ignored", "--exact", "some_functions", "--nocapture"]);
    child.env("FERRY_TEST_FUNCTIONS", names.join(" "));
    child.env("FERRY_SOC", soc).env("FERRY_FORM", form);
    if *form != "ep" {
        child.env("FERRY_BACKEND", "host"); // no GPU is a board
    }
    // Everything is logged, so that garbage comes there too.
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("garbage-{form}-{}", names[0]));
    child
        .env("ASCEND_GLOBAL_LOG_LEVEL", "0")
        .env("ASCEND_PROCESS_LOG_PATH", &logs)
        .env("RUST_BACKTRACE", "0");
    let done = child.output().expect("this program can be started");
    let _ = std::fs::remove_dir_all(&logs);
    let said = String::from_utf8_lossy(&done.stdout);
    if done.status.success() && said.contains("1 passed") {
        return Ok(());
    }
    let is_call = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name} (")));
    let call = said.lines().rfind(is_call).unwrap_or(names[0]);
    let why = match done.status.signal() {
        Some(libc::SIGALRM) => format!("hangs for more than {LIMIT} s"),
        Some(signal) => format!("dies of signal {signal}"),
        None => String::from_utf8_lossy(&done.stderr).into_owned(),
    };
    Err(format!("{call} in the {form} form: {why}"))
}

/// The child's part.
#[test]
#[ignore = "run by every_function_in_a_process_of_its_own"]
fn some_functions() {
    let names = std::env::var("FERRY_TEST_FUNCTIONS").expect("the parent says which functions");
    let (all, mut scene) = (functions(), Scene::new());
    for name in names.split(' ') {
        walk(&mut scene, all.iter().find(|f| f.name == name).expect("a function of the headers"));
    }
}

fn walk(scene: &mut Scene, function: &Function) {
    for base in Base::ALL {
        scene.call(function, base, None);
        for index in 0..function.arguments.len() {
            let values = Value::of(&function.arguments[index]).iter();
            for value in values.filter(|value| !value.takes_long(function, index)) {
                scene.call(function, base, Some((index, *value)));
            }
        }
    }
}

/// What the arguments are that are not garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Zeros,
    HostMemory,
    DeviceMemory,
    /// What most calls go through with: a copy from the host to a device, say.
    Good,
    /// The same inside the device.
    Inner,
}

impl Base {
    const ALL: [Base; 5] = [Base::Zeros, Base::HostMemory, Base::DeviceMemory, Base::Good, Base::Inner];

    fn is_good(self) -> bool {
        matches!(self, Base::Good | Base::Inner)
    }

    fn number(self, name: &str) -> usize {
        match (self, name) {
            (Base::Zeros | Base::DeviceMemory, _) => 0,
            (Base::HostMemory, _) => 1,
            (_, "size" | "destMax" | "maxCount" | "memSize") => LEN,
            (_, "count" | "width" | "height" | "dpitch" | "spitch" | "N") => 64,
            (_, "len") => 65,
            (_, "numBatches" | "numAttrs" | "num" | "pidNum") => 1,
            _ => 0,
        }
    }

    fn member(self, name: &str) -> usize {
        match (self, name) {
            (Base::HostMemory, _) | (Base::Good, "kind" | "shareType") | (Base::Inner, "type") => 1,
            (Base::Inner, "kind") => 6,
            _ => 0,
        }
    }
}

/// Garbage.
#[derive(Clone, Copy, Debug)]
enum Value {
    Number(usize),
    Unmapped,
    ReadOnly,
    /// The last byte before a page where nothing is.
    Edge,
    /// A page of bytes that are all ones.
    Ones,
    DeviceMemory,
    FreedMemory,
    PinnedMemory,
    Reserved,
    Stream,
    Event,
    Context,
    Physical,
    DeadStream,
    DeadEvent,
    DeadContext,
    DeadPhysical,
}

impl Value {
    const NUMBERS: &[Value] = &[
        Value::Number(0),
        Value::Number(1),
        Value::Number(2),
        Value::Number(usize::MAX),
        Value::Number(i32::MIN as usize),
        Value::Number(i32::MAX as usize),
        Value::Number(u32::MAX as usize),
        Value::Number(usize::MAX / 2),
        Value::Number(usize::MAX / 2 + 1),
        Value::Number(usize::MAX - 4095),
        Value::Number(1 << 40),
    ];
    const ADDRESSES: &[Value] = &[
        Value::Number(0),
        Value::Number(0x10),
        Value::Number(0xdead_0000_0000_0000),
        Value::Number(usize::MAX),
        Value::Number(usize::MAX - 63),
        Value::Unmapped,
        Value::ReadOnly,
        Value::Edge,
        Value::Ones,
        Value::DeviceMemory,
        Value::FreedMemory,
        Value::PinnedMemory,
        Value::Reserved,
        Value::Stream,
        Value::Event,
        Value::Context,
        Value::Physical,
        Value::DeadStream,
        Value::DeadEvent,
        Value::DeadContext,
        Value::DeadPhysical,
    ];

    /// What an argument is tried with. A function that is none cannot be told from one that is; NULL can.
    fn of(argument: &Argument) -> &'static [Value] {
        match argument.kind {
            Kind::Number | Kind::Enum => Value::NUMBERS,
            Kind::Pointer | Kind::Handle => Value::ADDRESSES,
            Kind::Function => &[Value::Number(0)],
        }
    }
}

impl Value {
    /// A CUDA driver page-locks 2 or 4 GiB, if there are so many, and takes seconds each time.
    fn takes_long(&self, function: &Function, index: usize) -> bool {
        let is_size =
            function.name.starts_with("aclrtMallocHost") && function.arguments[index].name == "size";
        is_on_cuda() && is_size && matches!(self, Value::Number(0x7fff_ffff..=0xffff_ffff))
    }
}

/// Bytes of each of the canary's memories, and of memory that calls are given.
const LEN: usize = 4096;

/// aclrtPhysicalMemProp: in normal pages (5), location device (1) 0.
const PROPERTY: [usize; 4] = [0, 5, 1, 0];

/// The library, what garbage is made of, and what must go on working.
struct Scene {
    library: Library,
    codes: BTreeSet<i32>,
    calls: u8,
    canary: Canary,
    unmapped: usize,
    read_only: usize,
    edge: usize,
    ones: Memory,
    freed: usize,
    reserved: usize,
    /// A stream, an event, a context and physical memory that were given back.
    dead: [usize; 4],
    /// One page for each argument that wants an address: plain memory, and page-locked memory.
    pages: Vec<Memory>,
    locked_pages: Vec<Memory>,
}

struct Canary {
    context: usize,
    stream: usize,
    event: usize,
    device: usize,
    pinned: usize,
}

/// What a single call may use up.
#[derive(Default)]
struct Spares {
    stream: usize,
    event: usize,
    context: usize,
    physical: usize,
    device: usize,
    pinned: usize,
}

impl Scene {
    fn new() -> Scene {
        let library = Library::open();
        library.must("aclInit", &[0]);
        library.must("aclrtSetDevice", &[0]);
        // An explicit context: resetting the device takes the default one, rightly.
        let context = library.made("aclrtCreateContext", &[0]);
        let canary = Canary {
            context,
            stream: library.made("aclrtCreateStream", &[]),
            event: library.made("aclrtCreateEvent", &[]),
            device: library.made("aclrtMalloc", &[LEN, 0]),
            pinned: library.made("aclrtMallocHost", &[2 * LEN]),
        };
        let page = page_size();
        let island = Memory::new(Home::Mapped, 5 * page);
        // SAFETY: pages of a mapping that was just made, and that nobody else knows.
        unsafe {
            assert_eq!(libc::munmap((island.addr + page) as *mut c_void, page), 0);
            assert_eq!(libc::munmap((island.addr + 3 * page) as *mut c_void, page), 0);
            assert_eq!(libc::mprotect((island.addr + 4 * page) as *mut c_void, page, libc::PROT_READ), 0);
        }
        let ones = island.part(2 * page, page);
        let spares = Spares::new(&library, context);
        let dead = [spares.stream, spares.event, spares.context, spares.physical];
        let freed = spares.device;
        spares.give_back(&library);
        let reserved = library.made_if_any("aclrtReserveMemAddress", &[LEN, 0, 0, 0]);
        Scene {
            codes: codes(),
            calls: 0,
            canary,
            unmapped: island.addr + page,
            read_only: island.addr + 4 * page,
            edge: island.addr + page - 1,
            ones,
            freed,
            reserved,
            dead,
            pages: (0..12).map(|_| guarded(LEN)).collect(),
            locked_pages: (0..12).map(|_| locked(&library)).collect(),
            library,
        }
    }

    /// One call, its answer, and a look whether everything else still works.
    fn call(&mut self, function: &Function, base: Base, garbage: Option<(usize, Value)>) {
        let what = match garbage {
            Some((index, value)) => format!("{value:x?} as {}", function.arguments[index].name),
            None => "nothing wrong".into(),
        };
        println!("{} ({base:?}, {what})", function.name);
        // SAFETY: the signal ends this process, whose parent then knows why.
        unsafe { libc::alarm(LIMIT) };
        let spares = Spares::new(&self.library, self.canary.context);
        let mut given: Vec<usize> = Vec::new();
        for (index, argument) in function.arguments.iter().enumerate() {
            given.push(match garbage {
                Some((other, value)) if other == index => self.garbage(value, &spares),
                _ => self.plausible(argument, index, base, &spares),
            });
        }
        let result = self.library.call(&function.name, &given);
        if function.name == "aclrtValueWait" {
            // Nobody writes what it waits for.
            for stream in [spares.stream, 0] {
                self.library.call("aclrtStreamAbort", &[stream]);
            }
        }
        println!("    {}", result as i32);
        self.check_result(&function.result, result);
        self.library.call("aclrtUnmapMem", &[self.reserved]);
        for page in &self.pages {
            self.library.call("aclrtHostUnregister", &[page.addr]);
        }
        spares.give_back(&self.library);
        self.check_canary();
    }

    fn garbage(&self, value: Value, spares: &Spares) -> usize {
        match value {
            Value::Number(number) => number,
            Value::Unmapped => self.unmapped,
            Value::ReadOnly => self.read_only,
            Value::Edge => self.edge,
            Value::Ones => {
                self.ones.fill(0xff);
                self.ones.addr
            }
            Value::DeviceMemory => spares.device,
            Value::FreedMemory => self.freed,
            Value::PinnedMemory => spares.pinned,
            Value::Reserved => self.reserved,
            Value::Stream => spares.stream,
            Value::Event => spares.event,
            Value::Context => spares.context,
            Value::Physical => spares.physical,
            Value::DeadStream => self.dead[0],
            Value::DeadEvent => self.dead[1],
            Value::DeadContext => self.dead[2],
            Value::DeadPhysical => self.dead[3],
        }
    }

    fn plausible(&self, argument: &Argument, index: usize, base: Base, spares: &Spares) -> usize {
        let plain = argument.type_.trim_start_matches("const ");
        let is_source = argument.name.starts_with("src");
        let memory = match base {
            Base::HostMemory => spares.pinned,
            Base::Good if is_source => spares.pinned,
            _ => spares.device,
        };
        match (argument.kind, plain) {
            (Kind::Function, _) => does_nothing as *const () as usize,
            (Kind::Number, _) => base.number(&argument.name),
            (Kind::Enum, _) => base.member(&argument.name),
            _ if base == Base::Zeros => 0,
            (Kind::Handle, "aclrtStream") => spares.stream,
            (Kind::Handle, "aclrtEvent") => spares.event,
            (Kind::Handle, "aclrtContext") => spares.context,
            (Kind::Handle, _) => spares.physical,
            (Kind::Pointer, "void *") if base.is_good() => match argument.name.as_str() {
                "virPtr" => self.reserved,
                "config" | "expectPtr" => 0,
                // Host memory that can be registered.
                "ptr" if base == Base::Good => self.pages[index].addr,
                _ => memory,
            },
            (Kind::Pointer, "void *") => memory,
            (Kind::Pointer, _) => self.page(argument, index, base, memory),
        }
    }

    /// A page that is an array of what the argument takes, or zeros: empty text, no settings, whatever.
    fn page(&self, argument: &Argument, index: usize, base: Base, memory: usize) -> usize {
        let plain = argument.type_.trim_start_matches("const ");
        let is_addresses = plain.matches('*').count() > 1;
        // Pointers that a task reads must be memory of acl.
        let page =
            if is_addresses && base == Base::Inner { self.locked_pages[index] } else { self.pages[index] };
        let words: &[usize] = match plain {
            _ if is_addresses => &[memory],
            "size_t *" if base.is_good() && !argument.name.contains("Index") => &[64],
            // Destinations on device 0, sources on the host, in the order of the struct's 32-bit numbers.
            "aclrtMemcpyBatchAttr *" if base.is_good() => &[1 << 32, 0, 0, 0],
            "aclrtPhysicalMemProp *" if base.is_good() => &PROPERTY,
            _ => &[0],
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        page.write(&bytes.repeat(LEN / bytes.len()));
        page.addr
    }

    fn check_result(&self, result_type: &str, result: usize) {
        match result_type {
            "aclError" | "int32_t" => {
                let code = result as i32;
                assert!(self.codes.contains(&code), "it answers {code}, which is no code of the headers");
                assert_ne!(code, INTERNAL_ERROR, "it fails inside: {}", self.library.message());
            }
            "const char *" if result != 0 => {
                // SAFETY: the library says that this is text; if it is not, this process dies and its parent
                // tells.
                let _ = unsafe { CStr::from_ptr(result as *const c_char) }.to_bytes().len();
            }
            _ => {}
        }
    }

    /// Copies fresh bytes to the device and back in the canary's stream, under its event.
    fn check_canary(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        let Canary { context, stream, event, device, pinned } = self.canary;
        let there = Memory { addr: pinned, len: LEN, home: Home::Pinned };
        let back = Memory { addr: pinned + LEN, len: LEN, home: Home::Pinned };
        there.fill(self.calls);
        back.fill(!self.calls);
        let library = &self.library;
        library.must("aclrtSetCurrentContext", &[context]);
        library.must("aclrtMemcpyAsync", &[device, LEN, pinned, LEN, 1, stream]);
        library.must("aclrtRecordEvent", &[event, stream]);
        library.must("aclrtSynchronizeEvent", &[event]);
        library.must("aclrtStreamWaitEvent", &[stream, event]);
        library.must("aclrtMemcpyAsync", &[back.addr, LEN, device, LEN, 2, stream]);
        library.must("aclrtSynchronizeStream", &[stream]);
        back.assert_all(self.calls, "the canary's bytes");
    }
}

impl Spares {
    fn new(library: &Library, current: usize) -> Spares {
        let context = library.made("aclrtCreateContext", &[0]);
        library.must("aclrtSetCurrentContext", &[current]);
        Spares {
            context,
            stream: library.made("aclrtCreateStream", &[]),
            event: library.made("aclrtCreateEvent", &[]),
            physical: library.made_if_any("aclrtMallocPhysical", &[LEN, PROPERTY.as_ptr() as usize, 0]),
            device: library.made("aclrtMalloc", &[LEN, 0]),
            pinned: library.made("aclrtMallocHost", &[LEN]),
        }
    }

    /// Gives back what the call has not.
    fn give_back(self, library: &Library) {
        for (function, handle) in [
            ("aclrtDestroyStream", self.stream),
            ("aclrtDestroyEvent", self.event),
            ("aclrtDestroyContext", self.context),
            ("aclrtFreePhysical", self.physical),
            ("aclrtFree", self.device),
            ("aclrtFreeHost", self.pinned),
        ] {
            library.call(function, &[handle]);
        }
    }
}

/// What the scene does with the library for itself.
trait Sane {
    fn must(&self, name: &str, given: &[usize]);
    fn made(&self, name: &str, more: &[usize]) -> usize;
    fn made_if_any(&self, name: &str, more: &[usize]) -> usize;
    fn message(&self) -> String;
}

impl Sane for Library {
    /// A call that has to go well.
    #[track_caller]
    fn must(&self, name: &str, given: &[usize]) {
        let code = self.call(name, given) as i32;
        assert_eq!(code, 0, "{name} of the canary: {}", self.message());
    }

    /// A call whose first argument is the address of what it makes.
    #[track_caller]
    fn made(&self, name: &str, more: &[usize]) -> usize {
        let mut made = 0usize;
        let given = [&[&raw mut made as usize], more].concat();
        self.must(name, &given);
        made
    }

    /// The same where the product may lack the function: 0 then.
    fn made_if_any(&self, name: &str, more: &[usize]) -> usize {
        let mut made = 0usize;
        self.call(name, &[&[&raw mut made as usize], more].concat());
        made
    }

    fn message(&self) -> String {
        match self.call("aclGetRecentErrMsg", &[]) as *const c_char {
            text if text.is_null() => String::new(),
            // SAFETY: a text of the library stays until the next call of this thread.
            text => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        }
    }
}

/// Memory that ends where nothing is mapped.
fn guarded(len: usize) -> Memory {
    let page = page_size();
    let memory = Memory::new(Home::Mapped, len.next_multiple_of(page) + page);
    // SAFETY: the last page of a mapping that was just made.
    assert_eq!(unsafe { libc::munmap((memory.addr + memory.len - page) as *mut c_void, page) }, 0);
    memory.part(memory.len - page - len, len)
}

fn locked(library: &Library) -> Memory {
    Memory { addr: library.made("aclrtMallocHost", &[LEN]), len: LEN, home: Home::Pinned }
}

unsafe extern "C" fn does_nothing(_: *mut c_void) {}
