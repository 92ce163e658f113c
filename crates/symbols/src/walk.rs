//! One step up a stack.

use gimli::{
    CfaRule, EndianSlice, Evaluation, EvaluationResult, Location, Register, RegisterRule, UnwindExpression,
    Value,
};

use crate::frame::Registers;
use crate::stack::Stack;
use crate::tables::Row;

#[cfg(target_arch = "aarch64")]
mod arch {
    pub(super) const FRAME: usize = 29;
    pub(super) const LINK: Option<usize> = Some(30);
    pub(super) const STACK: usize = 31;
    /// Pointer authentication puts a signature above the address.
    pub(super) const ADDRESS: u64 = 0x0000_ffff_ffff_ffff;
}
#[cfg(not(target_arch = "aarch64"))]
mod arch {
    pub(super) const FRAME: usize = 6;
    pub(super) const LINK: Option<usize> = None;
    pub(super) const STACK: usize = 7;
    pub(super) const ADDRESS: u64 = u64::MAX;
}

/// By DWARF number; the last general one of any machine here is 31.
const COUNT: usize = 32;
/// Operations of one expression; real ones have about ten.
const MAX_OPERATIONS: u32 = 1000;

/// A frame: what its registers were, as far as that is known.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) ip: u64,
    /// It is not a return address: the innermost frame, or one that a signal interrupted.
    pub(crate) exact: bool,
    registers: [Option<u64>; COUNT],
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Caller,
    /// There is no caller: the thread started here.
    Outermost,
    /// The caller cannot be told.
    Lost,
}

impl Place {
    /// The lowest address where it is not known.
    pub(crate) fn sp(&self) -> u64 {
        self.registers[arch::STACK].unwrap_or(0)
    }

    pub(crate) fn new(registers: Registers) -> Place {
        let mut known = [None; COUNT];
        known[arch::STACK] = Some(registers.sp);
        known[arch::FRAME] = Some(registers.bp);
        #[cfg(target_arch = "aarch64")]
        {
            known[30] = Some(registers.lr);
        }
        Place { ip: registers.ip, exact: true, registers: known }
    }

    /// The address to look things up with: a return address is behind its call, maybe in the next function.
    pub(crate) fn lookup(&self) -> u64 {
        if self.exact { self.ip } else { self.ip.wrapping_sub(1) }
    }

    fn get(&self, register: Register) -> Option<u64> {
        self.registers.get(usize::from(register.0)).copied().flatten()
    }

    /// To the caller, as the table says.
    pub(crate) fn step(&mut self, row: &Row, stack: &Stack<'_>) -> Step {
        let Some(sp) = self.registers[arch::STACK] else { return Step::Lost };
        let frame = match &row.frame {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.get(*register).map(|value| value.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None, row, stack),
        };
        let Some(frame) = frame else { return Step::Lost };
        // A signal may have come on a stack of its own; else callers are further up.
        if frame < sp && !row.signal {
            return Step::Lost;
        }
        let mut caller = self.registers;
        caller[arch::STACK] = Some(frame);
        let mut ip = arch::LINK.and_then(|link| self.registers[link]);
        let mut outermost = arch::LINK.is_none();
        for (register, rule) in &row.registers {
            let value = self.recover(*register, rule, frame, row, stack);
            if *register == row.return_address {
                ip = value;
                outermost = matches!(rule, RegisterRule::Undefined);
            }
            if let Some(slot) = caller.get_mut(usize::from(register.0)) {
                *slot = value;
            }
        }
        // Whoever calls overwrites it.
        if let Some(link) = arch::LINK.filter(|_| !row.signal) {
            caller[link] = None;
        }
        let Some(ip) = ip.map(|ip| ip & arch::ADDRESS) else {
            return if outermost { Step::Outermost } else { Step::Lost };
        };
        let moved = frame != sp || ip != self.ip;
        self.arrive(ip, caller, row.signal, moved)
    }

    /// To the caller by the frame pointer, in code without tables.
    pub(crate) fn step_by_frame_pointer(&mut self, stack: &Stack<'_>) -> Step {
        let (Some(sp), Some(bp)) = (self.registers[arch::STACK], self.registers[arch::FRAME]) else {
            return Step::Lost;
        };
        if bp == 0 && !self.exact {
            return Step::Outermost;
        }
        if bp < sp {
            return Step::Lost;
        }
        let (Some(caller_bp), Some(ip)) =
            (stack.word(bp), bp.checked_add(8).and_then(|slot| stack.word(slot)))
        else {
            return Step::Lost;
        };
        let mut caller = [None; COUNT];
        caller[arch::STACK] = bp.checked_add(16);
        caller[arch::FRAME] = Some(caller_bp);
        self.arrive(ip & arch::ADDRESS, caller, false, true)
    }

    fn arrive(&mut self, ip: u64, registers: [Option<u64>; COUNT], exact: bool, moved: bool) -> Step {
        if ip == 0 {
            return Step::Outermost;
        }
        if !moved {
            return Step::Lost;
        }
        *self = Place { ip, exact, registers };
        Step::Caller
    }

    fn recover(
        &self,
        register: Register,
        rule: &RegisterRule<usize>,
        frame: u64,
        row: &Row,
        stack: &Stack<'_>,
    ) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => self.get(register),
            RegisterRule::Offset(offset) => stack.word(frame.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.get(*other),
            RegisterRule::Expression(expression) => {
                stack.word(self.evaluate(expression, Some(frame), row, stack)?)
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(frame), row, stack),
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        }
    }

    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        frame: Option<u64>,
        row: &Row,
        stack: &Stack<'_>,
    ) -> Option<u64> {
        let expression = expression.get(&row.section()).ok()?;
        let mut evaluation: Evaluation<EndianSlice<'_, _>> = expression.evaluation(row.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(frame) = frame {
            evaluation.set_initial_value(frame);
        }
        let mut state = evaluation.evaluate().ok()?;
        // Each turn costs an operation or ends it.
        for _ in 0..MAX_OPERATIONS {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.get(register)?)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(stack.word(address)?)).ok()?
                }
                _ => return None,
            };
        }
        match state {
            EvaluationResult::Complete => match evaluation.as_result().last()?.location {
                Location::Address { address } => Some(address),
                _ => None,
            },
            _ => None,
        }
    }
}
