//! A device made of paper: it moves no bytes, and work completes when a test says so.

use super::*;

/// What happened to the paper device, in order.
pub type Log = Arc<Mutex<Vec<String>>>;

pub struct Paper {
    pub next: AtomicUsize,
    pub log: Log,
    /// Blocks that left the address table.
    pub forgotten: Arc<Mutex<Vec<usize>>>,
}

#[derive(Default)]
pub struct PaperSink {
    pub segments: Vec<Segment>,
    /// How many of them other threads may read.
    pub finished: usize,
}

pub struct PaperQueue {
    pub submitted: Mutex<Ticket>,
    pub status: Arc<Status>,
    pub log: Log,
}

pub struct PaperFence {
    pub ticket: Ticket,
    pub status: Arc<Status>,
}

pub const PLAIN: std::ops::Range<usize> = 0x10_0000..0x20_0000;
/// Memory that another library made on device 1, in blocks of this size next to each other.
pub const THEIRS: std::ops::Range<usize> = 0x30_0000..0x34_0000;
pub const THEIR_BLOCK: usize = 0x1_0000;

impl Backend for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }
    fn device_count(&self) -> usize {
        2
    }
    fn memory(&self, _: DeviceId) -> Result<DeviceMemory> {
        Ok(DeviceMemory { free: 1, total: 2, used: 1, peak: 1 })
    }
    fn alloc(&self, request: &Request) -> Result<Block> {
        let base = self.next.fetch_add(1 << 20, Ordering::Relaxed);
        Ok(Block {
            base,
            len: request.len,
            home: request.home,
            at: base + (1 << 40),
            page: request.page,
            origin: Origin::Allocated,
        })
    }
    unsafe fn free(&self, block: &Block) -> Result<()> {
        self.log.lock().unwrap().push(format!("gone {:#x}", block.base));
        Ok(())
    }
    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        self.log.lock().unwrap().push(format!("locate {addr:#x}"));
        if THEIRS.contains(&addr) {
            let base = addr & !(THEIR_BLOCK - 1);
            let len =
                (addr + len).max(base + THEIR_BLOCK).min(THEIRS.end).next_multiple_of(THEIR_BLOCK) - base;
            let home = Home::Device(1);
            return Ok(Some(Block { base, len, home, at: base, page: 4096, origin: Origin::Allocated }));
        }
        match PLAIN.contains(&addr) && PLAIN.contains(&(addr + len.max(1) - 1)) {
            true => Ok(None),
            false => Err(Kind::BadAddress.because(format!("{addr:#x} cannot be accessed to {access:?}"))),
        }
    }
    fn register(&self, base: usize, len: usize) -> Result<Block> {
        self.log.lock().unwrap().push(format!("register {base:#x}"));
        Ok(Block { base, len, home: Home::Host, at: base, page: 4096, origin: Origin::Registered })
    }
    fn queue(&self, _: DeviceId, _: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(PaperQueue { submitted: Mutex::new(0), status, log: self.log.clone() }))
    }
    fn block_watch(&self) -> Option<&dyn BlockWatch> {
        Some(self)
    }
    fn segment_sink(&self, _: usize) -> Option<Box<dyn SegmentSink>> {
        Some(Box::new(PaperSink::default()))
    }
}

impl SegmentSink for PaperSink {
    fn extend(&mut self, segments: &[Segment]) -> bool {
        self.segments.extend(segments);
        true
    }
    fn finish(&mut self) {
        self.finished = self.segments.len();
    }
    fn segments(&self) -> &[Segment] {
        &self.segments
    }
    fn native(&mut self) -> &mut dyn Any {
        self
    }
}

impl BlockWatch for Paper {
    fn stamp(&self, block: &Block) -> Result<u64> {
        Ok(block.base as u64 + 1)
    }
    fn forgotten(&self, block: &Block) {
        self.forgotten.lock().unwrap().push(block.base);
    }
}

impl Queue for PaperQueue {
    unsafe fn submit(&self, _: Op) -> Result<Ticket> {
        let mut submitted = self.submitted.lock().unwrap();
        *submitted += 1;
        Ok(*submitted)
    }
    fn fence(&self) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(PaperFence { ticket: *self.submitted.lock().unwrap(), status: self.status.clone() }))
    }
    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        Arc::new(PaperFence { ticket, status: self.status.clone() })
    }
    fn mark(&self) -> Result<Arc<dyn Mark>> {
        let mut submitted = self.submitted.lock().unwrap();
        *submitted += 1;
        Ok(Arc::new(PaperFence { ticket: *submitted, status: self.status.clone() }))
    }
    fn abort(&self) {
        let submitted = *self.submitted.lock().unwrap();
        self.log.lock().unwrap().push(format!("abort of {submitted} ops"));
    }
}

