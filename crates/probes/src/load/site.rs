//! Where in a function a probe may go. The kernel emulates `push`, `nop`, `call` and jumps at a probe; any other
//! instruction is single-stepped, ten times dearer in a virtual machine. A return probe needs the return address on
//! top of the stack, so a site may only lie behind instructions that touch neither the stack pointer nor an argument.

#[cfg(target_arch = "x86_64")]
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

/// A place for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    /// Bytes behind the function's entry.
    pub(crate) offset: usize,
    /// The kernel executes the instruction there without single-stepping.
    pub(crate) emulated: bool,
}

/// Looks no further than this many instructions.
#[cfg(target_arch = "x86_64")]
const LOOK_AHEAD: usize = 4;

/// The best site in a function that begins with `code`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn choose(code: &[u8]) -> Site {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    let mut behind_endbr = 0;
    for _ in 0..LOOK_AHEAD {
        let offset = decoder.position();
        if !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        if is_emulated(instruction.code(), &code[offset..]) {
            return Site { offset, emulated: true };
        }
        if instruction.mnemonic() == Mnemonic::Endbr64 && offset == 0 {
            behind_endbr = instruction.len();
        }
        let harmless = instruction.flow_control() == FlowControl::Next
            && !info.info(&instruction).used_registers().iter().any(|used| {
                let written = matches!(
                    used.access(),
                    OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
                );
                written && is_argument_or_stack(used.register().full_register())
            })
            && info.info(&instruction).used_memory().is_empty();
        if !harmless {
            break;
        }
    }
    Site { offset: behind_endbr, emulated: false }
}

/// What arch/x86/kernel/uprobes.c takes on without stepping: `push reg`, one-byte `nop`, near calls and jumps.
#[cfg(target_arch = "x86_64")]
fn is_emulated(code: Code, bytes: &[u8]) -> bool {
    match bytes {
        [0x50..=0x57 | 0x90 | 0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..] => true,
        [0x41, 0x50..=0x57, ..] => true,
        [0x0f, 0x80..=0x8f, ..] => true,
        _ => code == Code::Nopd,
    }
}

#[cfg(target_arch = "x86_64")]
fn is_argument_or_stack(register: Register) -> bool {
    use Register::{R8, R9, RCX, RDI, RDX, RSI, RSP};
    matches!(register, RDI | RSI | RDX | RCX | R8 | R9 | RSP)
}

/// On arm64 the entry itself: `stp` and `paciasp` are simulated or stepped out of line by the kernel, and moving on
/// would pass the instruction that saves the link register.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn choose(_code: &[u8]) -> Site {
    Site { offset: 0, emulated: true }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn site(code: &[u8]) -> (usize, bool) {
        let mut padded = code.to_vec();
        padded.resize(32, 0xcc);
        let site = choose(&padded);
        (site.offset, site.emulated)
    }

    #[test]
    fn a_push_is_probed_where_it_stands() {
        assert_eq!(site(&[0x55, 0x48, 0x89, 0xe5]), (0, true)); // push rbp; mov rbp, rsp
        assert_eq!(site(&[0x41, 0x57, 0x41, 0x56]), (0, true)); // push r15
    }

    #[test]
    fn endbr64_is_passed() {
        assert_eq!(site(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), (4, true));
        // endbr64; sub rsp, 8: the stack pointer must not move, so single-step behind the endbr64
        assert_eq!(site(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0x55]), (4, false));
    }

    #[test]
    fn a_harmless_mov_is_passed_and_a_harmful_one_is_not() {
        assert_eq!(site(&[0x49, 0x89, 0xe2, 0x55]), (3, true)); // mov r10, rsp; push rbp
        assert_eq!(site(&[0x48, 0x89, 0xf7, 0x55]), (0, false)); // mov rdi, rsi: an argument
        assert_eq!(site(&[0x48, 0x83, 0xec, 0x18, 0x55]), (0, false)); // sub rsp, 24
        assert_eq!(site(&[0x48, 0x8b, 0x05, 1, 0, 0, 0, 0x55]), (0, false)); // mov rax, [rip+1]: may fault
    }

    #[test]
    fn rubbish_is_probed_at_its_entry() {
        assert_eq!(site(&[0x06]), (0, false));
        assert_eq!(choose(&[]), Site { offset: 0, emulated: false });
    }
}
