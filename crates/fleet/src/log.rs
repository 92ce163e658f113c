//! The server's own messages, on standard error: `eprintln!` panics where that cannot be written, as on a full disk.

/// One line, or nothing.
macro_rules! log {
    ($($words:tt)*) => {
        $crate::log::write(format_args!($($words)*))
    };
}
pub(crate) use log;

pub(crate) fn write(words: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // There is no other place for it.
    let _ = writeln!(std::io::stderr(), "gpuwhy-fleet: {words}");
}
