// Says of a type of its own that it is page-locked memory.
//@ error: E0277
//@ error: E0046
use ferry::HostRead;

struct Mine([u8; 4]);

impl HostRead for Mine {
    type Elem = u8;
    type Buffer = Mine;
}

fn main() {}
