//! Where a library keeps a field of a struct of its own, read off the code of a function that returns it: libraries
//! move their fields from version to version, but their accessors know.

use gpuwhy_elf::{Bytes, Layout, Table, find_symbols};
use gpuwhy_proc::TargetFile;

/// Where CUDA's driver 580 keeps the pointer to the name, in kernels and functions alike; the probes begin with it.
pub const FUNCTION_NAME_OFFSET: u64 = crate::raw::cuda::FUNCTION_NAME_OFFSET as u64;

/// No accessor is longer.
const MAX_CODE: u64 = 4096;

/// Rank and number of ranks in a communicator of NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommunicatorLayout {
    pub rank: u32,
    pub nranks: u32,
}

impl CommunicatorLayout {
    /// From `ncclCommUserRank(comm, out)` and `ncclCommCount(comm, out)` of a library file.
    pub fn of_library(file: &TargetFile) -> Option<CommunicatorLayout> {
        Some(CommunicatorLayout {
            rank: field_of_accessor(&code_of(file, "ncclCommUserRank")?)?,
            nranks: field_of_accessor(&code_of(file, "ncclCommCount")?)?,
        })
    }
}

fn code_of(file: &TargetFile, name: &str) -> Option<Vec<u8>> {
    let file = file.file();
    let layout = Layout::read(file)?;
    let search = find_symbols(file, &layout, &[Table::Dynamic, Table::Full], &[name]);
    let symbol = search.symbols.get(name)?;
    file.bytes(layout.offset_of(symbol.address)?, symbol.size.min(MAX_CODE))
}

/// The offset in `mov r32, [comm + offset]`, `mov [out], r32`, with at most one instruction between.
#[cfg(target_arch = "x86_64")]
fn field_of_accessor(code: &[u8]) -> Option<u32> {
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
    let instructions: Vec<Instruction> =
        Decoder::new(64, code, DecoderOptions::NONE).into_iter().take_while(|i| !i.is_invalid()).collect();
    let is_mov = |i: &Instruction| i.mnemonic() == Mnemonic::Mov;
    instructions.iter().enumerate().find_map(|(at, load)| {
        let offset = load.memory_displacement64();
        let from_struct = is_mov(load)
            && load.op0_kind() == OpKind::Register
            && load.op0_register().is_gpr32()
            && load.op1_kind() == OpKind::Memory
            && load.memory_index() == Register::None
            && !matches!(load.memory_base(), Register::RIP | Register::RSP | Register::RBP | Register::None)
            && offset < 1 << 24;
        let stored = || {
            instructions.iter().skip(at + 1).take(2).any(|store| {
                is_mov(store)
                    && store.op0_kind() == OpKind::Memory
                    && store.memory_displacement64() == 0
                    && store.op1_kind() == OpKind::Register
                    && store.op1_register() == load.op0_register()
            })
        };
        (from_struct && stored()).then_some(offset as u32)
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn field_of_accessor(_code: &[u8]) -> Option<u32> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::field_of_accessor;

    #[test]
    fn a_field_is_read_off_its_accessor() {
        // push rbp; mov rbp, rsp; mov eax, [rdi+0x148]; mov [rsi], eax; pop rbp; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0x8b, 0x87, 0x48, 1, 0, 0, 0x89, 0x06, 0x5d, 0xc3];
        assert_eq!(field_of_accessor(&code), Some(0x148));
        // mov eax, [rdi]; ret: nothing is stored
        assert_eq!(field_of_accessor(&[0x8b, 0x07, 0xc3]), None);
        assert_eq!(field_of_accessor(&[]), None);
    }
}
