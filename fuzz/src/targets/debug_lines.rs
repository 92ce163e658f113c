//! Debug information alone. An input is four addresses, then sections: which one, its length, its bytes.

use super::Input;
use crate::{Target, scratch};
use gpuwhy_symbols::fuzz;

pub(crate) const TARGET: Target = Target {
    name: "debug_lines",
    about: "DWARF: functions, inlined functions and lines at addresses (symbols)",
    run,
    words: &["\u{1}\u{11}", "\0"],
    runs: 15_000,
    most_bytes: 32 << 10,
};

/// The order of the corpus: new ones go to the end.
pub(crate) const SECTIONS: [&str; 10] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
];

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut addresses: Vec<u64> = (0..4).map(|_| u64::from(input.u32())).collect();
    addresses.extend((0x1000..0x1200).step_by(0x41));
    let (mut sections, mut content) = (Vec::new(), Vec::new());
    while !input.0.is_empty() {
        let name = SECTIONS[usize::from(input.byte()) % SECTIONS.len()];
        let length = usize::from(input.u16());
        let section = input.take(length);
        sections.push((name, section.len() as u64));
        content.extend_from_slice(section);
    }
    scratch::with_file(&content, |_, file| fuzz::lines(file, &sections, &addresses));
}
