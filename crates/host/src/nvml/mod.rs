//! What NVIDIA's management library says of the GPUs, once a second.

mod activity;
mod asked;
mod counters;
mod divided;
mod error;
mod meter;
mod pcie;
mod process;
mod rate;
mod throttle;
mod whole;

pub use meter::GpuMeter;
