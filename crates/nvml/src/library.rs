//! The library itself: loaded, initialised, and shut down when the last handle into it is gone.

use crate::{Error, Gpu};
use nvml_wrapper::Nvml;
use std::ffi::OsStr;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Library(pub(crate) Arc<Nvml>);

impl Library {
    /// Loads it by name, as the dynamic linker finds it, or by path.
    pub fn open(name_or_path: &OsStr) -> Result<Library, Error> {
        Ok(Library(Arc::new(Nvml::builder().lib_path(name_or_path).init()?)))
    }

    pub fn driver_version(&self) -> Result<String, Error> {
        self.0.sys_driver_version()
    }

    /// Every GPU in the driver's order; one that does not answer is an error in its place.
    pub fn gpus(&self) -> Result<Vec<Result<Gpu, Error>>, Error> {
        Ok((0..self.0.device_count()?)
            .map(|index| Ok(Gpu::of(&self.0, &self.0.device_by_index(index)?)))
            .collect())
    }
}
