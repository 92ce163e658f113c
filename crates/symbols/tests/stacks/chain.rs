//! Long chains of calls through code without frame pointers.

use gpuwhy_symbols::{Registers, Swapped};

use crate::support::{MAX_FRAMES, Victim, Workshop, assert_chain, has, stack_of, symbols};

const LINKS: &str = r#"
#include <signal.h>
#define LINK(name, next) \
    __attribute__((noinline)) int name(int n) { \
        volatile char room[64 + sizeof(#name)]; \
        room[n & 31] = (char)n; \
        return next(n + 1) + room[n & 31]; \
    }
__attribute__((noinline)) static int halt(int n) { raise(SIGSTOP); return n; }
LINK(link12, halt) LINK(link11, link12) LINK(link10, link11) LINK(link09, link10) LINK(link08, link09)
LINK(link07, link08) LINK(link06, link07) LINK(link05, link06) LINK(link04, link05) LINK(link03, link04)
LINK(link02, link03) LINK(link01, link02)
"#;

const BRIDGE: &str = r#"
extern "C" int link01(int);
namespace bridge {
struct Caller { int times; __attribute__((noipa)) int call(const char *, int n) { return link01(n) + times; } };
}
extern "C" __attribute__((noinline)) int bridge_enter(int n) { bridge::Caller caller{n}; return caller.call("", n) + 1; }
"#;

const MAIN: &str =
    "int bridge_enter(int); int main(int argc, char **argv) { return bridge_enter(argc) + 1; }";

pub(crate) const CHAIN: [&str; 15] = [
    "link12",
    "link11",
    "link10",
    "link09",
    "link08",
    "link07",
    "link06",
    "link05",
    "link04",
    "link03",
    "link02",
    "link01",
    "bridge::Caller::call(char const*, int)",
    "bridge_enter",
    "main",
];

fn build() -> Workshop {
    let workshop = Workshop::new();
    let fast = "-O2 -fomit-frame-pointer -fno-optimize-sibling-calls";
    workshop.compile("links.c", LINKS, "liblinks.so", &format!("{fast} -shared -fPIC"));
    workshop.compile("bridge.cpp", BRIDGE, "libbridge.so", &format!("{fast} -shared -fPIC -llinks"));
    workshop.compile("main.c", MAIN, "victim", &format!("{fast} -lbridge -llinks"));
    workshop
}

#[test]
fn the_chain_is_whole_down_to_main() {
    if !has("the_chain_is_whole_down_to_main", &["gcc", "g++"]) {
        return;
    }
    let workshop = build();
    let victim = Victim::program(&workshop.path("victim"));
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    assert_chain(&frames, &CHAIN);
    assert!(unwound.complete, "{frames:#?}");
    assert_eq!(frames.last().unwrap().function.as_deref(), Some("_start"));
    let link = frames.iter().find(|frame| frame.function.as_deref() == Some("link05")).unwrap();
    assert_eq!(link.module, workshop.path("liblinks.so").to_str().unwrap());
}

#[test]
fn names_are_found_after_the_end() {
    if !has("names_are_found_after_the_end", &["gcc", "g++"]) {
        return;
    }
    let workshop = build();
    let mut victim = Victim::program(&workshop.path("victim"));
    let (registers, stack) = victim.capture();
    let mut symbols = symbols();
    symbols.see(victim.pid());
    victim.end();
    drop(workshop);
    let unwound = symbols.unwind(victim.pid(), registers, &stack, &[], MAX_FRAMES);
    let frames = symbols.frames(victim.pid(), &unwound.addresses).concat();
    assert_chain(&frames, &CHAIN);
    assert!(unwound.complete);
    symbols.forget(victim.pid());
    let frames = symbols.frames(victim.pid(), &unwound.addresses).concat();
    assert!(frames.iter().all(|frame| frame.function.is_none() && frame.module == "[unknown]"));
}

#[test]
fn return_addresses_that_a_probe_swapped_are_put_back() {
    if !has("return_addresses_that_a_probe_swapped_are_put_back", &["gcc", "g++"]) {
        return;
    }
    let workshop = build();
    let victim = Victim::program(&workshop.path("victim"));
    let (registers, mut stack) = victim.capture();
    let mut symbols = symbols();
    let pid = victim.pid();
    symbols.see(pid);
    let whole = symbols.unwind(pid, registers, &stack, &[], MAX_FRAMES);
    // Two of them: nested calls that are both probed have the same trampoline on the stack.
    let mut swapped = Vec::new();
    for frame in [5, 8] {
        let original = whole.addresses[frame];
        let at = stack.windows(8).position(|word| word == original.to_le_bytes()).unwrap();
        stack[at..at + 8].copy_from_slice(&0x7fff_ffff_e000u64.to_le_bytes());
        swapped.push(Swapped { at: registers.sp + at as u64, original });
    }
    let without = symbols.unwind(pid, registers, &stack, &[], MAX_FRAMES);
    assert_eq!(without.addresses, &whole.addresses[..5]);
    assert!(!without.complete);
    assert_eq!(symbols.unwind(pid, registers, &stack, &swapped, MAX_FRAMES), whole);
}

#[test]
fn a_stack_that_was_cut_off_is_not_complete() {
    if !has("a_stack_that_was_cut_off_is_not_complete", &["gcc", "g++"]) {
        return;
    }
    let workshop = build();
    let victim = Victim::program(&workshop.path("victim"));
    let (registers, stack) = victim.capture();
    let mut symbols = symbols();
    let pid = victim.pid();
    symbols.see(pid);
    let whole = symbols.unwind(pid, registers, &stack, &[], MAX_FRAMES);
    assert!(whole.complete);
    for size in [0, 7, 8, 512, 1024] {
        let part = symbols.unwind(pid, registers, &stack[..size], &[], MAX_FRAMES);
        assert!(!part.complete && whole.addresses.starts_with(&part.addresses), "{size}");
    }
    let some = symbols.unwind(pid, registers, &stack, &[], 4);
    assert_eq!((&some.addresses[..], some.complete), (&whole.addresses[..4], false));
    let nowhere = Registers { ip: 0x1234, sp: u64::MAX, bp: u64::MAX };
    let lost = symbols.unwind(pid, nowhere, &stack, &[], MAX_FRAMES);
    assert_eq!((lost.addresses, lost.complete), (vec![0x1234], false));
}

const SIGNAL: &str = r#"
#include <alloca.h>
#include <signal.h>
static void handler(int number) { raise(SIGSTOP); (void)number; }
__attribute__((noinline)) int interrupted(int n) { raise(SIGUSR1); return n + 1; }
/* Aligned room and room of unknown size: the frame is found through memory, not through a register. */
__attribute__((noinline)) int realigned(int n, int m) {
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char *any = alloca(n * 24 + 8);
    aligned[n & 31] = any[m & 1] = 1;
    return interrupted(n) + aligned[n & 31] + any[m & 1];
}
int main(int argc, char **argv) {
    signal(SIGUSR1, handler);
    return realigned(argc, argc) + 1;
}
"#;

#[test]
fn signal_handlers_and_realigned_frames_are_passed() {
    if !has("signal_handlers_and_realigned_frames_are_passed", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("signal.c", SIGNAL, "victim", "-O2 -fomit-frame-pointer -fno-optimize-sibling-calls");
    let victim = Victim::program(&workshop.path("victim"));
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    assert_chain(&frames, &["interrupted", "realigned", "main"]);
    assert!(frames.iter().any(|frame| frame.function.as_deref() == Some("handler")));
    assert!(unwound.complete);
}
