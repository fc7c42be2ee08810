//! Every parameter of every copy function with what it must not be: the exact code, a message that names the
//! function, and not one byte changed anywhere. Each file is one family; a row is a name, the bent arguments
//! and the code.

mod batch;
mod fill;
mod handles;
mod late;
mod linear;
mod messages;
mod order;
mod rectangle;
mod reduce;
mod scene;
