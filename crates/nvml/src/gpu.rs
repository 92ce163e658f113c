//! A GPU, or a part of one that is divided (MIG).

use crate::{Error, Field};
use nvml_wrapper::error::{nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::nvmlDevice_t;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Gpu {
    pub(crate) library: Arc<Nvml>,
    pub(crate) handle: nvmlDevice_t,
}

// SAFETY: the handle is a name only the library looks into, its functions may be called from any thread, and it is
// valid until the library is shut down, which `library` prevents.
unsafe impl Send for Gpu {}

impl Gpu {
    pub(crate) fn of(library: &Arc<Nvml>, device: &Device<'_>) -> Gpu {
        // SAFETY: the handle is only copied; `library` is the one the device came from in every caller.
        Gpu { library: Arc::clone(library), handle: unsafe { device.handle() } }
    }

    /// What the wrapper can ask of it.
    pub fn device(&self) -> Device<'_> {
        // SAFETY: the handle came from this library, which lives as long as `self`.
        unsafe { Device::new(self.handle, &self.library) }
    }

    pub fn is(&self, other: &Gpu) -> bool {
        self.handle == other.handle
    }

    /// Whether it is divided into instances now. Not supported by most GPUs.
    pub fn is_divided(&self) -> Result<bool, Error> {
        Ok(self.device().mig_mode()?.current != 0)
    }

    /// The instances it is divided into; slots without one are passed over.
    pub fn parts(&self) -> Result<Vec<Gpu>, Error> {
        let device = self.device();
        Ok((0..device.mig_device_count()?)
            .filter_map(|slot| Some(Gpu::of(&self.library, &device.mig_device_by_index(slot).ok()?)))
            .collect())
    }

    /// Of a part: the numbers of its GPU instance and of its compute instance within that.
    pub fn instance(&self) -> Result<(u32, u32), Error> {
        let functions = self.library.lib();
        let gpu = nvml_sym(functions.nvmlDeviceGetGpuInstanceId.as_ref())?;
        let compute = nvml_sym(functions.nvmlDeviceGetComputeInstanceId.as_ref())?;
        let (mut gpu_id, mut compute_id) = (0, 0);
        // SAFETY: the handle is valid while `library` is, and each call writes one number into a local variable.
        unsafe {
            nvml_try(gpu(self.handle, &raw mut gpu_id))?;
            nvml_try(compute(self.handle, &raw mut compute_id))?;
        }
        Ok((gpu_id, compute_id))
    }

    /// Fields by one call, which is cheaper than a call for each; one that is refused is an error in its place.
    pub fn fields(&self, fields: &[Field]) -> Result<Vec<Result<u64, Error>>, Error> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let get = nvml_sym(self.library.lib().nvmlDeviceGetFieldValues.as_ref())?;
        let mut values: Vec<_> = fields.iter().map(Field::question).collect();
        // SAFETY: the handle is valid while `library` is; the library fills in as many values as it is told there are.
        nvml_try(unsafe { get(self.handle, values.len() as i32, values.as_mut_ptr()) })?;
        Ok(values.into_iter().map(Field::answer).collect())
    }
}
