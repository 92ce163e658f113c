//! What the common Xid numbers mean, in the words of NVIDIA's documentation.

const MEANINGS: &[(i64, &str)] = &[
    (13, "graphics engine exception: a fault of the program"),
    (31, "memory page fault: a fault of the program"),
    (43, "the GPU stopped processing: a fault of the program"),
    (45, "preemptive cleanup after an earlier error"),
    (48, "double-bit ECC error"),
    (61, "internal micro-controller breakpoint"),
    (62, "internal micro-controller halt"),
    (63, "a memory row was remapped"),
    (64, "a memory row could not be remapped"),
    (74, "NVLink error"),
    (79, "the GPU has fallen off the bus"),
    (92, "high rate of single-bit ECC errors"),
    (94, "contained ECC error"),
    (95, "uncontained ECC error"),
    (119, "the GPU's system processor (GSP) does not answer"),
    (120, "error of the GPU's system processor (GSP)"),
];

/// Nothing for numbers that need looking up.
pub(super) fn meaning(code: i64) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning)
}
