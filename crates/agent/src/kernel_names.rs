//! Names of kernels that were made ready before the trace began: the driver keeps the name in the kernel's own struct,
//! compiled programs gave it when they registered the kernel. The first launch brings it, read in the kernel; where that
//! was not it, it is looked for here.

use gpuwhy_ledger::Ledger;
use gpuwhy_model::Call;
use gpuwhy_probes::{Engine, FUNCTION_NAME_OFFSET, text_at, word_at};

/// As far as it is looked for.
const MAX_OFFSET: u64 = 256;
/// Names compared before an offset is believed.
const CHECKED: usize = 4;
const MAX_LEN: usize = 8192;

#[derive(Debug)]
pub(crate) struct KernelNames {
    /// Of the pointer to the name in the driver's struct; looked for anew where it does not fit names that calls gave.
    offset: u64,
}

impl Default for KernelNames {
    fn default() -> Self {
        KernelNames { offset: FUNCTION_NAME_OFFSET }
    }
}

impl KernelNames {
    /// Names that first launches brought, but those that are none.
    pub(crate) fn check(calls: &mut [Call]) {
        for call in calls.iter_mut().filter(|call| call.first) {
            call.name = call.name.take().filter(|name| is_name(name));
        }
    }

    /// Tells the ledger the names of those it has no name for.
    pub(crate) fn find(&mut self, engine: &Engine, ledger: &mut Ledger) {
        for (pid, handle) in ledger.unnamed() {
            let registered = engine.registered_name_at(pid, handle).and_then(|address| text_at(pid, address));
            let name = registered.or_else(|| {
                self.learn(pid, engine, ledger);
                name_in(pid, handle, self.offset)
            });
            if let Some(name) = name {
                ledger.name(pid, handle, &name);
            }
        }
    }

    /// Finds the offset anew where it does not fit the names that calls gave.
    fn learn(&mut self, pid: u32, engine: &Engine, ledger: &Ledger) {
        let known: Vec<(u64, &str)> = ledger.known_names(pid).take(CHECKED).collect();
        let fits = |offset: u64| {
            known.iter().all(|(handle, name)| name_in(pid, *handle, offset).as_deref() == Some(*name))
        };
        if known.is_empty() || fits(self.offset) {
            return;
        }
        if let Some(offset) = (0..MAX_OFFSET).step_by(8).find(|offset| fits(*offset)) {
            self.offset = offset;
            engine.set_function_name_offset(offset);
        }
    }
}

fn name_in(pid: u32, handle: u64, offset: u64) -> Option<String> {
    let text = text_at(pid, word_at(pid, handle.checked_add(offset)?)?)?;
    is_name(&text).then_some(text)
}

/// What a compiler would call a function; other bytes are something else.
fn is_name(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && text.len() > 2
        && text.len() <= MAX_LEN
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_$.@<>:,()&*~ -".contains(c))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_told_from_other_bytes() {
        for name in
            ["_Z6matmulPKfS0_Pfi", "triton_poi_fused_add_0", "nvjet_sm90_tst_96x128_64x7_2x1_v_bz_TNN"]
        {
            assert!(is_name(name), "{name}");
        }
        for other in ["", "a", "\u{1}x3", "9abc", "hello\nworld", "caf\u{e9}"] {
            assert!(!is_name(other), "{other:?}");
        }
    }
}
