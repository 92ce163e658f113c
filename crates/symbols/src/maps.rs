//! What of a process's memory is executable.

use gpuwhy_proc::{Mapping, Maps};

const MAX_MAPPINGS: usize = 16_384;

/// The executable mappings, by address.
pub(crate) fn executable(maps: &Maps) -> Vec<Mapping> {
    let mut code: Vec<Mapping> = maps
        .iter()
        // The kernel's own page (vsyscall) is nobody's code.
        .filter(|mapping| mapping.executable && mapping.path != "[vsyscall]")
        .take(MAX_MAPPINGS)
        // A file that has lost its name is still the one that was opened by it.
        .map(|mapping| Mapping { deleted: false, ..mapping })
        .collect();
    code.sort_by_key(|mapping| mapping.start);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stays_the_same_when_its_file_is_deleted() {
        let code = |end: &str| {
            let lines = [
                "7f20-7f30 r-xp 00001000 fe:00 1234      /libcuda.so.1",
                end,
                "\n7f30-7f40 rw-p 00001000 fe:00 1234      /libcuda.so.1",
                "\nff60-ff70 --xp 00000000 00:00 0         [vsyscall]\n",
            ];
            executable(&Maps::from(lines.concat().as_bytes()))
        };
        assert_eq!(code("").len(), 1);
        assert_eq!(code(""), code(" (deleted)"));
    }
}
