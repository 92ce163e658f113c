//! A stack's names: those of its native functions, with Python's functions in the place of the loop that ran them.

use crate::names::{Ran, Unnamed};
use crate::stacks::MAX_FRAMES;
use gpuwhy_model::{Frame, FrameKind, Stack};
use gpuwhy_symbols::Symbols;
use std::collections::VecDeque;

/// The function that runs Python code: one of it is on the native stack for each run.
const EVAL_LOOP: &str = "_PyEval_EvalFrameDefault";

pub(crate) fn name(symbols: &mut Symbols, unnamed: Unnamed) -> Stack {
    let Unnamed { mut stack, stack_pointers, python, is_at_return } = unnamed;
    let ends = stack_pointers.into_iter().skip(1).map(Some).chain(std::iter::repeat(None));
    let native = stack.addresses.iter().zip(ends).enumerate().flat_map(|(depth, (address, end))| {
        let frames = symbols.frames_at(stack.pid, *address, depth > 0 || is_at_return);
        frames.into_iter().map(move |frame| (end, frame))
    });
    let native = native.map(|(end, frame)| Native {
        end,
        function: Frame {
            kind: FrameKind::Native,
            function: frame.function,
            file: frame.file,
            line: frame.line,
            module: frame.module,
            address: frame.address,
            inlined: frame.inlined,
        },
    });
    stack.frames = merge(native, python);
    stack
}

struct Native {
    function: Frame,
    /// Where its stack ends and its caller's begins, if that is known.
    end: Option<u64>,
}

/// The functions of one run of the eval loop.
#[derive(Default)]
struct Run {
    functions: Vec<Frame>,
    foot: Option<u64>,
}

fn runs(python: Vec<Ran>) -> VecDeque<Run> {
    let mut runs = VecDeque::new();
    let mut run = Run::default();
    for ran in python.into_iter().filter(|ran| !is_trampoline(&ran.function)) {
        run.functions.push(ran.function);
        if ran.entry {
            run.foot = ran.foot;
            runs.push_back(std::mem::take(&mut run));
        }
    }
    if !run.functions.is_empty() {
        runs.push_back(run);
    }
    runs
}

/// Each run of the eval loop gives way to the Python functions it ran: the native function whose stack it is on, else the
/// next one with the loop's name. Python frames that no native one was found for come last, as the native stack was cut;
/// or, in a program without names, inside of what started Python.
fn merge(native: impl Iterator<Item = Native>, python: Vec<Ran>) -> Vec<Frame> {
    let mut runs = runs(python);
    let mut merged = Vec::new();
    let mut loops = 0;
    for Native { function, end } in native {
        let is_here = |run: &Run| match (run.foot, end) {
            (Some(foot), Some(end)) => foot < end,
            _ => is_loop(&function),
        };
        // The loop's own parts, put into it by the compiler, are no run of their own.
        let is_run = !function.inlined && runs.front().is_some_and(is_here);
        if is_run && let Some(run) = runs.pop_front() {
            loops += 1;
            merged.extend(run.functions);
        }
        // Compilers make several functions of the loop, without names; or put it into another one, which stays.
        if !is_run || !(is_loop(&function) || function.function.is_none()) {
            merged.push(function);
        }
    }
    let rest: Vec<Frame> = runs.into_iter().flat_map(|run| run.functions).collect();
    let place = if loops == 0 { merged.iter().rposition(starts_python) } else { None };
    let place = place.unwrap_or(merged.len());
    merged.splice(place..place, rest);
    // A stack that is too long loses native frames: the lines of the program are what is asked for first.
    let cut = merged.split_off(merged.len().min(MAX_FRAMES));
    merged.extend(cut.into_iter().filter(|frame| frame.kind == FrameKind::Python));
    merged
}

