//! Errors GPUs report through the management library.

use gpuwhy_model::GpuError;
use gpuwhy_nvml::{Event, EventTypes};

/// What is listened to: corrected memory errors are counted in the samples and no news.
pub(super) const KINDS: EventTypes = EventTypes::CRITICAL_XID_ERROR.union(EventTypes::DOUBLE_BIT_ECC_ERROR);

/// Which GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Identity {
    pub(super) gpu: Option<u32>,
    pub(super) uuid: String,
    pub(super) name: String,
    /// Its address on the PCI bus.
    pub(super) device: String,
}

impl Identity {
    /// It fell off the bus: nothing can be asked of it any more.
    pub(super) fn lost(&self, time_ns: u64) -> GpuError {
        self.error(time_ns, "lost", 0, "the GPU fell off the bus".to_string())
    }

    pub(super) fn happened(&self, time_ns: u64, event: &Event) -> GpuError {
        self.reported(time_ns, event.kind, event.data, event.instance)
    }

    fn reported(&self, time_ns: u64, kind: EventTypes, data: u64, instance: Option<(u32, u32)>) -> GpuError {
        let place = instance.map(|(gpu, compute)| format!("in instance {gpu}/{compute}"));
        if kind.contains(EventTypes::CRITICAL_XID_ERROR) {
            let code = i64::try_from(data).unwrap_or(i64::MAX);
            return self.error(time_ns, "xid", code, place.unwrap_or_default());
        }
        let what = "uncorrected memory error";
        self.error(time_ns, "ecc", 0, place.map_or(what.to_string(), |place| format!("{what} {place}")))
    }

    fn error(&self, time_ns: u64, event: &str, code: i64, message: String) -> GpuError {
        GpuError {
            time_ns,
            event: event.to_string(),
            gpu: self.gpu,
            uuid: self.uuid.clone(),
            device: self.device.clone(),
            code,
            pid: None,
            message,
            source: "nvml".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            gpu: Some(3),
            uuid: "GPU-1".to_string(),
            name: "NVIDIA H200".to_string(),
            device: "00000000:3B:00.0".to_string(),
        }
    }

    #[test]
    fn an_xid_has_its_number_and_its_gpu() {
        let error = identity().reported(9, EventTypes::CRITICAL_XID_ERROR, 79, None);
        assert_eq!((error.event.as_str(), error.code, error.gpu), ("xid", 79, Some(3)));
        assert_eq!((error.device.as_str(), error.source.as_str()), ("00000000:3B:00.0", "nvml"));
        let error = identity().reported(9, EventTypes::CRITICAL_XID_ERROR, 31, Some((2, 0)));
        assert_eq!(error.message, "in instance 2/0");
    }

    #[test]
    fn other_events_are_named() {
        let error = identity().reported(9, EventTypes::DOUBLE_BIT_ECC_ERROR, 0, None);
        assert_eq!((error.event.as_str(), error.message.as_str()), ("ecc", "uncorrected memory error"));
        assert_eq!(identity().lost(9).event, "lost");
    }
}
