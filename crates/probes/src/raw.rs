//! Records as the kernel writes them: types generated from the BPF objects' BTF, and the one way to read them.

/// A type any bytes are a value of.
///
/// # Safety
/// Only for `#[repr(C)]` types of integers and arrays of them, without padding.
pub(crate) unsafe trait Raw: Copy {}

/// The value at the start of `bytes`, or nothing where they are too few.
pub(crate) fn read<T: Raw>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the bytes are there, any are a value of T, and the read does not ask for alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value, for a map's key or value.
pub(crate) fn bytes_of<T: Raw>(value: &T) -> &[u8] {
    // SAFETY: T has no padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// A NUL-terminated name.
pub(crate) fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

mod generated {
    #![allow(non_camel_case_types, dead_code, unreachable_pub, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/raw.rs"));
}
pub(crate) use generated::*;

/// An object file with the alignment ELF wants.
#[repr(align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// The BPF object of a probe, by its name.
macro_rules! bpf_object {
    ($name:literal) => {{
        static OBJECT: &$crate::raw::Aligned<[u8]> =
            &$crate::raw::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")));
        &OBJECT.0
    }};
}
pub(crate) use bpf_object;
