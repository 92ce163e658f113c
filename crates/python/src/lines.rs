//! Which line an instruction is of.

use crate::Version;

/// The line of the instruction at a byte offset: from `co_lnotab` (3.9), from the line table of PEP 626 (3.10), or from
/// the location table (3.11 and newer). None for instructions that are of no line, and where the table is broken.
pub fn line_at(version: &Version, first_line: u32, linetable: &[u8], instr: u32) -> Option<u32> {
    let line = match version.minor {
        ..=9 => by_lnotab(i64::from(first_line), linetable, instr),
        10 => by_line_table(i64::from(first_line), linetable, instr),
        _ => by_location_table(i64::from(first_line), linetable, instr),
    };
    line.and_then(|line| u32::try_from(line).ok())
}

/// Pairs of what to add to the instruction and to the line.
fn by_lnotab(mut line: i64, table: &[u8], instr: u32) -> Option<i64> {
    let mut at = 0;
    for pair in table.chunks_exact(2) {
        at += u32::from(pair[0]);
        if at > instr {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    Some(line)
}

/// Pairs of the length of a range and what to add to the line for it; -128: the range is of no line.
fn by_line_table(mut line: i64, table: &[u8], instr: u32) -> Option<i64> {
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        end += u32::from(pair[0]);
        let change = pair[1].cast_signed();
        if change != -128 {
            line += i64::from(change);
        }
        if instr < end {
            return (change != -128).then_some(line);
        }
    }
    None
}

/// Entries of a byte (its highest bit set) that has the kind and the length in code units, and what the kind needs.
fn by_location_table(mut line: i64, table: &[u8], instr: u32) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let mut end = 0;
    while let Some(first) = bytes.next() {
        let kind = first >> 3 & 15;
        end += 2 * (u32::from(first & 7) + 1);
        let (change, columns) = match kind {
            0..=9 => (0, 1),
            10..=12 => (i64::from(kind) - 10, 2),
            13 => (signed_varint(&mut bytes)?, 0),
            14 => {
                let change = signed_varint(&mut bytes)?;
                for _ in 0..3 {
                    varint(&mut bytes)?;
                }
                (change, 0)
            }
            _ => (0, 0),
        };
        line += change;
        for _ in 0..columns {
            bytes.next()?;
        }
        if instr < end {
            return (kind != 15).then_some(line);
        }
    }
    None
}

/// Six bits a byte, the lowest first; the seventh says that there is more.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0;
    for shift in (0..36).step_by(6) {
        let byte = bytes.next()?;
        value |= i64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The lowest bit is the sign.
fn signed_varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = varint(bytes)?;
    Some(if value & 1 == 1 { -(value >> 1) } else { value >> 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from real interpreters by `generate/lines.py`.
    const RECORDED: [(u8, &str); 6] = [
        (9, include_str!("lines/3.9.json")),
        (10, include_str!("lines/3.10.json")),
        (11, include_str!("lines/3.11.json")),
        (12, include_str!("lines/3.12.json")),
        (13, include_str!("lines/3.13.json")),
        (14, include_str!("lines/3.14.json")),
    ];

    #[derive(serde::Deserialize)]
    struct Recorded {
        first: u32,
        table: String,
        /// Where a range of instructions ends, and its line.
        lines: Vec<(u32, Option<u32>)>,
    }

    fn recorded() -> impl Iterator<Item = (Version, Recorded, Vec<u8>)> {
        RECORDED.iter().flat_map(|(minor, text)| {
            let version = Version { major: 3, minor: *minor, micro: 0, free_threaded: false };
            text.lines().map(move |line| {
                let code: Recorded = serde_json::from_str(line).unwrap();
                let digits = code.table.as_bytes().chunks_exact(2);
                let table = digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap());
                let table = table.collect();
                (version, code, table)
            })
        })
    }

    #[test]
    fn lines_are_those_of_the_interpreter() {
        let mut checked = 0;
        for (version, code, table) in recorded() {
            let mut instr = 0;
            for (end, line) in code.lines {
                while instr < end {
                    let got = line_at(&version, code.first, &table, instr);
                    assert_eq!(got, line, "{version}, code of line {}, instruction {instr}", code.first);
                    instr += 2;
                    checked += 1;
                }
            }
        }
        assert!(checked > 5_000, "{checked}");
    }

    #[test]
    fn broken_tables_do_no_harm() {
        for (version, code, table) in recorded() {
            for cut in 0..table.len().min(64) {
                line_at(&version, code.first, &table[..cut], u32::MAX);
                let mut broken = table.clone();
                broken[cut] ^= 0xff;
                line_at(&version, code.first, &broken, u32::MAX);
            }
        }
    }
}
