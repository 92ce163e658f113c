//! The kernel's library in every process. It is in no file, but ours is the same.

use std::fs::File;
use std::rc::Rc;

use gimli::UnwindContext;
use gpuwhy_proc::Maps;

use crate::names::Line;
use crate::symbol_table::SymbolTable;
use crate::tables::{Row, Tables};
use gpuwhy_elf::Layout;

pub(crate) const NAME: &str = "[vdso]";
const LARGEST: u64 = 1 << 20;

pub(crate) struct Vdso {
    size: u64,
    tables: Option<Tables>,
    bytes: Vec<u8>,
    symbols: SymbolTable,
}

/// This process's own, for a [`Symbols`](crate::Symbols) in a thread that cannot open it.
pub fn own_vdso() -> Option<Vec<u8>> {
    let mapping = Maps::ours().ok()?.iter().find(|mapping| mapping.path == NAME)?;
    let size = mapping.end - mapping.start;
    (size <= LARGEST).then_some(())?;
    memory(mapping.start, size)
}

impl Vdso {
    pub(crate) fn of(bytes: Vec<u8>) -> Option<Vdso> {
        let size = bytes.len() as u64;
        let layout = Layout::read(&bytes)?;
        let tables = Tables::read(&layout, &bytes, LARGEST);
        let symbols = SymbolTable::read(&layout, &bytes);
        Some(Vdso { size, tables, bytes, symbols })
    }

    /// Whether a mapping of that size can be the same: other kinds of processes have other ones.
    pub(crate) fn fits(&self, size: u64) -> bool {
        self.size == size
    }

    pub(crate) fn row(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<Row> {
        self.tables.as_ref()?.row(address, &self.bytes, context)
    }

    pub(crate) fn at(&self, address: u64) -> Rc<[Line]> {
        let name = self.symbols.name_at(address, &self.bytes);
        let line =
            name.map(|function| Line { function: Some(function), file: None, line: None, inlined: false });
        line.into_iter().collect()
    }
}

fn memory(start: u64, size: u64) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_is_read() {
        let Some(vdso) = own_vdso().and_then(Vdso::of) else {
            return gpuwhy_testkit::skip("our_own_is_read", "this process has no vdso");
        };
        let names: Vec<String> =
            (0..vdso.size).filter_map(|at| vdso.at(at).first()?.function.clone()).collect();
        assert!(names.iter().any(|name| name.ends_with("clock_gettime")), "{names:?}");
        let mut context = UnwindContext::new();
        assert!((0..vdso.size).any(|at| vdso.row(at, &mut context).is_some()));
    }
}
