//! The comparison of ranks, measured on simulated jobs whose faults are known.

mod cases;
mod clocks;
mod explained;
mod hangs;
mod noise;
mod planted;
mod roles;
