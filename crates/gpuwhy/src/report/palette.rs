//! A colour for each class of cause, those of the dashboard: the first word of a class is its family, classes of a family differ in
//! shade. A test compares them with `web/shared/palette.js`.

use gpuwhy_model::Cause;

const FAMILIES: [(&str, [i32; 3]); 15] = [
    ("cpu", [351, 78, 64]),
    ("lock", [321, 54, 43]),
    ("python", [321, 54, 43]),
    ("mem", [52, 58, 50]),
    ("numa", [52, 58, 50]),
    ("io", [130, 60, 34]),
    ("copy", [130, 60, 34]),
    ("net", [195, 76, 62]),
    ("rdma", [195, 76, 62]),
    ("gpu", [210, 45, 46]),
    ("launch", [230, 45, 62]),
    ("graph", [230, 45, 62]),
    ("driver", [175, 70, 28]),
    ("rank", [25, 80, 62]),
    ("proc", [25, 45, 45]),
];
/// What a thread does by itself, and what is not explained.
const PLAIN: [(&str, [i32; 3]); 3] =
    [("cpu.self", [42, 70, 74]), ("self.sleep", [285, 28, 68]), ("unknown", [0, 0, 55])];
const SHADES: [(&str, i32); 14] = [
    ("gpu.alloc", 16),
    ("gpu.coldstart", -14),
    ("gpu.throttle", 24),
    ("gpu.error", -22),
    ("gpu.memory", 8),
    ("cpu.throttled", -16),
    ("cpu.interrupt", 12),
    ("mem.reclaim", -14),
    ("mem.oom", -24),
    ("io.file", 18),
    ("net.tcp", -22),
    ("rank.hang", -20),
    ("python.gil", 16),
    ("python.gc", 28),
];

pub(super) fn colour(cause: Cause) -> String {
    let name = cause.name();
    let family = name.split('.').next().unwrap_or(name);
    let plain = PLAIN.iter().find(|(class, _)| *class == name);
    let found = plain.or_else(|| FAMILIES.iter().find(|(known, _)| *known == family));
    let [hue, saturation, light] = found.map_or([0, 0, 55], |(_, colour)| *colour);
    let shade = SHADES.iter().find(|(class, _)| *class == name).map_or(0, |(_, shade)| *shade);
    format!("hsl({hue} {saturation}% {}%)", light + shade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_dashboard() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/shared/palette.js");
        let script = std::fs::read_to_string(script).unwrap();
        for (family, [hue, saturation, light]) in FAMILIES {
            assert!(script.contains(&format!("  {family}: [{hue}, {saturation}, {light}],\n")), "{family}");
        }
        for (class, [hue, saturation, light]) in PLAIN {
            let class = if class.contains('.') { format!("\"{class}\"") } else { class.into() };
            assert!(script.contains(&format!("{class}: \"hsl({hue} {saturation}% {light}%)\"")), "{class}");
        }
        for (class, shade) in SHADES {
            assert!(script.contains(&format!("  \"{class}\": {shade},\n")), "{class}");
        }
        let entries = script.lines().filter(|line| line.starts_with("  \"")).count();
        assert_eq!(entries, SHADES.len(), "the dashboard has others");
    }

    /// Of two neighbours in a bar one can be told from the other.
    #[test]
    fn every_class_has_a_colour_and_computing_is_not_sleeping() {
        for cause in Cause::ALL {
            assert!(*cause == Cause::Unknown || colour(*cause) != colour(Cause::Unknown), "{}", cause.name());
        }
        assert_ne!(colour(Cause::CpuSelf), colour(Cause::SelfSleep));
    }
}
