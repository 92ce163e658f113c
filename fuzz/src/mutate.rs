//! Damage: bits, numbers, lengths, pieces moved, doubled, cut or taken from another input.

use crate::Random;

/// Numbers that sizes and signs go wrong at.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Inputs made of other inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    random: Random,
    words: &'a [&'a str],
    most_bytes: usize,
}

impl<'a> Mutator<'a> {
    pub fn new(seed: u64, words: &'a [&'a str], most_bytes: usize) -> Mutator<'a> {
        Mutator { random: Random::new(seed), words, most_bytes }
    }

    /// One of the inputs, changed in a few places.
    pub fn input(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.random.of(inputs).cloned().unwrap_or_default();
        for _ in 0..1 + self.random.below(6) {
            self.change(&mut input, inputs);
        }
        input.truncate(self.most_bytes);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, others: &[Vec<u8>]) {
        let at = self.random.below(input.len());
        match self.random.below(12) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random.number() as u8;
                }
            }
            2 => {
                let number = *self.random.of(&NUMBERS).unwrap_or(&0);
                self.put(input, at, number);
            }
            3 => {
                let near = self.random.below(33) as u64;
                let number = number_at(input, at).wrapping_add(near).wrapping_sub(16);
                self.put(input, at, number);
            }
            // A length: of the input, of what is behind it, or a little more.
            4 => {
                let length = [input.len(), input.len() - at][self.random.below(2)] as u64;
                let length = length.wrapping_add(self.random.below(3) as u64).wrapping_sub(1);
                self.put(input, at, length);
            }
            5 => input.truncate(at),
            6 => {
                let end = at + self.random.below(input.len() - at + 1).min(64);
                input.drain(at..end);
            }
            7 => {
                let end = at + self.random.below(input.len() - at + 1).min(256);
                let piece = input[at..end].to_vec();
                let to = self.random.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            8 => {
                let piece: Vec<u8> =
                    (0..1 + self.random.below(8)).map(|_| self.random.number() as u8).collect();
                input.splice(at..at, piece);
            }
            9 => {
                let other = self.random.of(others).map(Vec::as_slice).unwrap_or_default();
                let from = self.random.below(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            10 => {
                let word = self.random.of(self.words).copied().unwrap_or_default();
                let replaced = if self.random.below(2) == 0 { 0 } else { word.len().min(input.len() - at) };
                input.splice(at..at + replaced, word.bytes());
            }
            _ => {
                let (to, length) = (self.random.below(input.len()), self.random.below(64));
                for step in 0..length.min(input.len() - at.max(to)) {
                    input.swap(at + step, to + step);
                }
            }
        }
    }

    /// In a width and byte order of chance, or as text.
    fn put(&mut self, input: &mut Vec<u8>, at: usize, number: u64) {
        let bytes = match self.random.below(8) {
            0 => vec![number as u8],
            1 => (number as u16).to_le_bytes().to_vec(),
            2 => (number as u16).to_be_bytes().to_vec(),
            3 => (number as u32).to_le_bytes().to_vec(),
            4 => (number as u32).to_be_bytes().to_vec(),
            5 => number.to_le_bytes().to_vec(),
            6 => number.to_string().into_bytes(),
            _ => varint(number),
        };
        let end = (at + bytes.len()).min(input.len());
        input.splice(at..end, bytes);
    }
}

fn number_at(input: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(input.iter().skip(at)) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_makes_the_same_inputs_within_the_limit() {
        let inputs = [b"first".to_vec(), vec![0; 300], Vec::new()];
        let make = |seed| -> Vec<Vec<u8>> {
            let mut mutator = Mutator::new(seed, &["word"], 256);
            (0..5_000).map(|_| mutator.input(&inputs)).collect()
        };
        let made = make(1);
        assert_eq!(made, make(1));
        assert_ne!(made, make(2));
        assert!(made.iter().all(|input| input.len() <= 256));
        assert!(made.iter().any(|input| input.windows(4).any(|four| four == b"word")));
    }
}
