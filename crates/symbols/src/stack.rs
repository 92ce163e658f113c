//! A copy of a thread's stack.

use crate::frame::Swapped;

pub(crate) struct Stack<'a> {
    /// The address of the first byte.
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
    /// What was on it before return probes put their trampoline there.
    pub(crate) swapped: &'a [Swapped],
}

impl Stack<'_> {
    /// Nothing outside of what was copied.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        if let Some(swapped) = self.swapped.iter().find(|swapped| swapped.at == address) {
            return Some(swapped.original);
        }
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_from_the_copy_alone() {
        let bytes: Vec<u8> = (0..20).collect();
        let swapped = [Swapped { at: 108, original: 7 }];
        let stack = Stack { start: 100, bytes: &bytes, swapped: &swapped };
        assert_eq!(stack.word(100), Some(0x0706_0504_0302_0100));
        assert_eq!(stack.word(108), Some(7));
        assert_eq!(stack.word(112), Some(0x1312_1110_0f0e_0d0c));
        for outside in [0, 99, 113, 120, u64::MAX, u64::MAX - 7] {
            assert_eq!(stack.word(outside), None);
        }
    }
}
