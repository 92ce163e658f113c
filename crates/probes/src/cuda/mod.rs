//! CUDA calls. Launches are probed at the driver, where every one passes once; so are nodes added to graphs.
//! Synchronisation, copies and memory are probed at the runtime and at the driver, where the outermost call counts.

mod functions;

use crate::probe::{Attach, Probe, When};
use crate::raw::bpf_object;

pub(crate) static PROBE: Probe = Probe {
    name: "cuda",
    about: "CUDA launches, synchronisation, copies, memory, graphs, modules and contexts, on the runtime and the driver",
    object: bpf_object!("cuda"),
    attach: Attach::Functions(functions::FUNCTIONS),
    when: When::Default,
    needs: None,
    cost: "two traps a call; one where a session probe skips a nested call's return",
};
