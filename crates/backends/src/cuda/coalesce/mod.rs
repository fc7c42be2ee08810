//! Small copies that follow each other become one launch: the window they are put into, and the thread that sends it.

pub mod apart;
pub mod gather;
pub mod quick;
pub mod sender;
pub mod sending;
