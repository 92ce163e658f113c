//! All GPUs of the host together.

use super::error::{Identity, KINDS};
use super::process::gpus_of_processes;
use super::whole::Whole;
use crate::candidate_folders;
use gpuwhy_model::{GpuError, GpuSample};
use gpuwhy_nvml::{Error, Event, Events, Library};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

/// The name under which the driver installs it.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Events taken at once; a GPU in a storm of errors must not keep the caller from the others.
const MAX_EVENTS: usize = 256;

/// Reads samples and errors of the GPUs. A reading takes 1 to 5 ms a GPU, and 20 ms in all where a GPU
/// has no GPM: call it from a thread that may wait.
#[derive(Debug)]
pub struct GpuMeter {
    driver_version: String,
    gpus: Vec<Whole>,
    events: Option<Events>,
    /// Found while reading, not yet handed out.
    errors: Vec<GpuError>,
    gpus_of_processes: HashMap<u32, Option<u16>>,
}

impl GpuMeter {
    /// Loads the library, or says in a sentence why there is nothing to read.
    pub fn open() -> Result<GpuMeter, String> {
        GpuMeter::of(load())
    }

    /// The same of the library in this file.
    pub fn open_at(path: &Path) -> Result<GpuMeter, String> {
        GpuMeter::of(Library::open(path.as_os_str()))
    }

    fn of(library: Result<Library, Error>) -> Result<GpuMeter, String> {
        let library = library.map_err(|error| why(&error))?;
        let answers = library.gpus().map_err(|error| why(&error))?;
        if answers.is_empty() {
            return Err("the NVIDIA driver has no GPU".to_string());
        }
        let events = Events::new(&library).ok();
        let (mut gpus, mut errors) = (Vec::new(), Vec::new());
        for (number, answer) in (0..).zip(answers) {
            match answer {
                Ok(gpu) => gpus.push(Whole::new(number, gpu)),
                Err(Error::GpuLost) => {
                    errors.push(Identity { gpu: Some(number), ..Identity::default() }.lost(0));
                }
                // One this process may not use, as in a container with some of the host's GPUs.
                Err(_) => {}
            }
        }
        for gpu in &gpus {
            if let Some(events) = &events {
                // Not every GPU has events; the kernel's tracepoint tells Xids too.
                let _ = events.listen(&gpu.gpu, KINDS);
            }
        }
        Ok(GpuMeter {
            driver_version: library.driver_version().unwrap_or_default(),
            gpus,
            events,
            errors,
            gpus_of_processes: HashMap::new(),
        })
    }

    /// A sample of each GPU and of each part of one. Rates and GPM's figures are since the last reading, so the first
    /// has none. A GPU that is lost has no sample, and is told of once by [`GpuMeter::errors`].
    pub fn read(&mut self, now_ns: u64) -> Vec<GpuSample> {
        self.gpus.iter_mut().for_each(|gpu| gpu.begin(now_ns));
        let mut by_gpu: Vec<Vec<GpuSample>> = self.gpus.iter_mut().map(|gpu| gpu.read(now_ns)).collect();
        for (gpu, samples) in self.gpus.iter_mut().zip(&mut by_gpu) {
            gpu.end(now_ns, samples);
            self.errors.extend(gpu.newly_lost().then(|| gpu.identity.lost(now_ns)));
        }
        let samples: Vec<GpuSample> = by_gpu.into_iter().flatten().collect();
        self.gpus_of_processes = gpus_of_processes(&samples);
        samples
    }

    /// The errors since the last call. Does not wait.
    pub fn errors(&mut self, now_ns: u64) -> Vec<GpuError> {
        let mut errors = std::mem::take(&mut self.errors);
        if let Some(events) = &self.events {
            // A lost GPU answers here with an error; the reading finds out which it is.
            let next = || events.next().ok().flatten();
            errors.extend(std::iter::from_fn(next).take(MAX_EVENTS).map(|event| self.error(now_ns, &event)));
        }
        errors
    }

    fn error(&self, now_ns: u64, event: &Event) -> GpuError {
        let by_handle = self.gpus.iter().find(|gpu| gpu.gpu.is(&event.gpu));
        let by_uuid = || {
            let uuid = event.gpu.device().uuid().ok()?;
            self.gpus.iter().find(|gpu| gpu.identity.uuid == uuid)
        };
        match by_handle.or_else(by_uuid) {
            Some(gpu) => gpu.identity.happened(now_ns, event),
            None => Identity::default().happened(now_ns, event),
        }
    }

    /// The GPU a process uses, by the last reading; none where it uses several. Processes have the numbers of the
    /// host, whatever container they are in.
    pub fn gpu_of_pid(&self, pid: u32) -> Option<u16> {
        self.gpus_of_processes.get(&pid).copied().flatten()
    }

    /// The GPUs' models, by number.
    pub fn names(&self) -> Vec<String> {
        self.gpus.iter().map(|gpu| gpu.identity.name.clone()).collect()
    }

    pub fn driver_version(&self) -> &str {
        &self.driver_version
    }
}

/// By name, as any program finds it, else from the folders where drivers are put.
fn load() -> Result<Library, Error> {
    let by_name = Library::open(OsStr::new(LIBRARY));
    if !matches!(by_name, Err(Error::LibloadingError(_))) {
        return by_name;
    }
    candidate_folders(None)
        .into_iter()
        .map(|folder| folder.join(LIBRARY))
        .filter(|path| path.is_file())
        .map(|path| Library::open(path.as_os_str()))
        .find(|opened| !matches!(opened, Err(Error::LibloadingError(_))))
        .unwrap_or(by_name)
}

fn why(error: &Error) -> String {
    match error {
        Error::LibloadingError(_) => format!("there is no NVIDIA driver: {LIBRARY} is not found"),
        Error::DriverNotLoaded => "the NVIDIA kernel driver is not loaded".to_string(),
        Error::LibRmVersionMismatch => {
            "the NVIDIA library and the loaded kernel driver are of different versions (updated without a reboot?)"
                .to_string()
        }
        Error::NoPermission => "this user may not ask the NVIDIA driver".to_string(),
        other => format!("the NVIDIA management library does not start: {other}"),
    }
}

// A thread of its own asks the driver.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<GpuMeter>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_not_is_a_sentence() {
        assert_eq!(why(&Error::DriverNotLoaded), "the NVIDIA kernel driver is not loaded");
        assert!(why(&Error::LibRmVersionMismatch).contains("different versions"));
        assert!(why(&Error::Unknown).starts_with("the NVIDIA management library does not start: "));
    }
}
