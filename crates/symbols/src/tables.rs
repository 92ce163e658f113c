//! The unwind tables of a file: how a caller's registers are found at an address. They stay in the file: of a large library
//! only the entries of the functions on a stack are read.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Encoding, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection,
};

use gpuwhy_elf::{Bytes, Layout, Part};

/// The longest program of one function that is run; compilers stay far below.
const MAX_ENTRY_BYTES: u64 = 256 << 10;
/// Read of an entry before its length is known; most are shorter.
const FIRST_BYTES: u64 = 256;
/// Rows of a header that are read at once.
const BLOCK_ROWS: u64 = 512;
const ROW_BYTES: u64 = 8;
/// Version, encodings, a pointer and a count.
const HEADER_BYTES: u64 = 12;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What a table says for one address.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) frame: CfaRule<usize>,
    pub(crate) registers: Box<[(Register, RegisterRule<usize>)]>,
    pub(crate) return_address: Register,
    pub(crate) encoding: Encoding,
    /// The caller was interrupted, it did not call.
    pub(crate) signal: bool,
    /// What the expressions among the rules refer to; empty where there are none.
    bytes: Box<[u8]>,
}

/// Where the tables of a file are.
pub(crate) struct Tables {
    section: Part,
    functions: Functions,
    bases: BaseAddresses,
}

/// From an address to an entry of the section.
enum Functions {
    /// The header's rows, function and entry, both as distances from the header: the one kind that linkers make.
    Sorted { header: Part, count: u64 },
    /// Where functions start and their entries, for files without a header.
    Indexed(Box<[(u64, u64)]>),
}

/// The entry of a function with the one it shares with others before it: a section of its own.
struct Entry {
    bytes: Vec<u8>,
    /// Where the function's part begins.
    at: usize,
    bases: BaseAddresses,
}

/// An entry as it is in the file.
struct Raw {
    bytes: Vec<u8>,
    /// Bytes that its length takes.
    prefix: usize,
    /// None of a shared entry; of a function's the distance back to the shared one.
    distance: u32,
}

impl Row {
    pub(crate) fn section(&self) -> EhFrame<Slice<'_>> {
        section(&self.bytes)
    }
}

impl Tables {
    /// A file without a header is read once to make one; its section may have so many bytes.
    pub(crate) fn read(layout: &Layout, file: &impl Bytes, max_indexed: u64) -> Option<Tables> {
        let part = layout.eh_frame?;
        (part.offset.checked_add(part.size)? <= file.size()).then_some(())?;
        let bases =
            BaseAddresses::default().set_eh_frame(part.address).set_text(layout.text).set_got(layout.got);
        let sorted = layout.eh_frame_hdr.and_then(|header| sorted_rows(header, file));
        let functions = match sorted {
            Some(sorted) => sorted,
            None if part.size <= max_indexed => {
                Functions::Indexed(index(&file.bytes(part.offset, part.size)?, &bases))
            }
            None => return None,
        };
        Some(Tables { section: part, functions, bases })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.functions {
            Functions::Sorted { .. } => 0,
            Functions::Indexed(index) => size_of_val(&**index) as u64,
        }
    }

    /// Nothing if no function of the table is at this address.
    pub(crate) fn row(
        &self,
        address: u64,
        file: &impl Bytes,
        context: &mut UnwindContext<usize>,
    ) -> Option<Row> {
        let entry = self.entry(self.entry_of(address, file)?, file)?;
        let section = section(&entry.bytes);
        let at = EhFrameOffset(entry.at);
        let function = section.fde_from_offset(&entry.bases, at, EhFrame::cie_from_offset).ok()?;
        function.contains(address).then_some(())?;
        let row = function.unwind_info_for_address(&section, &entry.bases, context, address).ok()?;
        let is_expression = |rule: &RegisterRule<usize>| {
            matches!(rule, RegisterRule::Expression(_) | RegisterRule::ValExpression(_))
        };
        let has_expressions = matches!(row.cfa(), CfaRule::Expression(_))
            || row.registers().any(|(_, rule)| is_expression(rule));
        Some(Row {
            frame: row.cfa().clone(),
            registers: row.registers().map(|(register, rule)| (*register, rule.clone())).collect(),
            return_address: function.cie().return_address_register(),
            encoding: function.cie().encoding(),
            signal: function.is_signal_trampoline(),
            bytes: if has_expressions { entry.bytes.as_slice().into() } else { Box::default() },
        })
    }

