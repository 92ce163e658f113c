//! Names of kernels: mangled as compiled, demangled for people. Processes of one job run the same kernels, so each
//! name is demangled and kept once.

use crate::table::Table;
use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use std::fmt;
use std::sync::Arc;

/// Longer than any compiler's own kernels; a name is a stranger's data.
const MAX_MANGLED_BYTES: usize = 16 * 1024;
/// Template arguments make names of many kilobytes that nobody reads to the end.
const MAX_NAME_CHARS: usize = 1024;
const ELLIPSIS: char = '…';
/// Names kept to be found again; PyTorch registers 21,504 kernels.
const MAX_NAMES: usize = 65_536;
/// Deep enough for templates of templates, shallow enough for the stack of a thread.
const MAX_DEPTH: u32 = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) mangled: Arc<str>,
    /// Demangled.
    pub(crate) name: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct Names {
    known: Table<Arc<str>, Name>,
}

impl Names {
    pub(crate) fn new() -> Self {
        Names { known: Table::new(MAX_NAMES) }
    }

    pub(crate) fn of(&mut self, mangled: &str) -> Name {
        let mangled = cut(mangled, MAX_MANGLED_BYTES);
        if let Some(known) = self.known.get(mangled) {
            return known.clone();
        }
        let name = Name { mangled: mangled.into(), name: demangle(mangled).into() };
        self.known.insert(name.mangled.clone(), name.clone());
        name
    }
}

fn cut(text: &str, most_bytes: usize) -> &str {
    if text.len() <= most_bytes {
        return text;
    }
    let end = (0..=most_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// The full signature of a C++ function, not too long; other names as they are.
fn demangle(mangled: &str) -> String {
    let mut short = Short::default();
    if !demangle_into(mangled, &mut short) {
        short = Short::default();
        // Fails only where it is full, which is all that is wanted.
        let _ = short.write_string(mangled);
    }
    if short.full {
        short.text.pop();
        short.text.push(ELLIPSIS);
    }
    short.text
}

/// Whether it is a C++ name, as far as there was room for it.
fn demangle_into(mangled: &str, out: &mut Short) -> bool {
    if !mangled.starts_with("_Z") {
        return false;
    }
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let Ok(symbol) = Symbol::new_with_options(mangled, &parse) else { return false };
    let options = DemangleOptions::new().recursion_limit(MAX_DEPTH);
    // A few bytes of substitutions can stand for gigabytes: the end of the room ends the work.
    symbol.structured_demangle(out, &options).is_ok() || out.full
}

/// Text with room for so many characters.
#[derive(Debug, Default)]
struct Short {
    text: String,
    chars: usize,
    full: bool,
}

impl DemangleWrite for Short {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.chars == MAX_NAME_CHARS {
                self.full = true;
                return Err(fmt::Error);
            }
            self.text.push(character);
            self.chars += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_names_are_demangled_and_others_are_not() {
        assert_eq!(demangle("_Z6vecAddPKfS0_Pfi"), "vecAdd(float const*, float const*, float*, int)");
        assert_eq!(
            demangle("_ZN2at6native13reduce_kernelILi512ELi1EfEEvT1_"),
            "void at::native::reduce_kernel<512, 1, float>(float)"
        );
        for plain in ["triton_poi_fused_add_0", "_Znonsense", "_Z", "", "_RNvC1a1b", "naïve\u{7}"] {
            assert_eq!(demangle(plain), plain);
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let plain = "é".repeat(3000);
        let name = demangle(&plain);
        assert_eq!(name.chars().count(), MAX_NAME_CHARS);
        assert!(name.ends_with("é…"));
        assert_eq!(demangle(&"x".repeat(MAX_NAME_CHARS)), "x".repeat(MAX_NAME_CHARS));

        let long = format!("_Z{}{}v", 2000, "a".repeat(2000));
        assert_eq!(demangle(&long), format!("{}…", "a".repeat(MAX_NAME_CHARS - 1)));

        let mut names = Names::new();
        let huge = "é".repeat(MAX_MANGLED_BYTES);
        assert_eq!(names.of(&huge).mangled.len(), MAX_MANGLED_BYTES);
    }

    /// Each argument is a pair of the one before: 60 of them would be 2^60 characters.
    #[test]
    fn names_that_explode_are_cut() {
        let mut mangled = String::from("_Z1f1pIiiE");
        for i in 0..60 {
            let before = format!("S{}_", base36(i));
            mangled.push_str(&format!("S_I{before}{before}E"));
        }
        let name = demangle(&mangled);
        assert!(
            name.starts_with("f(p<int, int>, p<p<int, int>, p<int, int> >,") && name.ends_with(ELLIPSIS),
            "{name}"
        );
        assert_eq!(name.chars().count(), MAX_NAME_CHARS);
    }

    fn base36(mut number: usize) -> String {
        let mut digits = Vec::new();
        loop {
            digits.push(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 36]);
            number /= 36;
            if number == 0 {
                break;
            }
        }
        digits.iter().rev().map(|digit| char::from(*digit)).collect()
    }

    #[test]
    fn deep_and_random_names_do_no_harm() {
        demangle(&format!("_Z1f{}i", "P".repeat(4000)));
        demangle(&format!("_Z1f{}iE", "1aI".repeat(1300)));
        demangle(&format!("_Z{}1fE", "N".repeat(4000)));
        let alphabet = b"_ZNKISTLPRE0123456789acdfhijklmnostvxDJXpS_";
        let mut random = crate::testing::Random::new(7);
        for _ in 0..20_000 {
            let length = random.below(80) as usize;
            let tail: String = (0..length)
                .map(|_| char::from(alphabet[random.below(alphabet.len() as u64) as usize]))
                .collect();
            assert!(demangle(&format!("_Z{tail}")).chars().count() <= MAX_NAME_CHARS);
        }
    }
}
