//! Values as bytes and back. What a type has in it is listed once, for `coded!`: both ways are made of the same list.

use std::sync::Arc;

/// Texts that can be named again by a byte.
const TEXTS: usize = 32;

/// The latest texts, the newest last: rows of a push have most of theirs in common.
#[derive(Debug, Default)]
struct Texts(Vec<Arc<str>>);

impl Texts {
    fn back(&self, text: &Arc<str>) -> Option<usize> {
        self.0.iter().rev().position(|known| Arc::ptr_eq(known, text) || known == text)
    }

    /// One of them once more: it is the newest again.
    fn again(&mut self, back: usize) -> Option<&Arc<str>> {
        let at = self.0.len().checked_sub(back + 1)?;
        self.0[at..].rotate_left(1);
        self.0.last()
    }

    fn add(&mut self, text: Arc<str>) {
        match self.0.len() < TEXTS {
            true => self.0.push(text),
            false => {
                self.0.rotate_left(1);
                self.0[TEXTS - 1] = text;
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    texts: Texts,
}

/// Reads what a [`Writer`] wrote. Of anything else it gives nothing: it never reads beyond the end, nor takes more memory
/// than a few times the bytes that are there.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    texts: Texts,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, texts: Texts::default() }
    }

    pub(super) fn get<T: Coded>(&mut self) -> Option<T> {
        T::get(self)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

pub(super) trait Coded: Sized {
    fn put(&self, to: &mut Writer);
    fn get(from: &mut Reader<'_>) -> Option<Self>;
}

/// Lists what a struct has in it. A field that is forgotten does not compile.
macro_rules! coded {
    ($name:ident { $($field:ident),* $(,)? }) => {
        coded!($name { $($field),* } then {});
    };
    // What records of earlier versions end before; written only where there is something in it.
    ($name:ident { $($field:ident),* $(,)? } then { $($later:ident),* }) => {
        impl Coded for $name {
            fn put(&self, to: &mut Writer) {
                $(self.$field.put(to);)*
                $(put_later(&self.$later, to);)*
            }

            fn get(from: &mut Reader<'_>) -> Option<Self> {
                Some($name {
                    $($field: from.get()?,)*
                    $($later: get_later(from)?,)*
                })
            }
        }
    };
}
pub(super) use coded;

pub(super) fn put_later<T: Coded + Default + PartialEq>(value: &T, to: &mut Writer) {
    if *value != T::default() {
        value.put(to);
    }
}

pub(super) fn get_later<T: Coded + Default + PartialEq>(from: &mut Reader<'_>) -> Option<T> {
    match from.is_at_end() {
        true => Some(T::default()),
        false => from.get().filter(|value| *value != T::default()),
    }
}

impl Coded for u8 {
    fn put(&self, to: &mut Writer) {
        to.bytes.push(*self);
    }

    fn get(from: &mut Reader<'_>) -> Option<u8> {
        from.array().map(u8::from_le_bytes)
    }
}

impl Coded for u32 {
    fn put(&self, to: &mut Writer) {
        u64::from(*self).put(to);
    }

    fn get(from: &mut Reader<'_>) -> Option<u32> {
        u64::get(from)?.try_into().ok()
    }
}

/// Seven bits a byte, the lowest first.
impl Coded for u64 {
    fn put(&self, to: &mut Writer) {
        let mut rest = *self;
        while rest >= 0x80 {
            to.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        to.bytes.push(rest as u8);
    }

    fn get(from: &mut Reader<'_>) -> Option<u64> {
        let mut whole = 0;
        for shift in (0..64).step_by(7) {
            let byte = u8::get(from)?;
            whole |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte has room for one bit.
                return (shift < 63 || byte < 2).then_some(whole);
            }
        }
        None
    }
}

/// Small numbers of either sign are short.
impl Coded for i64 {
    fn put(&self, to: &mut Writer) {
        (((self << 1) ^ (self >> 63)) as u64).put(to);
    }

    fn get(from: &mut Reader<'_>) -> Option<i64> {
        let folded: u64 = from.get()?;
        Some((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }
}

impl Coded for i32 {
    fn put(&self, to: &mut Writer) {
        i64::from(*self).put(to);
    }

    fn get(from: &mut Reader<'_>) -> Option<i32> {
        from.get::<i64>()?.try_into().ok()
    }
}

impl Coded for i128 {
    fn put(&self, to: &mut Writer) {
        to.bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn get(from: &mut Reader<'_>) -> Option<i128> {
        from.array().map(i128::from_le_bytes)
    }
}

impl Coded for f64 {
    fn put(&self, to: &mut Writer) {
        to.bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn get(from: &mut Reader<'_>) -> Option<f64> {
        from.array().map(f64::from_le_bytes)
    }
}

/// 0 and the text, or which of the latest it is, from 1.
impl Coded for Arc<str> {
    fn put(&self, to: &mut Writer) {
        if let Some(back) = to.texts.back(self) {
            to.bytes.push(back as u8 + 1);
            to.texts.again(back);
            return;
        }
        to.bytes.push(0);
        (self.len() as u64).put(to);
        to.bytes.extend_from_slice(self.as_bytes());
        to.texts.add(self.clone());
    }

    fn get(from: &mut Reader<'_>) -> Option<Arc<str>> {
        match u8::get(from)? {
            0 => {
                let length = usize::try_from(from.get::<u64>()?).ok()?;
                let text: Arc<str> = std::str::from_utf8(from.take(length)?).ok()?.into();
                from.texts.add(text.clone());
                Some(text)
            }
            back => from.texts.again(usize::from(back) - 1).cloned(),
        }
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, to: &mut Writer) {
        u8::from(self.is_some()).put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn get(from: &mut Reader<'_>) -> Option<Option<T>> {
        match u8::get(from)? {
            0 => Some(None),
            1 => from.get().map(Some),
            _ => None,
        }
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, to: &mut Writer) {
        (self.len() as u64).put(to);
        self.iter().for_each(|value| value.put(to));
    }

    /// A number that is not true ends with the bytes: each value has one at least.
    fn get(from: &mut Reader<'_>) -> Option<Vec<T>> {
        let count: u64 = from.get()?;
        (0..count).map(|_| from.get()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: Coded>(value: &T) -> (Option<T>, usize) {
        let mut writer = Writer::default();
        value.put(&mut writer);
        let mut reader = Reader::new(&writer.bytes);
        let read = reader.get();
        assert!(reader.is_at_end());
        (read, writer.bytes.len())
    }

    #[test]
    fn numbers_come_back_and_small_ones_are_short() {
        for number in [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX] {
            assert_eq!(again(&number).0, Some(number));
        }
        for number in [0, 1, -1, 63, -64, i64::MIN, i64::MAX] {
            assert_eq!(again(&number).0, Some(number));
        }
        assert_eq!((again(&-64i64).1, again(&i32::MIN).0), (1, Some(i32::MIN)));
        assert_eq!(again(&i128::MIN).0, Some(i128::MIN));
        assert!(again(&f64::NAN).0.is_some_and(f64::is_nan));
    }

    #[test]
    fn a_text_that_was_there_lately_is_a_byte() {
        let text = |n: usize| -> Arc<str> { format!("text number {n}").into() };
        let mut texts: Vec<Arc<str>> = (0..40).map(text).collect();
        texts.extend([text(39), text(12), text(0), text(12), "".into(), "\0é".into()]);
        let (read, length) = again(&texts);
        assert_eq!(read.as_ref(), Some(&texts));
        let whole: usize = texts.iter().map(|text| text.len() + 2).sum();
        // 39 and 12 twice are named; 0 was too long ago.
        assert_eq!(length, whole + 1 - 3 * "text number 39".len() - 3);
    }

    #[test]
    fn what_was_not_written_gives_nothing() {
        let none = |bytes: &[u8]| Reader::new(bytes).get::<Vec<Arc<str>>>().is_none();
        assert!(none(&[]));
        assert!(none(&[1]), "a text is missing");
        assert!(none(&[1, 0, 5, b'a']), "it is shorter than it says");
        assert!(none(&[1, 0, 1, 0xff]), "no UTF-8");
        assert!(none(&[1, 7]), "there was no such text");
        assert!(none(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), "more than there can be");
        assert!(none(&[0xff; 11]), "no number is so long");
        assert!(Reader::new(&[2, 0]).get::<Option<u8>>().is_none());
    }
}