impl Fence for PaperFence {
    fn is_done(&self) -> bool {
        self.status.passed() >= self.ticket
    }
    fn wait(&self, _: Option<Duration>) -> Result<()> {
        self.is_done().then_some(()).ok_or_else(|| Kind::Timeout.because("paper does not move by itself"))
    }
    fn when_done(&self, _: Box<dyn FnOnce() + Send>) {
        panic!("no test waits this way")
    }
    fn point(&self) -> Option<Point> {
        self.status.point(self.ticket)
    }
    fn native(&self) -> &dyn Any {
        self
    }
}

impl Mark for PaperFence {
    fn failed(&self) -> bool {
        false
    }
    fn reached_us(&self) -> Option<u64> {
        None
    }
    fn elapsed_ms(&self, _: &dyn Mark) -> Option<f64> {
        None
    }
}

pub struct Watcher(pub Log);

impl Observer for Watcher {
    fn known(&self, block: &Block) {
        self.0.lock().unwrap().push(format!("known {:#x}", block.base));
    }
    fn forgotten(&self, block: &Block) {
        self.0.lock().unwrap().push(format!("forgotten {:#x}", block.base));
    }
    fn reused(&self, block: &Block) {
        self.0.lock().unwrap().push(format!("reused {:#x}", block.base));
    }
    fn stream_made(&self, stream: u64, device: u32) {
        self.0.lock().unwrap().push(format!("stream {stream} of device {device}"));
    }
    fn stream_gone(&self, stream: u64) {
        self.0.lock().unwrap().push(format!("stream {stream} is gone"));
    }
    fn made(&self, Point { stream, ticket }: Point, what: Seen<'_>) {
        let name = match what {
            Seen::Op(Op::Wait(fence)) if let Some(point) = fence.point() => format!("Wait for {point}"),
            Seen::Op(op) => format!("{op:?}").split(['(', ' ']).next().unwrap_or_default().into(),
            Seen::Linear(copy) => format!("Linear {}", copy.segment().len),
            Seen::Mark => "Mark".into(),
            Seen::Other => "Other".into(),
        };
        self.0.lock().unwrap().push(format!("made {stream}.{ticket} {name}"));
    }
    fn submitted(&self, Point { stream, ticket }: Point, _: Option<&ferry_core::Linear>) {
        self.0.lock().unwrap().push(format!("submitted {stream}.{ticket}"));
    }
    fn refused(&self, Point { stream, ticket }: Point, why: &ferry_core::Error) {
        self.0.lock().unwrap().push(format!("refused {stream}.{ticket} {:?}", why.kind));
    }
    fn passed(&self, Point { stream, ticket }: Point, fate: Fate, _: Option<DeviceTime>) {
        self.0.lock().unwrap().push(format!("passed {stream}.{ticket} {fate:?}"));
    }
    fn joined(&self, Point { stream, ticket }: Point, how: JoinKind) {
        self.0.lock().unwrap().push(format!("joined {stream}.{ticket} {how:?}"));
    }
}

pub fn paper() -> (Runtime, Log) {
    let log = Log::default();
    let backend = Paper { next: AtomicUsize::new(0x100_0000), log: log.clone(), forgotten: Arc::default() };
    let backend = Arc::new(backend);
    (Runtime::new(backend, vec![Arc::new(Watcher(log.clone()))]), log)
}

pub fn alloc(runtime: &Runtime, home: Home, len: usize) -> Block {
    runtime.alloc(&Request { home, len, page: 4096 }).expect("paper is patient")
}

pub fn any(_: usize, _: &ferry_core::Ends) -> Result<()> {
    Ok(())
}

pub fn plan(runtime: &Runtime, rows: Rows) -> Result<Plan, Misfit> {
    Plan::new([rows], runtime.memory(), any)
}

pub fn gone(log: &Log, block: &Block) -> bool {
    log.lock().unwrap().contains(&format!("gone {:#x}", block.base))
}
