//! The kernel's library in every process. It is in no file, but ours is the same.

use std::fs::File;
use std::rc::Rc;

use object::elf::{self, Sym64};
use object::{LittleEndian as LE, pod};

use crate::elf::{Bytes, Layout};
use crate::maps;
use crate::names::Line;
use crate::tables::Tables;

pub(crate) const NAME: &str = "[vdso]";
const LARGEST: u64 = 1 << 20;

pub(crate) struct Vdso {
    size: u64,
    pub(crate) tables: Option<Tables>,
    /// Start, end, name.
    symbols: Vec<(u64, u64, String)>,
}

impl Vdso {
    pub(crate) fn ours() -> Option<Vdso> {
        let text = maps::read("self")?;
        let mapping = maps::executable(&text).into_iter().find(|line| line.path == NAME)?;
        let size = mapping.end - mapping.start;
        (size <= LARGEST).then_some(())?;
        let bytes = memory(mapping.start, size)?;
        let layout = Layout::read(&bytes)?;
        let tables = Tables::read(&layout, &bytes);
        let symbols = symbols(&layout, &bytes).unwrap_or_default();
        Some(Vdso { size, tables, symbols })
    }

    /// Whether a mapping of that size can be the same: other kinds of processes have other ones.
    pub(crate) fn fits(&self, size: u64) -> bool {
        self.size == size
    }

    pub(crate) fn at(&self, address: u64) -> Rc<[Line]> {
        let found = self.symbols.iter().find(|(start, end, _)| (*start..*end).contains(&address));
        let line =
            found.map(|(_, _, name)| Line { function: name.clone(), file: None, line: None, inlined: false });
        line.into_iter().collect()
    }
}

fn memory(start: u64, size: u64) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

fn symbols(layout: &Layout, bytes: &Vec<u8>) -> Option<Vec<(u64, u64, String)>> {
    let table = layout.dynamic_symbols.and_then(|part| bytes.bytes(part.offset, part.size))?;
    let names = layout.dynamic_strings.and_then(|part| bytes.bytes(part.offset, part.size))?;
    let (table, _) = pod::slice_from_bytes::<Sym64<LE>>(&table, table.len() / size_of::<Sym64<LE>>()).ok()?;
    let mut symbols: Vec<(u64, u64, String)> = table
        .iter()
        .filter(|symbol| symbol.st_info.0 & 0xf == elf::STT_FUNC.0)
        .filter_map(|symbol| {
            let start = symbol.st_value.get(LE);
            let name = names.get(symbol.st_name.get(LE) as usize..)?.split(|byte| *byte == 0).next()?;
            Some((
                start,
                start.checked_add(symbol.st_size.get(LE))?,
                String::from_utf8_lossy(name).into_owned(),
            ))
        })
        .collect();
    // Aliases: `__vdso_clock_gettime` is the one that tells where it is from.
    symbols.sort_by_key(|(start, _, name)| (*start, !name.starts_with("__")));
    Some(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_is_read() {
        let Some(vdso) = Vdso::ours() else { return eprintln!("skipped: this process has no vdso") };
        let (start, _, name) =
            vdso.symbols.iter().find(|(_, _, name)| name.ends_with("clock_gettime")).unwrap();
        assert_eq!(&vdso.at(*start)[0].function, name);
        assert!(vdso.tables.is_some());
    }
}