    /// Where in the section the entry is that may cover an address.
    fn entry_of(&self, address: u64, file: &impl Bytes) -> Option<u64> {
        match &self.functions {
            Functions::Indexed(index) => {
                let after = index.partition_point(|(start, _)| *start <= address);
                Some(index.get(after.checked_sub(1)?)?.1)
            }
            Functions::Sorted { header, count } => {
                search(*header, *count, address, file)?.checked_sub(self.section.address)
            }
        }
    }

    fn entry(&self, offset: u64, file: &impl Bytes) -> Option<Entry> {
        let own = self.raw(offset, file)?;
        let is_function = own.distance != 0;
        is_function.then_some(())?;
        let pointer = offset.checked_add(own.prefix as u64)?;
        let shared = self.raw(pointer.checked_sub(u64::from(own.distance))?, file)?;
        let at = shared.bytes.len();
        let mut bytes = shared.bytes;
        bytes.extend(own.bytes);
        let distance = u32::try_from(at + own.prefix).ok()?;
        bytes.get_mut(at + own.prefix..)?.get_mut(..4)?.copy_from_slice(&distance.to_le_bytes());
        // Addresses in the function's entry are distances from where they are.
        let start = self.section.address.wrapping_add(offset).wrapping_sub(at as u64);
        Some(Entry { bytes, at, bases: self.bases.clone().set_eh_frame(start) })
    }

    fn raw(&self, offset: u64, file: &impl Bytes) -> Option<Raw> {
        const LONG: u32 = 0xffff_ffff;
        const RESERVED: u32 = 0xffff_fff0;
        let left = self.section.size.checked_sub(offset)?;
        let start = self.section.offset.checked_add(offset)?;
        let mut bytes = file.bytes(start, FIRST_BYTES.min(left))?;
        let (prefix, length) = match u32_at(&bytes, 0)? {
            LONG => (12, u64::from_le_bytes(bytes.get(4..12)?.try_into().ok()?)),
            RESERVED.. => return None,
            length => (4, u64::from(length)),
        };
        (length <= MAX_ENTRY_BYTES).then_some(())?;
        let size = length + prefix;
        (size <= left).then_some(())?;
        if size > bytes.len() as u64 {
            bytes = file.bytes(start, size)?;
        }
        bytes.truncate(usize::try_from(size).ok()?);
        let prefix = usize::try_from(prefix).ok()?;
        let distance = u32_at(&bytes, prefix)?;
        Some(Raw { bytes, prefix, distance })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.get(..4)?.try_into().ok()?))
}

fn section(bytes: &[u8]) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    #[cfg(target_arch = "aarch64")]
    section.set_vendor(gimli::Vendor::AArch64);
    section
}

fn sorted_rows(header: Part, file: &impl Bytes) -> Option<Functions> {
    const KIND: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let (start, rows) = (file.bytes(header.offset, HEADER_BYTES)?, header.size.checked_sub(HEADER_BYTES)?);
    (header.offset.checked_add(header.size)? <= file.size() && start[..4] == KIND).then_some(())?;
    let count = u64::from(u32_at(&start, 8)?).min(rows / ROW_BYTES);
    (count > 0).then_some(Functions::Sorted { header, count })
}

/// The address of the entry of the last function that starts at or before an address.
fn search(header: Part, count: u64, address: u64, file: &impl Bytes) -> Option<u64> {
    let rows = |from: u64, to: u64| {
        let offset = header.offset.checked_add(HEADER_BYTES + from * ROW_BYTES)?;
        file.bytes(offset, (to - from) * ROW_BYTES)
    };
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, i32::from_le_bytes);
    let place = |distance: i32| header.address.wrapping_add_signed(i64::from(distance));
    let is_before = |row: &[u8; ROW_BYTES as usize]| place(number(&row[..4])) <= address;
    let (mut from, mut to) = (0, count);
    while to - from > BLOCK_ROWS {
        let middle = from + (to - from) / 2;
        if is_before(&rows(middle, middle + 1)?.try_into().ok()?) {
            from = middle;
        } else {
            to = middle;
        }
    }
    let block = rows(from, to)?;
    let (block, _) = block.as_chunks::<{ ROW_BYTES as usize }>();
    let after = block.partition_point(is_before);
    Some(place(number(&block.get(after.checked_sub(1)?)?[4..])))
}

