//! The real binary: others' clients push to it and ask it, it is killed and filled, and what it says is compared with what was
//! put in.

mod access;
mod attacks;
mod clients;
mod crashes;
mod dashboard;
mod loads;
mod pushes;
mod ranks;
mod server;
mod supply;
