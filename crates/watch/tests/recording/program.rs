//! A program at the level of facts: what a library would write about it.

use ferry_watch::{
    Fact, FactReader, FactSource,
    fact::{
        Awaited, Block, CallSite, End, Join, Joined, Outcome, Passed, Piece, Point, Route, Started,
        StreamMade, SubmittedOp, Work,
    },
    recording::{LoadedRecording, Recorder, Recording, read},
};

/// Facts of one process, in order, with a clock of their own.
#[derive(Default)]
pub struct Program {
    pub facts: Vec<(FactSource, Fact)>,
    now: u64,
    tickets: Vec<u64>,
}

impl Program {
    pub fn new() -> Program {
        let mut program = Program { now: 1_000, ..Program::default() };
        let started =
            Started { devices: 2, backend: "host".into(), command: "prog x".into(), ..Started::default() };
        program.write(0, Fact::Started(Started { time: 1_000, ..started }));
        program
    }

    pub fn write(&mut self, thread: u32, fact: Fact) {
        self.facts.push((FactSource { process: 77, thread: 500 + thread }, fact));
    }

    fn tick(&mut self) -> u64 {
        self.now += 10;
        self.now
    }

    pub fn stream(&mut self, device: u32) -> u32 {
        let (time, stream) = (self.tick(), self.tickets.len() as u32);
        self.tickets.push(0);
        self.write(0, Fact::StreamMade(StreamMade { time, stream, device, ..StreamMade::default() }));
        stream
    }

    /// A block at an address; the program calls it by another one.
    pub fn block(&mut self, at: u64, len: u64, device: Option<u32>) {
        let time = self.tick();
        let block = Block { base: at + (1 << 45), at, len, device, ..Block::default() };
        self.write(0, Fact::Known { time, site: CallSite::default(), block });
    }

    pub fn free(&mut self, at: u64) {
        let time = self.tick();
        self.write(0, Fact::Forgotten { time, site: CallSite::default(), base: at + (1 << 45) });
    }

    pub fn submit(&mut self, thread: u32, stream: u32, awaits: Vec<Awaited>, work: Work) -> Point {
        self.tickets[stream as usize] += 1;
        let point = Point { stream, ticket: self.tickets[stream as usize] };
        let begin = self.tick();
        let (time, site) = (self.tick(), CallSite { begin, ..CallSite::default() });
        self.write(thread, Fact::Submitted(SubmittedOp { time, point, site, awaits, work, task: None }));
        point
    }

    pub fn copy(&mut self, stream: u32, dst: u64, src: u64, len: u64) -> Point {
        let work = Work::Linear { route: Route::default(), piece: Piece { dst, src, len } };
        self.submit(0, stream, Vec::new(), work)
    }

    pub fn pass(&mut self, point: Point, source: u64, destination: u64) {
        let (begin, end) = (self.tick(), self.tick());
        let passed = Passed { point, begin, end, outcome: Outcome::Done, together: 1, engine: 0 };
        self.write(9, Fact::Passed(passed));
        self.write(9, Fact::Contents { point, end: End::Source, hash: source });
        self.write(9, Fact::Contents { point, end: End::Destination, hash: destination });
    }

    pub fn join(&mut self, thread: u32, point: Point) {
        let time = self.tick();
        let site = CallSite::default();
        self.write(thread, Fact::Joined(Joined { time, point, site, how: Join::Wait }));
    }

    /// The file that a recorder makes of it.
    pub fn file(&self) -> Vec<u8> {
        file_of(&self.facts)
    }

    pub fn recording(&self) -> Recording {
        let LoadedRecording { recording, damage } = read(&self.file()).expect("a recording");
        assert_eq!(damage, None);
        recording
    }
}

/// The file that a recorder makes of facts.
pub fn file_of(facts: &[(FactSource, Fact)]) -> Vec<u8> {
    let mut recorder = Recorder::new(Vec::new()).expect("memory can be written");
    for (number, (source, fact)) in facts.iter().enumerate() {
        recorder.take(*source, fact);
        // Several frames, so that some are whole when others are not.
        if number % 8 == 7 {
            recorder.flush();
        }
    }
    recorder.finish().expect("memory can be written")
}
