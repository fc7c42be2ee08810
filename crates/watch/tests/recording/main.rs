//! Recordings: facts go into a file and come back, and a file that is cut or damaged is read as far as it is
//! good.

mod damage;
mod deeds;
mod facts;
mod flow;
mod program;
