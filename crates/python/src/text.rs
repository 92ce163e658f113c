//! Python's `str` objects.

use crate::memory::{read_pointer, read_u32, read_u64};
use crate::{Layout, Memory};

/// The longest text that is read, in characters: paths and names.
const MAX_CHARACTERS: u64 = 4096;

/// What a `str` says, from the word of its state, its length in characters and the bytes behind its header, which may
/// have been cut short. The layout tells which bits of the state mean what: they moved in free-threaded 3.14.
pub fn decode_text(layout: &Layout, state: u32, length: u64, bytes: &[u8]) -> String {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let text = |codes: &mut dyn Iterator<Item = u32>| -> String {
        codes.take(length).map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match character_bytes(layout, state) {
        2 => text(&mut bytes.chunks_exact(2).map(|two| u32::from(u16::from_le_bytes([two[0], two[1]])))),
        4 => text(
            &mut bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])),
        ),
        _ => text(&mut bytes.iter().map(|byte| u32::from(*byte))),
    }
}

fn character_bytes(layout: &Layout, state: u32) -> u32 {
    state >> layout.unicode_kind_shift & 7
}

/// The `str` object at an address; cut where it is very long.
pub(crate) fn read_text(memory: &impl Memory, layout: &Layout, address: u64) -> Option<String> {
    let length = read_u64(memory, address + u64::from(layout.unicode_length))?.min(MAX_CHARACTERS);
    let state = read_u32(memory, address + u64::from(layout.unicode_state))?;
    let character_bytes = character_bytes(layout, state);
    if !matches!(character_bytes, 1 | 2 | 4) {
        return None;
    }
    let is_ascii = state & layout.unicode_ascii_mask != 0;
    let data = if is_ascii { layout.unicode_ascii_data } else { layout.unicode_compact_data };
    let mut bytes = vec![0; (length * u64::from(character_bytes)) as usize];
    memory.read(address + u64::from(data), &mut bytes).then(|| decode_text(layout, state, length, &bytes))
}

/// The `str` a pointer field points to.
pub(crate) fn read_text_field(memory: &impl Memory, layout: &Layout, field: u64) -> Option<String> {
    read_text(memory, layout, read_pointer(memory, field)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::offsets::layout_of;

    fn layout(minor: u8, free_threaded: bool) -> Layout {
        layout_of(&Version { major: 3, minor, micro: 0, free_threaded }).unwrap()
    }

    #[test]
    fn every_kind_of_text_is_read() {
        for layout in [layout(9, false), layout(12, false), layout(14, false), layout(14, true)] {
            let state = |kind: u32, ascii: u32| kind << layout.unicode_kind_shift | ascii;
            let ascii = state(1, layout.unicode_ascii_mask);
            assert_eq!(decode_text(&layout, ascii, 5, b"hello\0rest"), "hello");
            assert_eq!(decode_text(&layout, state(1, 0), 2, b"\xe9t"), "\u{e9}t");
            let wide: Vec<u8> = "\u{17c}\u{f3}\u{142}w".encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(decode_text(&layout, state(2, 0), 4, &wide), "\u{17c}\u{f3}\u{142}w");
            let wider: Vec<u8> =
                "\u{1f40d}!".chars().flat_map(|letter| (letter as u32).to_le_bytes()).collect();
            assert_eq!(decode_text(&layout, state(4, 0), 2, &wider), "\u{1f40d}!");
        }
    }

    #[test]
    fn cut_and_broken_text_is_read() {
        let layout = layout(11, false);
        assert_eq!(decode_text(&layout, 1 << 2, 100, b"cut"), "cut");
        assert_eq!(decode_text(&layout, 2 << 2, 2, b"a\0b"), "a");
        assert_eq!(decode_text(&layout, 2 << 2, 1, &0xd800_u16.to_le_bytes()), "\u{fffd}");
    }
}
