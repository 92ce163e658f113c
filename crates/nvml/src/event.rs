//! Events a GPU raises: an Xid, a memory error.

use crate::{Error, EventTypes, Gpu, Library};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::{nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings::{nvmlEventData_t, nvmlEventSet_t};
use std::ptr::null_mut;
use std::sync::Arc;

/// The library's number where an event is of no instance.
const NO_INSTANCE: u32 = u32::MAX;

/// What is listened to.
#[derive(Debug)]
pub struct Events {
    library: Arc<Nvml>,
    set: nvmlEventSet_t,
}

// SAFETY: the library keeps nothing by thread in a set; not `Sync`, since one must not be used by two at once.
unsafe impl Send for Events {}

#[derive(Debug, Clone)]
pub struct Event {
    pub gpu: Gpu,
    pub kind: EventTypes,
    /// Of an Xid, its number.
    pub data: u64,
    /// On a divided GPU, the GPU instance and the compute instance.
    pub instance: Option<(u32, u32)>,
}

impl Events {
    pub fn new(library: &Library) -> Result<Events, Error> {
        let create = nvml_sym(library.0.lib().nvmlEventSetCreate.as_ref())?;
        let mut set: nvmlEventSet_t = null_mut();
        // SAFETY: the call writes one handle into a local variable.
        nvml_try(unsafe { create(&raw mut set) })?;
        Ok(Events { library: Arc::clone(&library.0), set })
    }

    /// Listens to those of `kinds` that the GPU has. The wrapper's function frees the set when a GPU refuses, which
    /// would end the listening to all others.
    pub fn listen(&self, gpu: &Gpu, kinds: EventTypes) -> Result<(), Error> {
        let register = nvml_sym(self.library.lib().nvmlDeviceRegisterEvents.as_ref())?;
        let kinds = kinds & gpu.device().supported_event_types()?;
        // SAFETY: both handles are valid while `library` is.
        nvml_try(unsafe { register(gpu.handle, kinds.bits(), self.set) })
    }

    /// The next event that has already happened; does not wait.
    pub fn next(&self) -> Result<Option<Event>, Error> {
        let wait = nvml_sym(self.library.lib().nvmlEventSetWait_v2.as_ref())?;
        let mut data = nvmlEventData_t {
            device: null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        };
        // SAFETY: the set is valid while `library` is, and the call writes one event into a local variable.
        match nvml_try(unsafe { wait(self.set, &raw mut data, 0) }) {
            Ok(()) => Ok(Some(Event {
                gpu: Gpu { library: Arc::clone(&self.library), handle: data.device },
                kind: EventTypes::from_bits_truncate(data.eventType),
                data: data.eventData,
                instance: Some((data.gpuInstanceId, data.computeInstanceId))
                    .filter(|(gpu, compute)| *gpu != NO_INSTANCE && *compute != NO_INSTANCE),
            })),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Ok(free) = &self.library.lib().nvmlEventSetFree {
            // SAFETY: the set was created by this library and is freed only here.
            unsafe { free(self.set) };
        }
    }
}
