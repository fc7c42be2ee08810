//! The memory that bad calls are aimed at, with neighbours on both sides, and the proof that nothing of it
//! changed.

use ferry_tests::*;

/// Bytes asked for in every allocation of the scene.
pub const LEN: usize = 4096;
/// Where an allocation of [`LEN`] bytes of device memory ends: rounded up to 32, and 32 more (documented).
pub const DEVICE_END: usize = LEN + 32;

/// One of each kind of memory and handle, in the default context of device 0.
pub struct Scene {
    pub device: Memory,
    pub pinned: Memory,
    pub heap: Memory,
    /// Device memory of device 1.
    pub elsewhere: Memory,
    pub stream: usize,
    pub event: usize,
    pub context: usize,
    /// A stream of another context of device 0.
    pub foreign_stream: usize,
    /// A stream of device 1.
    pub distant_stream: usize,
    pub wild: Wild,
    everything: Vec<(&'static str, Memory, Vec<u8>)>,
}

impl Scene {
    pub fn new() -> Scene {
        ok(aclrtSetDevice(1));
        let distant_stream = stream();
        let elsewhere = Memory::device(LEN);
        use_device();
        let mut context = 0;
        ok(aclrtGetCurrentContext(&mut context));
        let mut other = 0;
        ok(aclrtCreateContext(&mut other, 0));
        let foreign_stream = stream();
        ok(aclrtSetCurrentContext(context));
        // The middle one of three, so that a copy that strays hits memory that is looked at.
        let three = |home| [Memory::new(home, LEN), Memory::new(home, LEN), Memory::new(home, LEN)];
        let mut device = three(Home::Device);
        device.iter_mut().for_each(|d| d.len = DEVICE_END);
        let (pinned, heap) = (three(Home::Pinned), three(Home::Heap));
        let wild = Wild::new();
        let mut scene = Scene {
            device: device[1],
            pinned: pinned[1],
            heap: heap[1],
            elsewhere,
            stream: stream(),
            event: event(),
            context,
            foreign_stream,
            distant_stream,
            everything: Vec::new(),
            wild,
        };
        for (name, all) in [("device", device), ("pinned", pinned), ("heap", heap)] {
            all.into_iter().for_each(|memory| scene.watch(name, memory));
        }
        scene.watch("device 1", elsewhere);
        scene.watch("before nothing", scene.wild.last_bytes);
        scene
    }

    /// Fills `memory` and from now on expects it never to change.
    fn watch(&mut self, name: &'static str, memory: Memory) {
        let bytes = pattern(memory.len, self.everything.len() as u8);
        memory.write(&bytes);
        self.everything.push((name, memory, bytes));
    }

    /// Asserts the code of a call that must be refused, that its message names the function, and that nothing
    /// changed.
    #[track_caller]
    pub fn refuses(&self, function: &str, row: &str, want: i32, call: impl FnOnce() -> i32) {
        let what = format!("{function}: {row}");
        // An old message must not pass for this call's.
        message();
        let code = call();
        let said = message().unwrap_or_default();
        assert_eq!(code, want, "{what}: {said}");
        assert!(said.contains(function), "{what}: the message does not name the function: {said:?}");
        self.unchanged(&what);
    }

    /// Asserts that no work was left behind and that every byte is as it was.
    #[track_caller]
    pub fn unchanged(&self, what: &str) {
        expect(what, aclrtSynchronizeStream(self.stream), 0);
        for (name, memory, bytes) in &self.everything {
            memory.assert_holds(bytes, &format!("{what}: {name} memory"));
        }
    }

    /// Streams that a call in the current context must not be given, with the code for each.
    pub fn bad_streams(&self) -> [(&'static str, usize, i32); 8] {
        use code::{INVALID_HANDLE, STREAM_CONTEXT};
        [
            ("a small number as stream", 0x10, INVALID_HANDLE),
            ("garbage as stream", 0xdead_beef_dead_beef, INVALID_HANDLE),
            ("host memory as stream", self.heap.addr, INVALID_HANDLE),
            ("an event as stream", self.event, INVALID_HANDLE),
            ("a context as stream", self.context, INVALID_HANDLE),
            ("a destroyed stream", self.wild.dead_stream, INVALID_HANDLE),
            ("a stream of another context", self.foreign_stream, STREAM_CONTEXT),
            ("a stream of another device", self.distant_stream, STREAM_CONTEXT),
        ]
    }
}