fn is_loop(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| {
        name == EVAL_LOOP || name.strip_prefix(EVAL_LOOP).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// It is exported by every Python, and runs the outermost code of a program.
fn starts_python(frame: &Frame) -> bool {
    frame.function.as_deref() == Some("PyEval_EvalCode")
}

/// A frame the interpreter makes for itself: around a run of the loop (3.12), or to check what `__init__` returns once that
/// is hot (3.12 and newer), which has one text for file and name, and no line.
fn is_trampoline(frame: &Frame) -> bool {
    let is_init = frame.line.is_none() && frame.function.is_some() && frame.function == frame.file;
    is_init || frame.function.as_deref().is_some_and(|name| name.starts_with("<interpreter trampoline>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(name: &str) -> Native {
        Native { function: Frame { function: Some(name.into()), ..Frame::default() }, end: None }
    }

    fn python(name: &str, entry: bool) -> Ran {
        let function = Frame { kind: FrameKind::Python, function: Some(name.into()), ..Frame::default() };
        Ran { function, entry, foot: None }
    }

    fn names(frames: &[Frame]) -> Vec<&str> {
        frames.iter().filter_map(|frame| frame.function.as_deref()).collect()
    }

    #[test]
    fn python_functions_take_the_place_of_the_loop_that_ran_them() {
        let natives = ["cuLaunchKernel", "call_it", EVAL_LOOP, "map_next", EVAL_LOOP, "main"].map(native);
        let pythons = vec![
            python("inner", false),
            python("middle", true),
            python("outer", false),
            python("<module>", true),
        ];
        let merged = merge(natives.into_iter(), pythons);
        assert_eq!(
            names(&merged),
            ["cuLaunchKernel", "call_it", "inner", "middle", "map_next", "outer", "<module>", "main"]
        );
    }

    #[test]
    fn a_loop_without_a_name_is_told_by_its_stack() {
        let at = |name: Option<&str>, end| {
            let function = Frame { function: name.map(Into::into), ..Frame::default() };
            Native { function, end: Some(end) }
        };
        let natives = [
            at(Some("cuLaunchKernel"), 10),
            at(None, 20),
            at(None, 30),
            at(Some("map_next"), 40),
            // Of another interpreter.
            at(Some(EVAL_LOOP), 50),
            // The loop was put into it.
            at(Some("_PyEval_Vector"), 60),
            at(Some("main"), 70),
        ];
        let ran = |name, foot: Option<u64>| Ran { foot, ..python(name, foot.is_some()) };
        let pythons = vec![ran("inner", None), ran("middle", Some(25)), ran("outer", Some(55))];
        assert_eq!(
            merge(natives.into_iter(), pythons)
                .iter()
                .map(|frame| frame.function.as_deref())
                .collect::<Vec<_>>(),
            [
                Some("cuLaunchKernel"),
                None,
                Some("inner"),
                Some("middle"),
                Some("map_next"),
                Some(EVAL_LOOP),
                Some("outer"),
                Some("_PyEval_Vector"),
                Some("main")
            ]
        );
    }

    #[test]
    fn the_interpreters_own_frames_are_not_told() {
        let mut check = python("__init__", false);
        check.function.file = Some("__init__".into());
        let frames = vec![python("Model.__init__", false), check, python("make", true)];
        assert_eq!(names(&merge([native(EVAL_LOOP)].into_iter(), frames)), ["Model.__init__", "make"]);
    }

    #[test]
    fn a_long_stack_keeps_its_python_functions() {
        let natives = (0..MAX_FRAMES).map(|_| native("call_it"));
        let natives = natives.chain([native(EVAL_LOOP), native("main")]);
        let merged = merge(natives, vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged)[MAX_FRAMES..], ["inner", "outer"]);
    }

    #[test]
    fn what_finds_no_place_comes_last() {
        let merged =
            merge([native("cuLaunchKernel")].into_iter(), vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged), ["cuLaunchKernel", "inner", "outer"]);
        let natives = ["cuLaunchKernel", "PyEval_EvalCode", "main"].map(native);
        let merged = merge(natives.into_iter(), vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged), ["cuLaunchKernel", "inner", "outer", "PyEval_EvalCode", "main"]);
        let merged = merge([native(EVAL_LOOP), native("main")].into_iter(), Vec::new());
        assert_eq!(names(&merged), [EVAL_LOOP, "main"]);
    }
}
