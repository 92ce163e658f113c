//! The layout of an interpreter: as the process publishes it (3.13 and newer), completed from the table.

use crate::layouts::{LAYOUTS, PUBLISHED};
use crate::memory::{read_u32, read_u64};
use crate::{Layout, Memory, Version};

const COOKIE: &[u8; 8] = b"xdebugpy";
/// No field that is read lies further from the start of its struct: an interpreter state of 3.14 is 250 KiB.
const FURTHEST: u64 = 1 << 20;

/// What 3.13 and newer say of themselves where `_PyRuntime` begins; none for older ones.
pub(crate) fn published_version(memory: &impl Memory, runtime: u64) -> Option<Version> {
    let mut cookie = [0; 8];
    if !memory.read(runtime, &mut cookie) || &cookie != COOKIE {
        return None;
    }
    let free_threaded = read_u64(memory, runtime + 16)?;
    (free_threaded <= 1).then_some(())?;
    Some(Version::from_hex(u64::from(read_u32(memory, runtime + 8)?), free_threaded == 1))
}

/// None where the version is not in the table.
pub(crate) fn layout_of(version: &Version) -> Option<Layout> {
    row(LAYOUTS, version)
}

fn row(rows: &[crate::layouts::Row], version: &Version) -> Option<Layout> {
    let of_version = |row: &&crate::layouts::Row| {
        version.major == 3 && row.minor == version.minor && row.free_threaded == version.free_threaded
    };
    rows.iter().find(of_version).map(|row| row.layout)
}

/// The table's layout with the offsets the process publishes; an error says what is wrong with those.
pub(crate) fn published_layout(
    memory: &impl Memory,
    runtime: u64,
    version: &Version,
    mut layout: Layout,
) -> Result<Layout, &'static str> {
    let Some(places) = row(PUBLISHED, version) else { return Ok(layout) };
    let take = |field: &mut u32, place: u32| {
        if place == 0 {
            return Ok(());
        }
        let offset = read_u64(memory, runtime + u64::from(place)).ok_or("its offsets cannot be read")?;
        *field =
            u32::try_from(offset).ok().filter(|_| offset < FURTHEST).ok_or("an offset is out of range")?;
        Ok::<(), &'static str>(())
    };
    take(&mut layout.interpreters_head, places.interpreters_head)?;
    take(&mut layout.interp_next, places.interp_next)?;
    take(&mut layout.interp_threads_head, places.interp_threads_head)?;
    take(&mut layout.tstate_next, places.tstate_next)?;
    take(&mut layout.tstate_thread_id, places.tstate_thread_id)?;
    take(&mut layout.tstate_native_thread_id, places.tstate_native_thread_id)?;
    take(&mut layout.tstate_status, places.tstate_status)?;
    take(&mut layout.tstate_frame, places.tstate_frame)?;
    take(&mut layout.tstate_interp, places.tstate_interp)?;
    take(&mut layout.interp_gc, places.interp_gc)?;
    take(&mut layout.gc_collecting, places.gc_collecting)?;
    take(&mut layout.frame_code, places.frame_code)?;
    take(&mut layout.frame_previous, places.frame_previous)?;
    take(&mut layout.frame_instr, places.frame_instr)?;
    take(&mut layout.frame_tlbc_index, places.frame_tlbc_index)?;
    take(&mut layout.frame_owner, places.frame_owner)?;
    take(&mut layout.code_filename, places.code_filename)?;
    take(&mut layout.code_name, places.code_name)?;
    take(&mut layout.code_qualname, places.code_qualname)?;
    take(&mut layout.code_firstlineno, places.code_firstlineno)?;
    take(&mut layout.code_linetable, places.code_linetable)?;
    take(&mut layout.code_adaptive, places.code_adaptive)?;
    take(&mut layout.code_tlbc, places.code_tlbc)?;
    take(&mut layout.unicode_length, places.unicode_length)?;
    take(&mut layout.unicode_state, places.unicode_state)?;
    take(&mut layout.unicode_ascii_data, places.unicode_ascii_data)?;
    take(&mut layout.bytes_size, places.bytes_size)?;
    take(&mut layout.bytes_data, places.bytes_data)?;
    take(&mut layout.gil, places.gil)?;
    // A struct that grew at its end would keep these apart; one that was rearranged would not.
    if layout.tstate_thread_id == layout.tstate_native_thread_id || layout.frame_code == layout.frame_previous
    {
        return Err("offsets that differ are the same");
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, address: u64, into: &mut [u8]) -> bool {
            let Some(bytes) = self.0.get(address as usize..address as usize + into.len()) else {
                return false;
            };
            into.copy_from_slice(bytes);
            true
        }
    }

    /// A `_PyRuntime` that publishes the table's offsets, each moved by 8.
    fn runtime(version: &Version) -> Bytes {
        let mut bytes = vec![0; 2048];
        bytes[..8].copy_from_slice(COOKIE);
        bytes[8..16].copy_from_slice(&(0x0300_00f0_u64 | u64::from(version.minor) << 16).to_le_bytes());
        bytes[16] = version.free_threaded.into();
        for at in (24..2048).step_by(8) {
            bytes[at..at + 8].copy_from_slice(&(at as u64 + 8).to_le_bytes());
        }
        Bytes(bytes)
    }

    #[test]
    fn published_offsets_win_and_the_table_completes() {
        for free_threaded in [false, true] {
            for minor in [13, 14] {
                let version = Version { major: 3, minor, micro: 0, free_threaded };
                let memory = runtime(&version);
                assert_eq!(published_version(&memory, 0), Some(version));
                let table = layout_of(&version).unwrap();
                let layout = published_layout(&memory, 0, &version, table).unwrap();
                let places = row(PUBLISHED, &version).unwrap();
                assert_eq!(layout.tstate_frame, places.tstate_frame + 8);
                assert_eq!(layout.gil_bytes, table.gil_bytes);
                assert_eq!(layout.owner_shim, table.owner_shim);
                assert_eq!(layout.code_tlbc != 0, minor == 14 && free_threaded);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let version = Version { major: 3, minor: 13, micro: 0, free_threaded: false };
        let mut memory = runtime(&version);
        let places = row(PUBLISHED, &version).unwrap();
        memory.0[places.tstate_next as usize + 5] = 1;
        let table = layout_of(&version).unwrap();
        assert!(published_layout(&memory, 0, &version, table).is_err());
        memory.0[0] = 0;
        assert_eq!(published_version(&memory, 0), None);
        assert!(layout_of(&Version { minor: 8, ..version }).is_none());
    }

    /// Facts measured elsewhere.
    #[test]
    fn the_table_is_as_known() {
        let layout = |minor| layout_of(&Version { major: 3, minor, micro: 0, free_threaded: false }).unwrap();
        let eleven = layout(11);
        assert_eq!((eleven.interp_threads_head, eleven.tstate_thread_id, eleven.tstate_frame), (16, 152, 56));
        assert_eq!((eleven.frame_previous, eleven.frame_code, eleven.code_filename), (48, 32, 112));
        let twelve = layout(12);
        assert_eq!((twelve.interp_threads_head, twelve.tstate_frame), (72, 56));
        assert_eq!((twelve.cframe_current_frame, twelve.frame_previous, twelve.code_firstlineno), (0, 8, 68));
    }
}
