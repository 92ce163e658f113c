//! The GPU driver in the kernel: who is in it, for how long, and who waits there.

use crate::function::Function;
use crate::load::Settings;
use crate::probe::{Attach, Library, Probe, When};
use crate::raw::{bpf_object, bytes_of, driver as raw};
use gpuwhy_model::{Family, Layer};

pub(crate) static PROBE: Probe = Probe {
    name: "driver",
    about: "ioctls on the GPU driver's device files, of every process, with what they waited for",
    object: bpf_object!("driver"),
    attach: Attach::Devices(DEVICES),
    when: When::Default,
    needs: None,
    cost: "a look at the file's device at each ioctl of the host; a flight and a sum at those of the driver",
};

/// A device file whose ioctls are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// As `nvidia-uvm`; one that is not in the table counts as `device`.
    pub name: String,
    pub major: u32,
    /// Nothing for all of that major.
    pub minor: Option<u32>,
}

const fn ioctl(symbol: &'static str) -> Function {
    Function::new(Library::Kernel, Layer::Driver, symbol, Family::Ioctl).handle(1).slow(1_000)
}

static DEVICES: &[Function] = &[
    ioctl("ioctl nvidia"),
    ioctl("ioctl nvidiactl"),
    ioctl("ioctl nvidia-uvm"),
    ioctl("ioctl nvidia-nvswitch"),
    ioctl("ioctl nvidia-caps"),
    ioctl("ioctl kfd"),
    ioctl("ioctl drm"),
    ioctl("ioctl device"),
];

/// The drivers' own functions behind their files, for kernels that have kprobes.
const FUNCTIONS: [&str; 3] = ["nvidia_unlocked_ioctl", "uvm_ioctl", "kfd_ioctl"];

/// Those that this kernel has. Devices that were named by hand have none that we know, so then there are none.
pub(crate) fn functions(settings: &Settings) -> Vec<String> {
    if !settings.driver_functions.is_empty() {
        return settings.driver_functions.clone();
    }
    if settings.devices.iter().any(|device| device.name == OTHER) {
        return Vec::new();
    }
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let there = |name: &&str| {
        symbols.lines().any(|line| line.split_ascii_whitespace().nth(2).is_some_and(|symbol| symbol == *name))
    };
    FUNCTIONS.into_iter().filter(there).map(ToString::to_string).collect()
}

/// What a device is called that was named by hand.
pub(crate) const OTHER: &str = "device";

const MAX: usize = 16;

/// The program's table of devices; `rule` gives the number of an operation.
pub(crate) fn table(devices: &[Device], rule: impl Fn(&str) -> Option<u32>) -> Vec<u8> {
    let empty = raw::device { major: 0, minor: 0, rule: 0 };
    let mut rows = [empty; MAX];
    for (row, device) in rows.iter_mut().zip(devices) {
        let number = rule(&format!("ioctl {}", device.name)).or_else(|| rule(&format!("ioctl {OTHER}")));
        *row = raw::device {
            major: device.major,
            minor: device.minor.map_or(-1, |minor| minor as i32),
            rule: number.unwrap_or(0),
        };
    }
    rows.iter().flat_map(|row| bytes_of(row).to_vec()).collect()
}
