//! Bytes at places: a file, or memory that was copied.

use std::fs::File;
use std::os::unix::fs::FileExt;

pub trait Bytes {
    /// Exactly so many bytes.
    fn bytes(&self, offset: u64, size: u64) -> Option<Vec<u8>>;
    fn size(&self) -> u64;
}

impl Bytes for File {
    fn bytes(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        // Before anything is allocated: the headers may say what they like.
        (offset.checked_add(size)? <= Bytes::size(self)).then_some(())?;
        let mut buffer = vec![0; usize::try_from(size).ok()?];
        self.read_exact_at(&mut buffer, offset).ok()?;
        Some(buffer)
    }

    fn size(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }
}

impl Bytes for Vec<u8> {
    fn bytes(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        self.get(start..start.checked_add(usize::try_from(size).ok()?)?).map(<[u8]>::to_vec)
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}
