//! The unwind tables of a file: how a caller's registers are found at an address.

use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Encoding, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection,
};

use crate::recent::Recent;
use gpuwhy_elf::{Bytes, Layout};

/// Rows kept for a file.
const MOST_ROWS: usize = 16_384;
/// The longest program of one function that is run; compilers stay far below.
const LONGEST_ENTRY: usize = 256 << 10;
/// Functions indexed in a file that has no index of its own.
const MOST_FUNCTIONS: usize = 4 << 20;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What a table says for one address.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) frame: CfaRule<usize>,
    pub(crate) registers: Box<[(Register, RegisterRule<usize>)]>,
    pub(crate) return_address: Register,
    pub(crate) encoding: Encoding,
    /// The caller was interrupted, it did not call.
    pub(crate) signal: bool,
}

pub(crate) struct Tables {
    section: Vec<u8>,
    header: Vec<u8>,
    /// Where functions start and their entries, for files without a header.
    index: Vec<(u64, usize)>,
    start: u64,
    header_start: u64,
    bases: BaseAddresses,
    rows: Recent<u64, Option<Rc<Row>>>,
}

impl Tables {
    /// Bytes in memory.
    pub(crate) fn size_in(layout: &Layout) -> u64 {
        let size = |part: Option<gpuwhy_elf::Part>| part.map_or(0, |part| part.size);
        size(layout.eh_frame).saturating_add(size(layout.eh_frame_hdr))
    }

    pub(crate) fn read(layout: &Layout, file: &impl Bytes) -> Option<Tables> {
        let part = layout.eh_frame?;
        let section = file.bytes(part.offset, part.size)?;
        let header = layout.eh_frame_hdr.and_then(|hdr| file.bytes(hdr.offset, hdr.size)).unwrap_or_default();
        let header_start = layout.eh_frame_hdr.map_or(0, |hdr| hdr.address);
        let bases = BaseAddresses::default()
            .set_eh_frame(part.address)
            .set_eh_frame_hdr(header_start)
            .set_text(layout.text)
            .set_got(layout.got);
        let mut tables = Tables {
            section,
            header,
            index: Vec::new(),
            start: part.address,
            header_start,
            bases,
            rows: Recent::new(MOST_ROWS),
        };
        if tables.search_table().is_none() {
            tables.index = tables.make_index();
        }
        Some(tables)
    }

    pub(crate) fn section(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.section, LittleEndian);
        section.set_address_size(8);
        #[cfg(target_arch = "aarch64")]
        section.set_vendor(gimli::Vendor::AArch64);
        section
    }

    /// Nothing if no function of the table is at this address.
    pub(crate) fn row(&mut self, address: u64, context: &mut UnwindContext<usize>) -> Option<Rc<Row>> {
        if let Some(row) = self.rows.get(&address) {
            return row;
        }
        let row = self.find(address, context).map(Rc::new);
        self.rows.insert(address, row.clone());
        row
    }

    fn find(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<Row> {
        let section = self.section();
        let offset = self.entry_of(address)?;
        let entry =
            section.fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset).ok()?;
        let sane = entry.contains(address)
            && entry.entry_len() <= LONGEST_ENTRY
            && entry.cie().entry_len() <= LONGEST_ENTRY;
        sane.then_some(())?;
        let row = entry.unwind_info_for_address(&section, &self.bases, context, address).ok()?;
        Some(Row {
            frame: row.cfa().clone(),
            registers: row.registers().map(|(register, rule)| (*register, rule.clone())).collect(),
            return_address: entry.cie().return_address_register(),
            encoding: entry.cie().encoding(),
            signal: entry.is_signal_trampoline(),
        })
    }

    /// Where in the section the entry is that may cover an address.
    fn entry_of(&self, address: u64) -> Option<usize> {
        let Some(table) = self.search_table() else {
            let after = self.index.partition_point(|(start, _)| *start <= address);
            return Some(self.index.get(after.checked_sub(1)?)?.1);
        };
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, i32::from_le_bytes);
        let place = |distance: i32| self.header_start.wrapping_add_signed(i64::from(distance));
        let after = table.partition_point(|row| place(number(&row[..4])) <= address);
        let entry = place(number(&table.get(after.checked_sub(1)?)?[4..]));
        usize::try_from(entry.checked_sub(self.start)?).ok()
    }

    /// The header's rows, function and entry, both as distances from the header: the one kind that linkers make.
    fn search_table(&self) -> Option<&[[u8; 8]]> {
        const KIND: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        (self.header.get(..4)? == KIND).then_some(())?;
        let count = u32::from_le_bytes(self.header.get(8..12)?.try_into().ok()?) as usize;
        let (rows, _) = self.header.get(12..)?.as_chunks::<8>();
        (count > 0).then(|| &rows[..count.min(rows.len())])
    }

    fn make_index(&self) -> Vec<(u64, usize)> {
        let section = self.section();
        let mut entries = section.entries(&self.bases);
        let mut index = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(entry): Result<FrameDescriptionEntry<_>, _> = partial.parse(EhFrame::cie_from_offset)
            else {
                continue;
            };
            index.push((entry.initial_address(), entry.offset()));
            if index.len() >= MOST_FUNCTIONS {
                break;
            }
        }
        index.sort_unstable();
        index
    }
}
