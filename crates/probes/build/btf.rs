//! BTF to Rust: the named structs and enumerators of a BPF object as `#[repr(C)]` twins. Only what the probes'
//! headers use is understood: integers, arrays, typedefs, structs of those, enums. Types with pointers or
//! bit-fields (the kernel's own) are left out.

use object::{Object, ObjectSection};
use std::fmt::Write;

struct Type {
    name: String,
    kind: u32,
    /// Byte size, or the id of the type referred to.
    size_or_type: u32,
    bitfield_members: bool,
    members: Vec<Member>,
    /// Element type and count of an array.
    array: (u32, u32),
    enumerators: Vec<(String, i64)>,
    int_signed: bool,
}

struct Member {
    name: String,
    type_id: u32,
    offset_bits: u32,
}

const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const ENUM: u32 = 6;

pub(crate) fn rust_types(object: &[u8]) -> String {
    let file = object::File::parse(object).expect("clang writes ELF");
    let section = file.section_by_name(".BTF").expect("compiled with -g");
    let data = section.data().expect("a readable section");
    let types = parse(data);
    let mut out = String::new();
    let mut seen = std::collections::BTreeSet::new();
    for ty in &types {
        if !seen.insert((ty.kind, ty.name.clone())) {
            continue;
        }
        match ty.kind {
            STRUCT if !ty.name.is_empty() => write_struct(&mut out, &types, ty),
            ENUM => write_enum(&mut out, ty),
            _ => {}
        }
    }
    out
}

fn write_struct(out: &mut String, types: &[Type], ty: &Type) {
    if ty.bitfield_members {
        return;
    }
    let mut fields = String::new();
    let mut checks = String::new();
    let mut end = 0;
    let mut padding = 0;
    for member in &ty.members {
        let Some((rust, size)) = rust_type(types, member.type_id) else { return };
        let offset = member.offset_bits / 8;
        if offset > end {
            let _ = writeln!(fields, "    pub padding_{padding}: [u8; {}],", offset - end);
            padding += 1;
        }
        let _ = writeln!(fields, "    pub {}: {rust},", member.name);
        let _ = writeln!(
            checks,
            "const _: () = assert!(std::mem::offset_of!({}, {}) == {offset});",
            ty.name, member.name
        );
        end = offset + size;
    }
    if ty.size_or_type > end {
        let _ = writeln!(fields, "    pub padding_{padding}: [u8; {}],", ty.size_or_type - end);
    }
    let _ = writeln!(out, "#[repr(C)]\n#[derive(Debug, Clone, Copy)]\npub struct {} {{\n{fields}}}", ty.name);
    let _ = writeln!(out, "const _: () = assert!(size_of::<{}>() == {});", ty.name, ty.size_or_type);
    out.push_str(&checks);
    // Plain integers and arrays of them, without gaps: any bytes are a value.
    let _ = writeln!(
        out,
        "// SAFETY: integers only, padding spelled out.\nunsafe impl crate::raw::Raw for {} {{}}",
        ty.name
    );
}

fn write_enum(out: &mut String, ty: &Type) {
    for (name, value) in &ty.enumerators {
        let _ = writeln!(out, "pub const {name}: u32 = {value};");
    }
}

/// The Rust spelling and the size of a type, or nothing where it has no safe twin.
fn rust_type(types: &[Type], id: u32) -> Option<(String, u32)> {
    let ty = types.get(id as usize)?;
    match ty.kind {
        INT => {
            let sign = if ty.int_signed { 'i' } else { 'u' };
            Some((format!("{sign}{}", ty.size_or_type * 8), ty.size_or_type))
        }
        ARRAY => {
            let (element, size) = rust_type(types, ty.array.0)?;
            Some((format!("[{element}; {}]", ty.array.1), size * ty.array.1))
        }
        STRUCT if !ty.name.is_empty() && struct_is_plain(types, ty) => {
            Some((ty.name.clone(), ty.size_or_type))
        }
        // typedef, volatile, const
        8..=10 => rust_type(types, ty.size_or_type),
        _ => None,
    }
}

fn struct_is_plain(types: &[Type], ty: &Type) -> bool {
    !ty.bitfield_members && ty.members.iter().all(|member| rust_type(types, member.type_id).is_some())
}

fn parse(data: &[u8]) -> Vec<Type> {
    let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"));
    let header_len = word(4) as usize;
    let types_at = header_len + word(8) as usize;
    let types_len = word(12) as usize;
    let strings_at = header_len + word(16) as usize;
    let string = |offset: u32| {
        let from = strings_at + offset as usize;
        let len = data[from..].iter().position(|byte| *byte == 0).expect("strings end in NUL");
        String::from_utf8_lossy(&data[from..from + len]).into_owned()
    };

    // Id 0 is void.
    let mut types = vec![empty(String::new(), 0, 0)];
    let mut at = types_at;
    while at < types_at + types_len {
        let info = word(at + 4);
        let (vlen, kind, kind_flag) = ((info & 0xffff) as usize, (info >> 24) & 0x1f, info >> 31 != 0);
        let mut ty = empty(string(word(at)), kind, word(at + 8));
        at += 12;
        match kind {
            1 => {
                ty.int_signed = (word(at) >> 24) & 1 != 0;
                at += 4;
            }
            3 => {
                ty.array = (word(at), word(at + 8));
                at += 12;
            }
            4 | 5 => {
                for _ in 0..vlen {
                    let offset = word(at + 8);
                    ty.bitfield_members |= kind_flag && offset >> 24 != 0;
                    ty.members.push(Member {
                        name: string(word(at)),
                        type_id: word(at + 4),
                        offset_bits: if kind_flag { offset & 0x00ff_ffff } else { offset },
                    });
                    at += 12;
                }
            }
            6 => {
                for _ in 0..vlen {
                    ty.enumerators.push((string(word(at)), i64::from(word(at + 4) as i32)));
                    at += 8;
                }
            }
            13 => at += 8 * vlen,
            14 | 17 => at += 4,
            15 | 19 => at += 12 * vlen,
            _ => {}
        }
        types.push(ty);
    }
    types
}

fn empty(name: String, kind: u32, size_or_type: u32) -> Type {
    Type {
        name,
        kind,
        size_or_type,
        bitfield_members: false,
        members: Vec::new(),
        array: (0, 0),
        enumerators: Vec::new(),
        int_signed: false,
    }
}
