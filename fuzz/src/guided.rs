//! libFuzzer: it keeps inputs that reach code no other reached.

use crate::{Target, limits};
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

// The crate brings the library; its own entry point is not used.
use libfuzzer_sys as _;

unsafe extern "C" {
    /// Of compiler-rt's `FuzzerInterface.h`.
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        callback: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

static TARGET: OnceLock<&'static Target> = OnceLock::new();

extern "C" fn one(data: *const u8, size: usize) -> c_int {
    let Some(target) = TARGET.get() else { return -1 };
    // SAFETY: libFuzzer passes `size` bytes that live until this returns; for none the pointer may be null.
    let input = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, size) } };
    limits::run(target, input);
    0
}

/// Runs libFuzzer with its own options; returns its exit status.
pub fn run(target: &'static Target, options: &[String]) -> i32 {
    let _ = TARGET.set(target);
    // A panic must end the process where it is, in whatever thread: libFuzzer then keeps the input.
    let reported = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        reported(panic);
        std::process::abort();
    }));
    let words = std::iter::once("gpuwhy-fuzz".to_string()).chain(options.iter().cloned());
    let words: Vec<CString> = words.filter_map(|word| CString::new(word).ok()).collect();
    let mut pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let mut count = (pointers.len() - 1) as c_int;
    let mut list = pointers.as_mut_ptr();
    // SAFETY: the words and the list outlive the call, and the list ends with a null pointer.
    unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut list, one) }
}
