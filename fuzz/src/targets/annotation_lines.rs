//! Annotations as programs send them. An input is lines.

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "annotation_lines",
    about: "lines of the annotation socket, labels, beginnings and ends (annotations)",
    run,
    words: &[
        "{\"do\":\"begin\",\"labels\":{\"step\":1}}\n",
        "\"do\":",
        "\"next\"",
        "\"end\"",
        "\"labels\":{",
        "\"pid\":null",
        "\"monotonic_ns\":",
        "\"reply\":true",
        "\\u0000",
        "\\ud800",
        "1e999",
        "=",
    ],
    runs: 20_000,
    most_bytes: 16 << 10,
};

fn run(bytes: &[u8]) {
    gpuwhy_annotations::fuzz::lines(bytes);
    for line in bytes.split(|byte| *byte == b'\n').take(16) {
        // Either a label or a sentence about what is wrong with it.
        let _ = gpuwhy_annotations::label(&String::from_utf8_lossy(line));
    }
}
