//! 01: copy a rectangle out of a picture to the device and back.
//!
//! A picture in memory is rows of pixels. The distance from the start of one row to the start of the next is
//! its pitch. A matrix says how many rows and columns there are, and the pitch; a rectangle of a matrix is a
//! matrix again. A copy takes one at either end, and leaves alone what lies between the end of one row and
//! the start of the next.

use ferry::Runtime;

const PICTURE_WIDTH: usize = 16; // the picture, one byte per pixel
const PICTURE_HEIGHT: usize = 8;
const LEFT: usize = 4; // the part of it that we want
const TOP: usize = 2;
const WIDTH: usize = 8;
const HEIGHT: usize = 4;
const DEVICE_PITCH: usize = 64; // rows on the device start at multiples of 64

fn show(title: &str, picture: &[u8]) {
    println!("{title}");
    for row in picture.chunks(PICTURE_WIDTH) {
        println!("  {}", String::from_utf8_lossy(row));
    }
}

fn main() -> ferry::Result<()> {
    // Open what the environment asks for, and take a device of it.
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;

    // Page-locked host memory: with it the copies below only hand over work and return at once. Plain memory
    // is copied by other methods, `write` and `read`, which return when the copy is done.
    let mut picture = runtime.alloc_host::<u8>(PICTURE_WIDTH * PICTURE_HEIGHT)?;
    let mut result = runtime.alloc_host::<u8>(PICTURE_WIDTH * PICTURE_HEIGHT)?;
    // Device memory: a handle to give to a stream. The program itself cannot look behind it.
    let there = device.alloc::<u8>(DEVICE_PITCH * HEIGHT)?;

    for (at, pixel) in picture.iter_mut().enumerate() {
        *pixel = b'a' + ((at / PICTURE_WIDTH + at % PICTURE_WIDTH) % 26) as u8;
    }
    result.fill(b'.');
    show("the picture:", &picture);

    // To the device: HEIGHT rows of WIDTH pixels, PICTURE_WIDTH apart here and DEVICE_PITCH apart there. The
    // copy takes the picture with it: from here to `sent.wait()` nobody can read or change it, and the
    // compiler sees to that.
    let (rows, cols) = (TOP..TOP + HEIGHT, LEFT..LEFT + WIDTH);
    let there = there.matrix_pitched(HEIGHT, WIDTH, DEVICE_PITCH)?;
    let part = picture.into_matrix(PICTURE_HEIGHT, PICTURE_WIDTH, PICTURE_WIDTH)?;
    let sent = stream.upload(there, part.rect(rows.clone(), cols.clone())?)?;

    // And back, into the middle of a picture of dots. A stream runs its work in order, so this copy sees what
    // the first wrote.
    let frame = result.into_matrix(PICTURE_HEIGHT, PICTURE_WIDTH, PICTURE_WIDTH)?;
    let back = stream.download(frame.rect(rows.clone(), cols.clone())?, there)?;

    // Success so far means: handed over. The buffers come back when their copies are done.
    let picture = sent.wait()?.into_inner();
    let result = back.wait()?.into_inner();
    show("the part that went to the device and back:", &result);

    for (at, pixel) in result.iter().enumerate() {
        let (row, col) = (at / PICTURE_WIDTH, at % PICTURE_WIDTH);
        let want = if rows.contains(&row) && cols.contains(&col) { picture[at] } else { b'.' };
        assert_eq!(*pixel, want, "row {row}, column {col}");
    }
    // There is nothing to free or to destroy: that happens as the handles go.
    println!("ok: {HEIGHT} rows of {WIDTH} bytes, and not a byte between them");
    Ok(())
}
