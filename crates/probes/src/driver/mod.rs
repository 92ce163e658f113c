//! The GPU driver in the kernel: who is in it, for how long, and who waits there.

use crate::function::Function;
use crate::probe::{Attach, Library, Probe, When};
use crate::raw::{bpf_object, bytes_of, driver as raw};
use gpuwhy_model::{Family, Layer};

pub(crate) static PROBE: Probe = Probe {
    name: "driver",
    about: "ioctls on the GPU driver's device files, of every process, with what they waited for",
    object: bpf_object!("driver"),
    attach: Attach::Devices(DEVICES),
    when: When::Default,
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

const MOST: usize = 16;

/// The program's table of devices; `rule` gives the number of an operation.
pub(crate) fn table(devices: &[Device], rule: impl Fn(&str) -> Option<u32>) -> Vec<u8> {
    let empty = raw::device { major: 0, minor: 0, rule: 0 };
    let mut rows = [empty; MOST];
    for (row, device) in rows.iter_mut().zip(devices) {
        let number = rule(&format!("ioctl {}", device.name)).or_else(|| rule("ioctl device"));
        *row = raw::device {
            major: device.major,
            minor: device.minor.map_or(-1, |minor| minor as i32),
            rule: number.unwrap_or(0),
        };
    }
    rows.iter().flat_map(|row| bytes_of(row).to_vec()).collect()
}
