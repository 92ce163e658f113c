//! Messages on standard error. `eprintln!` panics where that cannot be written, as on a full disk.

use std::fmt::Arguments;
use std::io::Write;

/// One line, or nothing.
pub fn write(program: &str, words: Arguments<'_>) {
    // There is no other place for it.
    let _ = writeln!(std::io::stderr(), "{program}: {words}");
}
