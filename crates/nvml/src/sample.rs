//! A GPM sample: hardware counters at one moment; two of them give what was done in between. Hopper and newer.

use crate::{Error, Gpu, Metric};
use nvml_wrapper::Nvml;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper_sys::bindings::nvmlGpmSample_t;
use std::mem::ManuallyDrop;
use std::sync::Arc;

#[derive(Debug)]
pub struct Sample {
    library: Arc<Nvml>,
    handle: nvmlGpmSample_t,
}

// SAFETY: the library keeps nothing by thread in a sample; not `Sync`, since one must not be used by two at once.
unsafe impl Send for Sample {}

impl Sample {
    pub fn of(gpu: &Gpu) -> Result<Sample, Error> {
        let handle = gpu.device().gpm_sample()?.into_handle();
        Ok(Sample { library: Arc::clone(&gpu.library), handle })
    }

    /// Of a GPU instance of a divided GPU; `gpu` is the whole.
    pub fn of_instance(gpu: &Gpu, gpu_instance: u32) -> Result<Sample, Error> {
        let handle = gpu.device().gpm_mig_sample(gpu_instance)?.into_handle();
        Ok(Sample { library: Arc::clone(&gpu.library), handle })
    }

    /// What was done since an earlier sample of the same GPU, in the order of `metrics`.
    pub fn since(&self, earlier: &Sample, metrics: &[Metric]) -> Result<Vec<Option<f64>>, Error> {
        let results = gpm_metrics_get(&self.library, &earlier.borrowed(), &self.borrowed(), metrics)?;
        Ok(results
            .into_iter()
            .map(|result| Some(result.ok()?.value).filter(|value| value.is_finite()))
            .collect())
    }

    /// For a call of the wrapper. Never dropped, so `self` stays the one that frees it.
    fn borrowed(&self) -> ManuallyDrop<GpmSample<'_>> {
        // SAFETY: the handle was allocated by this library, is freed only in `drop`, and the borrow ends before that.
        ManuallyDrop::new(unsafe { GpmSample::from_handle(&self.library, self.handle) })
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        ManuallyDrop::into_inner(self.borrowed());
    }
}
