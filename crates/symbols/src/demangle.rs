//! Names as they were written. A few bytes of a mangled name can stand for gigabytes, so output is cut off.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

const MAX_LEN: usize = 4096;
/// Templates make long ones; longer ones are shown as they are.
const MAX_MANGLED_LEN: usize = 64 << 10;

pub(crate) fn demangle(name: &str) -> String {
    if name.len() > MAX_MANGLED_LEN || !name.starts_with('_') {
        return cut(name).to_string();
    }
    let mut out = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let _ = write!(out, "{rust:#}");
        return out.0;
    }
    if let Ok(symbol) = Symbol::new(name) {
        let done = symbol.structured_demangle(&mut out, &DemangleOptions::default());
        if done.is_ok() || out.0.len() >= MAX_LEN / 2 {
            return out.0;
        }
    }
    cut(name).to_string()
}

/// At most the longest name, whole characters.
pub(crate) fn cut(name: &str) -> &str {
    first(name, MAX_LEN)
}

fn first(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_LEN - self.0.len();
        self.0.push_str(first(text, room));
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_and_cpp_names_are_demangled() {
        assert_eq!(demangle("_ZN2at6native3addERKNS_6TensorE"), "at::native::add(at::Tensor const&)");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("cudaLaunchKernel"), "cudaLaunchKernel");
        assert_eq!(demangle("_Z"), "_Z");
    }

    /// Each substitution doubles the name: 2^60 characters if nobody stops it.
    #[test]
    fn bombs_are_cut() {
        let mut name = String::from("_Z1fPFvvE");
        for level in 0..60 {
            let before = if level == 0 { "S_".to_string() } else { format!("S{}_", base36(level - 1)) };
            name.push_str(&format!("PFv{before}{before}E"));
        }
        assert!(demangle(&name).len() <= MAX_LEN);
        assert!(demangle(&"x".repeat(1 << 20)).len() <= MAX_LEN);
        assert!(demangle(&format!("_{}", "é".repeat(1 << 16))).len() <= MAX_LEN);
    }

    fn base36(number: usize) -> String {
        let digit = |value: usize| char::from_digit(value as u32, 36).unwrap().to_ascii_uppercase();
        if number < 36 {
            digit(number).into()
        } else {
            format!("{}{}", digit(number / 36), digit(number % 36))
        }
    }
}
