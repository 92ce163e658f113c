//! Protobuf, read where it lies: the fields of a message one after the other. Nothing is copied and nothing is built, so a
//! message costs no memory but its own bytes, whatever it claims to contain.

/// It is no protobuf, or not of this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

pub(super) type Read<T> = Result<T, Malformed>;

/// One value, as the wire has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'m> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'m [u8]),
    Fixed32(u32),
}

impl<'m> Field<'m> {
    pub(super) fn text(self) -> Read<&'m str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("a string is not UTF-8"))
    }

    pub(super) fn bytes(self) -> Read<&'m [u8]> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(WRONG_TYPE),
        }
    }

    pub(super) fn message(self) -> Read<Message<'m>> {
        self.bytes().map(Message)
    }

    pub(super) fn varint(self) -> Read<u64> {
        match self {
            Field::Varint(number) => Ok(number),
            _ => Err(WRONG_TYPE),
        }
    }

    pub(super) fn fixed64(self) -> Read<u64> {
        match self {
            Field::Fixed64(number) => Ok(number),
            _ => Err(WRONG_TYPE),
        }
    }

    pub(super) fn double(self) -> Read<f64> {
        self.fixed64().map(f64::from_bits)
    }

    /// A `sint32`.
    pub(super) fn zigzag(self) -> Read<i64> {
        self.varint().map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

const WRONG_TYPE: Malformed = Malformed("a field has another type than OTLP gives it");
const CUT_SHORT: Malformed = Malformed("it is cut short");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'m>(pub(super) &'m [u8]);

impl<'m> Message<'m> {
    /// With their numbers. After an error nothing comes.
    pub(super) fn fields(self) -> Fields<'m> {
        Fields(self.0)
    }

    /// Of one number.
    pub(super) fn all(self, number: u32) -> impl Iterator<Item = Read<Field<'m>>> {
        self.fields().filter_map(move |field| match field {
            Ok((of, field)) if of == number => Some(Ok(field)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The messages of one number.
    pub(super) fn messages(self, number: u32) -> impl Iterator<Item = Read<Message<'m>>> {
        self.all(number).map(|field| field?.message())
    }

    /// Numbers of 64 bits, packed or one by one.
    pub(super) fn fixed64s(self, number: u32) -> impl Iterator<Item = Read<u64>> {
        self.all(number).flat_map(|field| {
            let (one, packed) = match field {
                Ok(Field::Bytes(packed)) if packed.len() % 8 == 0 => (None, packed),
                other => (Some(other.and_then(Field::fixed64)), &[][..]),
            };
            let packed = packed.chunks_exact(8).map(|bytes| Ok(little(bytes)));
            one.into_iter().chain(packed)
        })
    }

    /// Varints, packed or one by one.
    pub(super) fn varints(self, number: u32) -> impl Iterator<Item = Read<u64>> {
        self.all(number).flat_map(|field| {
            let (one, packed) = match field {
                Ok(Field::Bytes(packed)) => (None, packed),
                other => (Some(other.and_then(Field::varint)), &[][..]),
            };
            one.into_iter().chain(Varints(packed))
        })
    }
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[derive(Debug, Clone)]
pub(super) struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn next_field(&mut self) -> Read<(u32, Field<'m>)> {
        let key = varint(&mut self.0)?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed("a field has no such number"))?;
        let field = match key & 7 {
            0 => Field::Varint(varint(&mut self.0)?),
            1 => Field::Fixed64(little(take(&mut self.0, 8)?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| CUT_SHORT)?;
                Field::Bytes(take(&mut self.0, length)?)
            }
            5 => Field::Fixed32(little(take(&mut self.0, 4)?) as u32),
            _ => return Err(Malformed("a field has an unknown wire type")),
        };
        if number == 0 { Err(Malformed("a field has the number 0")) } else { Ok((number, field)) }
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Read<(u32, Field<'m>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

struct Varints<'m>(&'m [u8]);

impl Iterator for Varints<'_> {
    type Item = Read<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let number = varint(&mut self.0);
        if number.is_err() {
            self.0 = &[];
        }
        Some(number)
    }
}

fn take<'m>(from: &mut &'m [u8], count: usize) -> Read<&'m [u8]> {
    let (taken, rest) = from.split_at_checked(count).ok_or(CUT_SHORT)?;
    *from = rest;
    Ok(taken)
}

fn varint(from: &mut &[u8]) -> Read<u64> {
    let mut number = 0u64;
    for (index, byte) in from.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(index as u32 * 7).unwrap_or(0);
        if byte & 0x80 == 0 {
            *from = &from[index + 1..];
            return Ok(number);
        }
    }
    Err(if from.len() < 10 { CUT_SHORT } else { Malformed("a number has more than 64 bits") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_types_are_read_and_unknown_ones_are_passed_over() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: varint 150
            0x11, 1, 0, 0, 0, 0, 0, 0, 0, // 2: fixed64 1
            0x1a, 2, b'h', b'i', // 3: bytes
            0x25, 7, 0, 0, 0, // 4: fixed32 7
            0x08, 0x80, 0x80, 0x80, 0x00, // 1: 0, written longer than need be
        ];
        let fields: Vec<_> = Message(&bytes).fields().map(Result::unwrap).collect();
        assert_eq!(
            fields,
            [
                (1, Field::Varint(150)),
                (2, Field::Fixed64(1)),
                (3, Field::Bytes(b"hi")),
                (4, Field::Fixed32(7)),
                (1, Field::Varint(0))
            ]
        );
        let zigzag: Vec<i64> =
            [0, 1, 2, 3].into_iter().map(|number| Field::Varint(number).zigzag().unwrap()).collect();
        assert_eq!(zigzag, [0, -1, 1, -2]);
        let packed = [0x0a, 3, 1, 0x96, 0x01, 0x08, 9];
        let numbers: Vec<u64> = Message(&packed).varints(1).map(Result::unwrap).collect();
        assert_eq!(numbers, [1, 150, 9]);
    }

    #[test]
    fn what_is_cut_short_or_no_protobuf_is_told_once() {
        for wrong in [
            &[0x08][..],
            &[0x0a, 5, 1],
            &[0x11, 1, 2],
            &[0x0b],
            &[0x00, 0x00],
            &[0xff; 11],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let fields: Vec<_> = Message(wrong).fields().collect();
            assert!(matches!(fields[..], [Err(_)]), "{wrong:?}: {fields:?}");
        }
    }
}
