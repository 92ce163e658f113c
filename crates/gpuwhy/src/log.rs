//! The program's own messages.

/// One line on standard error, or nothing where that cannot be written.
macro_rules! log {
    ($($words:tt)*) => {
        gpuwhy_model::log::write("gpuwhy", format_args!($($words)*))
    };
}
pub(crate) use log;