fn index(bytes: &[u8], bases: &BaseAddresses) -> Box<[(u64, u64)]> {
    let section = section(bytes);
    let mut entries = section.entries(bases);
    let mut index = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(entry): Result<FrameDescriptionEntry<_>, _> = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        index.push((entry.initial_address(), entry.offset() as u64));
    }
    index.sort_unstable();
    index.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_proc::Maps;
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::process::Command;

    /// Rules with expressions as their bytes: where those are does not matter.
    fn rules(
        frame: &CfaRule<usize>,
        registers: &[(Register, RegisterRule<usize>)],
        section: &EhFrame<Slice<'_>>,
    ) -> Vec<String> {
        let bytes = |expression: &gimli::UnwindExpression<usize>| {
            format!("{:?}", expression.get(section).unwrap().0.slice())
        };
        let frame = match frame {
            CfaRule::Expression(expression) => bytes(expression),
            rule => format!("{rule:?}"),
        };
        let registers = registers.iter().map(|(register, rule)| match rule {
            RegisterRule::Expression(expression) => format!("{register:?} at {}", bytes(expression)),
            RegisterRule::ValExpression(expression) => format!("{register:?} is {}", bytes(expression)),
            rule => format!("{register:?} {rule:?}"),
        });
        std::iter::once(frame).chain(registers).collect()
    }

    /// The entry that may cover an address, found with the whole header in memory.
    fn found_whole(header: Option<(Part, &[u8])>, index: &[(u64, u64)], start: u64, address: u64) -> usize {
        let Some((part, bytes)) = header else {
            return index[index.partition_point(|(start, _)| *start <= address) - 1].1 as usize;
        };
        let place =
            |row: &[u8], at: usize| part.address.wrapping_add_signed(u32_at(row, at).unwrap() as i32 as i64);
        let (rows, _) = bytes[HEADER_BYTES as usize..].as_chunks::<{ ROW_BYTES as usize }>();
        let rows = &rows[..u32_at(bytes, 8).unwrap() as usize];
        let after = rows.partition_point(|row| place(row, 0) <= address);
        (place(&rows[after - 1], 4) - start) as usize
    }

    /// Compares what is read an entry at a time with what the whole section says, for the first and the last address of every
    /// row of every so many functions. How many addresses that were.
    fn compare(layout: &Layout, file: &File, step: usize) -> usize {
        let tables = Tables::read(layout, file, 1 << 30).unwrap();
        let part = layout.eh_frame.unwrap();
        let whole = file.bytes(part.offset, part.size).unwrap();
        let header =
            layout.eh_frame_hdr.map(|header| (header, file.bytes(header.offset, header.size).unwrap()));
        let header = header.as_ref().map(|(part, bytes)| (*part, bytes.as_slice()));
        let (section, bases) = (section(&whole), &tables.bases);
        let index = index(&whole, bases);
        let (mut context, mut other) = (UnwindContext::new(), UnwindContext::new());
        let mut addresses = Vec::new();
        for (_, offset) in index.iter().step_by(step) {
            let at = EhFrameOffset(*offset as usize);
            let function = section.fde_from_offset(bases, at, EhFrame::cie_from_offset).unwrap();
            let mut rows = function.rows(&section, bases, &mut context).unwrap();
            while let Some(row) = rows.next_row().unwrap() {
                addresses.extend([row.start_address(), row.end_address().saturating_sub(1)]);
            }
        }
        for address in &addresses {
            let at = EhFrameOffset(found_whole(header, &index, part.address, *address));
            let function = section.fde_from_offset(bases, at, EhFrame::cie_from_offset).unwrap();
            let found = tables.row(*address, file, &mut other);
            let row = function.unwind_info_for_address(&section, bases, &mut context, *address).ok();
            assert_eq!(found.is_some(), row.is_some(), "{address:#x}");
            if let (Some(found), Some(row)) = (found, row) {
                let registers: Vec<_> = row.registers().map(|(r, rule)| (*r, rule.clone())).collect();
                let expected = rules(row.cfa(), &registers, &section);
                assert_eq!(rules(&found.frame, &found.registers, &found.section()), expected, "{address:#x}");
                assert_eq!(found.return_address, function.cie().return_address_register());
                assert_eq!(found.signal, function.is_signal_trampoline());
            }
        }
        addresses.len()
    }

    #[test]
    fn rows_of_real_libraries_are_those_of_the_whole_section() {
        let maps = Maps::ours().unwrap();
        let mut paths: BTreeSet<String> = maps
            .iter()
            .filter(|mapping| mapping.path.contains(".so"))
            .map(|line| line.path.clone())
            .collect();
        paths.insert("/proc/self/exe".into());
        let output = |program: &str, words: &[&str]| {
            let output = Command::new(program).args(words).output().ok()?;
            Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
        };
        paths.extend(output("gcc", &["-print-file-name=libstdc++.so.6"]));
        paths.extend(output("python3", &["-c", "import sys; print(sys.executable)"]));
        let mut compared = 0;
        for path in paths {
            let Ok(file) = File::open(&path) else { continue };
            let Some(mut layout) = Layout::read(&file).filter(|layout| layout.eh_frame.is_some()) else {
                continue;
            };
            compared += compare(&layout, &file, 1);
            layout.eh_frame_hdr = None;
            compared += compare(&layout, &file, 16);
        }
        assert!(compared > 1000, "{compared}");
    }

    #[test]
    fn a_section_too_large_to_be_indexed_is_not_read() {
        let file = File::open("/proc/self/exe").unwrap();
        let mut layout = Layout::read(&file).unwrap();
        assert!(Tables::read(&layout, &file, 0).is_some_and(|tables| tables.bytes() == 0));
        layout.eh_frame_hdr = None;
        assert!(Tables::read(&layout, &file, 0).is_none());
        assert!(Tables::read(&layout, &file, 1 << 30).is_some_and(|tables| tables.bytes() > 0));
    }

    /// Entries with 64-bit lengths, which no compiler here makes.
    #[test]
    fn long_lengths_are_read() {
        let entry = |body: &[u8]| {
            let mut bytes = vec![0xff; 4];
            bytes.extend((body.len() as u64).to_le_bytes());
            bytes.extend(body);
            bytes
        };
        // Version 1, augmentation zR, factors 1 and -8, return address 16, encoding pcrel i32, cfa r7+8, r16 at cfa-8.
        let mut shared = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1];
        shared.resize(24, 0);
        let mut section = entry(&shared);
        let pointer = section.len() as u32 + 12;
        let start = 0x1000u64;
        // The function is 0x100 behind the field that says so.
        let mut own = pointer.to_le_bytes().to_vec();
        own.extend(0x100u32.to_le_bytes());
        own.extend([0x10, 0, 0, 0, 0, 0, 0, 0]);
        section.extend(entry(&own));
        section.extend([0; 4]);
        let size = section.len() as u64;
        let layout = Layout { eh_frame: Some(Part { address: start, offset: 0, size }), ..Layout::default() };
        let tables = Tables::read(&layout, &section, size).unwrap();
        let function = start + u64::from(pointer) + 4 + 0x100;
        let mut context = UnwindContext::new();
        let row = tables.row(function + 3, &section, &mut context).unwrap();
        assert_eq!(row.frame, CfaRule::RegisterAndOffset { register: Register(7), offset: 8 });
        assert!(tables.row(function + 0x10, &section, &mut context).is_none());
        for at in 0..section.len() {
            let cut = section[..at].to_vec();
            assert!(tables.row(function, &cut, &mut context).is_none() || at >= section.len() - 4);
        }
    }
}
