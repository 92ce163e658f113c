//! Frames: records one behind the other, each with its length and a checksum. What a crash left half written at the end is
//! told from what is whole, and so is what went bad later.

/// The length, then the checksum of length and record.
const HEAD: usize = 8;

pub(crate) fn put(record: &[u8], to: &mut Vec<u8>) {
    let length = (record.len() as u32).to_le_bytes();
    to.extend_from_slice(&length);
    to.extend_from_slice(&checksum(&length, record).to_le_bytes());
    to.extend_from_slice(record);
}

fn checksum(length: &[u8], record: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(length);
    hash.update(record);
    hash.finalize()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// One behind it, from where the frames began.
    pub(crate) end: usize,
    /// Nothing where it is not what was written.
    pub(crate) record: Option<&'a [u8]>,
}

/// The frames of these bytes, as far as they go.
pub(crate) fn frames(bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (end, record) = next(bytes, at)?;
        // Of a wrong checksum at the end the frame was never finished. Where others follow, it was.
        if record.is_none() && next(bytes, end).is_none_or(|(_, record)| record.is_none()) {
            return None;
        }
        at = end;
        Some(Frame { end, record })
    })
}

/// Where the frame at this place ends, and its record if its checksum is right.
fn next(bytes: &[u8], at: usize) -> Option<(usize, Option<&[u8]>)> {
    let (length, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let record = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let is_right = checksum(length, record) == u32::from_le_bytes(*sum);
    Some((at + HEAD + record.len(), is_right.then_some(record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| put(record, &mut bytes));
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Option<&[u8]>> {
        frames(bytes).map(|frame| frame.record).collect()
    }

    const THREE: [&[u8]; 3] = [b"first", b"", b"the third"];

    #[test]
    fn frames_come_back_in_order_with_where_they_end() {
        let bytes = framed(&THREE);
        assert_eq!(read(&bytes), THREE.map(Some));
        assert_eq!(frames(&bytes).map(|frame| frame.end).collect::<Vec<_>>(), [13, 21, 38]);
        assert_eq!(read(&[]), Vec::<Option<&[u8]>>::new());
    }

    #[test]
    fn a_torn_end_is_left_out_wherever_it_tears() {
        let bytes = framed(&THREE);
        for end in 0..bytes.len() {
            let whole = [13, 21, 38].into_iter().filter(|frame| *frame <= end).count();
            assert_eq!(read(&bytes[..end]), THREE[..whole].iter().copied().map(Some).collect::<Vec<_>>());
            // The file grew, but what was to be in it never came.
            let mut zeros = bytes[..end].to_vec();
            zeros.resize(bytes.len() + 100, 0);
            assert_eq!(read(&zeros), THREE[..whole].iter().copied().map(Some).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_record_that_went_bad_is_told_and_those_behind_it_are_not_lost() {
        let bytes = framed(&THREE);
        for at in 8..13 {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(read(&bad), [None, Some(THREE[1]), Some(THREE[2])]);
        }
        let mut last = bytes.clone();
        last[30] ^= 1;
        assert_eq!(read(&last), [Some(THREE[0]), Some(THREE[1])], "nobody knows whether it was ever whole");
    }

    #[test]
    fn a_length_that_is_not_true_ends_the_frames() {
        for length in [6u32, 1 << 20, u32::MAX] {
            let mut bytes = framed(&THREE);
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(read(&bytes), Vec::<Option<&[u8]>>::new());
        }
    }
}
