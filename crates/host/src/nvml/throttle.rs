//! Why a GPU's clocks are lower than they could be.

use gpuwhy_nvml::ThrottleReasons;

/// Names of the reasons. That the GPU has nothing to do is not one: its clocks are low because nobody wants them high.
const NAMES: &[(ThrottleReasons, &str)] = &[
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application_clocks"),
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clocks"),
];

pub(super) fn names(reasons: ThrottleReasons) -> Vec<String> {
    NAMES
        .iter()
        .filter(|(reason, _)| reasons.contains(*reason))
        .map(|(_, name)| (*name).to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_is_no_reason() {
        assert!(names(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(names(ThrottleReasons::NONE).is_empty());
    }

    #[test]
    fn every_bit_of_the_library_has_its_name() {
        // Numbers of nvml.h, so that a change of the wrapper shows.
        for (bit, name) in [
            (0x2, "application_clocks"),
            (0x4, "sw_power_cap"),
            (0x8, "hw_slowdown"),
            (0x10, "sync_boost"),
            (0x20, "sw_thermal"),
            (0x40, "hw_thermal"),
            (0x80, "hw_power_brake"),
            (0x100, "display_clocks"),
        ] {
            assert_eq!(names(ThrottleReasons::from_bits_truncate(bit)), [name]);
        }
        assert_eq!(
            names(ThrottleReasons::from_bits_truncate(0x1 | 0x4 | 0x40)),
            ["sw_power_cap", "hw_thermal"]
        );
    }
}
