//! The real binary, end to end, under real eBPF where it is allowed.

mod support;

mod blame;
mod counting;
mod discovery;
mod lifecycle;
