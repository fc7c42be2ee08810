//! 02: any host memory: plain memory is copied at once, page-locked memory is handed over.
//!
//! In C one call looks at the host memory that it is given and either waits or does not
//! (aclrtMemcpyAsyncWithCondition). Here the type says which memory it is, and the method which of the two
//! happens: `write` and `read` take plain slices and return when the copy is done; `upload` and `download`
//! take page-locked buffers and give a token.

use ferry::{Kind, Runtime};

const COUNT: usize = 1000;

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let there = device.alloc::<i32>(COUNT)?;

    // Plain memory: when the call is back, the copy is done, and the memory may go.
    let numbers: Vec<i32> = (0..COUNT as i32).map(|i| i * i).collect();
    stream.write(&there, &numbers)?;
    drop(numbers);
    println!("plain memory: copied when the call came back");

    // Page-locked memory: the call hands the copy over and takes the buffer with it; the numbers come with
    // the buffer.
    let token = stream.download(runtime.alloc_host::<i32>(COUNT)?, &there)?;
    let back = token.wait()?;
    println!("page-locked memory: handed over, and there when the token was waited for");
    assert!(back.iter().enumerate().all(|(i, number)| *number == (i * i) as i32));

    // Plain memory and no waiting, for the price of one more copy: the bytes are taken before the call
    // returns.
    let mut small = [7; 10];
    stream.write_staged(there.slice(..10)?, &small)?;
    small.fill(0);
    assert_eq!(stream.read_vec(there.slice(..10)?)?, [7; 10]);
    println!("staged: the memory could change while the copy was on its way");

    // What does not work: a copy inside the host. There is `copy_from_slice` for that, and no method here
    // would take it. What only shows when the program runs is refused with an error that says what was wrong,
    // and that has the buffer in it.
    let failed = stream.upload(there.slice(..999)?, back).expect_err("1000 numbers into 999 places");
    assert_eq!(failed.error.kind, Kind::BadShape);
    println!("too little room: refused. The message:\n{}", failed.error);
    let back = failed.buffer;
    assert_eq!(back[999], 999 * 999);

    println!("ok: {COUNT} numbers there and back");
    Ok(())
}
