//! Unwind tables alone. An input is the address the index is linked for, four addresses to unwind from, the lengths of the index
//! and of the section behind it, these two, and the stack.

use super::Input;
use crate::Target;
use gpuwhy_symbols::fuzz;

pub(crate) const TARGET: Target = Target {
    name: "unwind_tables",
    about: "`.eh_frame` and its index, their expressions, and walks up a stack with them (symbols)",
    run,
    words: &["zR\0", "zPLR\0", "zRS\0"],
    runs: 20_000,
    most_bytes: 16 << 10,
};

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let start = u64::from(input.u32());
    let addresses: Vec<u64> = (0..4).map(|_| u64::from(input.u32())).collect();
    let (index, section) = (usize::from(input.u16()), usize::from(input.u16()));
    let (index, section) = (input.take(index), input.take(section));
    fuzz::unwind(index, section, start, &addresses, input.0);
}
