//! 12: a step of copies that is captured once and run a thousand times.
//!
//! A step that is always the same need not be submitted copy by copy: it is captured as a graph, and each
//! launch runs all of it as one piece of work. Addresses are those of the capture, bytes are those of the
//! execution: between two of them the program writes what the next one uploads. Where the graph has branches
//! they run side by side, and it ends when all of them have.

use ferry::Runtime;

const ROWS: usize = 64;
const BYTES: usize = 4096;
const STEPS: u8 = 250;
const AGAIN: u8 = 4;

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let source = runtime.alloc_host::<u8>(ROWS * BYTES)?;
    let result = runtime.alloc_host::<u8>(ROWS * BYTES)?;
    let arrived = device.alloc::<u8>(ROWS * BYTES)?;
    let turned = device.alloc::<u8>(ROWS * BYTES)?;
    let row = |number: usize| number * BYTES..(number + 1) * BYTES;

    // Nothing of this runs now. The two buffers of the host go to the graph, which owns them from here on;
    // what comes back are names for them.
    let (mut graph, (source, result)) = device.capture(|main| {
        let (source, result) = (main.keep(source), main.keep(result));
        main.upload(&arrived, source)?;
        // Inside the device the rows change places: the even ones in one branch, the odd ones in another,
        // which begins behind the upload.
        let side = main.fork()?;
        for number in 0..ROWS {
            let branch = if number % 2 == 0 { main } else { &side };
            branch.copy(turned.slice(row(ROWS - 1 - number))?, arrived.slice(row(number))?)?;
        }
        // The download needs both branches. Without this line it would come too early: but no line could
        // leave the branch out of the graph, which ends when all of them have.
        main.wait_for(&side);
        main.download(result, &turned)?;
        Ok((source, result))
    })?;

    for step in 0..STEPS {
        for (number, bytes) in graph[source].chunks_mut(BYTES).enumerate() {
            bytes.fill(step ^ number as u8);
        }
        // The graph goes along with the execution: there is no way to its bytes before it comes back.
        // Launching the token queues one more execution, without a wait in between.
        let mut token = graph.launch(&stream)?;
        for _ in 1..AGAIN {
            token = token.launch(&stream)?;
        }
        graph = token.wait()?;
        for (number, bytes) in graph[result].chunks(BYTES).enumerate() {
            let expected = step ^ (ROWS - 1 - number) as u8;
            assert!(bytes.iter().all(|byte| *byte == expected), "row {number} of step {step}");
        }
    }

    println!("ok: captured once, run {} times", STEPS as usize * AGAIN as usize);
    Ok(())
}
