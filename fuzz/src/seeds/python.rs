//! The memory of a thread in one Python function, as each version keeps it.

use crate::targets::python_memory::{BASE, ENDLESS};
use gpuwhy_python::{FrameVia, Layout, Memory, Version, fuzz};

const RUNTIME: u64 = BASE;
const INTERPRETER: u64 = BASE + 0x800;
const THREAD: u64 = BASE + 0x1000;
const CFRAME: u64 = BASE + 0x1400;
const FRAME: u64 = BASE + 0x1500;
const CODE: u64 = BASE + 0x1600;
const TEXT: u64 = BASE + 0x1800;
const TABLE: u64 = BASE + 0x1880;
const GIL: u64 = BASE + 0x1900;
const PTHREAD: u64 = BASE + 0x1980;
const SIZE: usize = 0x1c80;
/// Where the C library keeps a thread's id: versions before 3.11 keep none.
const PTHREAD_TID: u32 = if cfg!(target_arch = "aarch64") { 208 } else { 720 };
const NATIVE: u32 = 7;

/// By name: every version, and what circles.
pub(super) fn memories() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    for minor in 9..=14u8 {
        for free_threaded in [false, true] {
            let version = Version { major: 3, minor, micro: 0, free_threaded };
            let Some(layout) = fuzz::layout(&version) else { continue };
            let memory = memory(&version, &layout);
            for (kind, flags) in [("", 0), ("-endless", ENDLESS)] {
                let mut input = vec![minor - 9, flags | u8::from(free_threaded)];
                input.extend_from_slice(&(RUNTIME as u16).to_le_bytes());
                input.extend_from_slice(&NATIVE.to_le_bytes());
                input.extend_from_slice(&memory);
                made.push((format!("{version}{kind}"), input));
            }
        }
    }
    made
}

struct Image(Vec<u8>);

impl Image {
    /// An offset beyond the image is of a struct larger than this: what is there is not needed.
    fn put(&mut self, base: u64, offset: u32, value: u64) {
        let at = (base - BASE) as usize + offset as usize;
        if let Some(place) = self.0.get_mut(at..at + 8) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

impl Memory for Image {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(bytes) = self.0.get((address - BASE) as usize..).and_then(|bytes| bytes.get(..into.len()))
        else {
            return false;
        };
        into.copy_from_slice(bytes);
        true
    }
}

fn memory(version: &Version, layout: &Layout) -> Vec<u8> {
    let mut image = Image(vec![0; SIZE]);
    let layout = &if version.minor >= 13 { publish(&mut image, version, layout) } else { *layout };
    let mut put = |base, offset, value| image.put(base, offset, value);
    put(RUNTIME, layout.interpreters_head, INTERPRETER);
    put(INTERPRETER, layout.interp_threads_head, THREAD);
    put(THREAD, layout.tstate_native_thread_id, NATIVE.into());
    put(THREAD, layout.tstate_thread_id, PTHREAD);
    put(PTHREAD, PTHREAD_TID, NATIVE.into());
    match layout.frame_via {
        FrameVia::Cframe => {
            put(THREAD, layout.tstate_frame, CFRAME);
            put(CFRAME, layout.cframe_current_frame, FRAME);
        }
        FrameVia::FrameObject | FrameVia::Direct => put(THREAD, layout.tstate_frame, FRAME),
    }
    put(FRAME, layout.frame_code, CODE);
    put(FRAME, layout.frame_instr, CODE + u64::from(layout.code_adaptive) + 4);
    put(CODE, layout.code_firstlineno, 3);
    put(CODE, layout.code_filename, TEXT);
    put(CODE, layout.code_name, TEXT);
    put(CODE, layout.code_qualname, TEXT);
    put(CODE, layout.code_linetable, TABLE);
    put(TEXT, layout.unicode_length, 4);
    put(TEXT, layout.unicode_state, (1 << layout.unicode_kind_shift | layout.unicode_ascii_mask).into());
    put(TEXT, layout.unicode_ascii_data, u64::from_le_bytes(*b"main\0\0\0\0"));
    put(TABLE, layout.bytes_size, 4);
    put(TABLE, layout.bytes_data, 0x0101_f201);
    if layout.gil_is_pointer == 1 {
        put(INTERPRETER, layout.gil, GIL);
    }
    put(GIL, layout.gil_locked, 1);
    put(GIL, layout.gil_last_holder, THREAD);
    image.0
}

/// Publishes the table's offsets as these versions do, made small enough for the image; the layout that is then read. Which field is
/// published where is found by publishing a number of its own at each place.
fn publish(image: &mut Image, version: &Version, layout: &Layout) -> Layout {
    image.put(RUNTIME, 0, u64::from_le_bytes(*b"xdebugpy"));
    image.put(RUNTIME, 8, 0x0300_00f0 | u64::from(version.minor) << 16);
    image.put(RUNTIME, 16, version.free_threaded.into());
    let read = |image: &Image| {
        fuzz::interpreter(image, RUNTIME, None).map_or(*layout, |interpreter| interpreter.layout)
    };
    for place in (24..0x700).step_by(8) {
        image.put(RUNTIME, place, (MARK + place).into());
    }
    let (marked, wanted) = (fields(&read(image)), fields(layout));
    for place in (24..0x700).step_by(8) {
        let field = marked.iter().position(|number| *number == MARK + place);
        image.put(RUNTIME, place, field.map_or(0, |field| wanted[field] % SMALL).into());
    }
    read(image)
}

const MARK: u32 = 0x8_0000;
/// Offsets from here on are published as smaller ones.
const SMALL: u32 = 0x7e8;

/// Its numbers, in their order.
fn fields(layout: &Layout) -> Vec<u32> {
    let text = format!("{layout:?}");
    let values = text.split(&[',', '}'][..]).filter_map(|field| field.rsplit(": ").next());
    values.map(|value| value.trim().parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_python::{Thread, gil_holder, read_code, stack};

    /// Seeds that are refused at the door reach nothing.
    #[test]
    fn every_seed_has_a_frame_with_its_name() {
        for (name, input) in memories() {
            let version =
                Version { major: 3, minor: 9 + input[0], micro: 0, free_threaded: input[1] & 1 != 0 };
            let image = Image(input[8..].to_vec());
            let interpreter = fuzz::interpreter(&image, RUNTIME, Some(version)).unwrap();
            let frames = stack(&image, &interpreter, Thread { native: NATIVE, fs_base: None }, 10).unwrap();
            let [frame] = frames.as_slice() else { panic!("{name}: {frames:?}") };
            assert_eq!(
                read_code(&image, &interpreter, frame.code).map(|code| code.name).as_deref(),
                Some("main"),
                "{name}"
            );
            if interpreter.layout.gil_is_pointer == 1 {
                assert!(gil_holder(&image, &interpreter).is_some(), "{name}");
            }
        }
    }
}
