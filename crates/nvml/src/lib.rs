//! NVIDIA's management library, loaded at run time. The `nvml-wrapper` crate does most of it; what it lacks is here:
//! handles that own their library, so that samples and event sets outlive one reading, fields of a single link, and
//! the numbers of MIG instances.

mod event;
mod field;
mod gpu;
mod library;
mod sample;

pub use event::{Event, Events};
pub use field::{ALL_LINKS, Field};
pub use gpu::Gpu;
pub use library::Library;
pub use nvml_wrapper::bitmasks::device::ThrottleReasons;
pub use nvml_wrapper::bitmasks::event::EventTypes;
pub use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor,
};
pub use nvml_wrapper::enums::device::UsedGpuMemory;
pub use nvml_wrapper::enums::gpm::GpmMetricId as Metric;
pub use nvml_wrapper::error::NvmlError as Error;
pub use nvml_wrapper::struct_wrappers::device::ProcessInfo;
pub use nvml_wrapper::sys_exports::field_id;
pub use sample::Sample;
