//! HIP calls (AMD): the same families as CUDA, through the same programs and tables.

mod functions;

use crate::probe::{Attach, Probe, When};
use crate::raw::bpf_object;

pub(crate) static PROBE: Probe = Probe {
    name: "hip",
    about: "HIP launches, synchronisation, copies, memory, graphs and modules",
    object: bpf_object!("hip"),
    attach: Attach::Functions(functions::FUNCTIONS),
    when: When::Default,
    needs: None,
    cost: "as cuda",
};
