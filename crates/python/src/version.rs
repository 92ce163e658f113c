//! Which CPython a file is.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
    pub micro: u8,
    /// Built without the GIL: its objects have other sizes.
    pub free_threaded: bool,
}

impl Version {
    /// From `PY_VERSION_HEX`, which `Py_Version` holds.
    pub(crate) fn from_hex(hex: u64, free_threaded: bool) -> Self {
        Self { major: (hex >> 24) as u8, minor: (hex >> 16) as u8, micro: (hex >> 8) as u8, free_threaded }
    }

    /// From the name of a file: `python3.12`, `python3.13t`, `libpython3.9.so.1.0`. A bare `python3` does not say.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python3.")?;
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let minor = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let (free_threaded, tail) = match tail.strip_prefix('t') {
            Some(tail) => (true, tail),
            None => (false, tail.strip_prefix('d').unwrap_or(tail)),
        };
        (tail.is_empty() || tail.starts_with(".so")).then_some(Self {
            major: 3,
            minor,
            micro: 0,
            free_threaded,
        })
    }

    /// From the text `Py_GetVersion` begins with, which stands alone among a file's constants: `3.10.13`, `3.13.0rc1+`.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.strip_suffix('+').unwrap_or(text).splitn(3, '.');
        let major: u8 = parts.next()?.parse().ok()?;
        let minor: u8 = parts.next()?.parse().ok()?;
        let micro = parts.next()?;
        let digits = micro.len() - micro.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let stage = micro[digits..].trim_end_matches(|letter: char| letter.is_ascii_digit());
        let version = Self { major, minor, micro: micro[..digits].parse().ok()?, free_threaded: false };
        (major == 3 && matches!(stage, "" | "a" | "b" | "rc")).then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = if self.free_threaded { "t" } else { "" };
        write!(out, "{}.{}{t}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_version() {
        let of = |name| Version::from_name(name).map(|version| version.to_string());
        assert_eq!(of("python3.12").as_deref(), Some("3.12"));
        assert_eq!(of("python3.13t").as_deref(), Some("3.13t"));
        assert_eq!(of("python3.11d").as_deref(), Some("3.11"));
        assert_eq!(of("libpython3.9.so.1.0").as_deref(), Some("3.9"));
        assert_eq!(of("libpython3.14t.so.1.0").as_deref(), Some("3.14t"));
        for name in
            ["python3", "libpython3.so", "python3.12-config", "pythonic", "libpython3.x.so", "python2.7"]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn texts_tell_the_version() {
        let of =
            |text: &str| Version::from_text(text.as_bytes()).map(|version| (version.minor, version.micro));
        assert_eq!(of("3.9.18"), Some((9, 18)));
        assert_eq!(of("3.13.0rc1+"), Some((13, 0)));
        for text in ["3.9", "3.9.x", "1.3.1", "3.9.1-2", "3.40.1 linux", ""] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn the_hex_version_is_read() {
        let version = Version::from_hex(0x030d_0af0, true);
        assert_eq!((version.minor, version.micro, version.to_string()), (13, 10, "3.13t".to_string()));
    }
}
