//! A request's body: read as it comes, unpacked no further than allowed, and never beyond the memory there is.

use super::budget::{Full, Taken};
use crate::limits::Limits;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use std::io::Read;

/// What is read at a time, and the least that is asked for.
const PIECE: usize = 16 << 10;
/// What zstd may look back: 8 MiB, as its specification asks of every decoder.
const WINDOW_LOG: u32 = 23;

/// Why a body is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the server has as much to store as it can hold; send it again later")]
    Full,
    #[error("the request is larger than {0} bytes; send less at a time")]
    TooLarge(usize),
    #[error("the rows of the request take more than {0} bytes of memory; send less at a time")]
    TooManyRows(usize),
    #[error("the request did not come to its end in time")]
    Slow,
    #[error("the request broke off")]
    Broken,
    #[error("the request is packed as '{0}'; gzip and zstd can be unpacked")]
    Packing(String),
    #[error("the request cannot be unpacked: {0}")]
    Unpacking(String),
}

impl From<Full> for BodyError {
    fn from(_: Full) -> Self {
        BodyError::Full
    }
}

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// From `content-encoding` or `grpc-encoding`.
    pub fn parse(name: Option<&str>) -> Result<Packing, BodyError> {
        match name.map(str::trim).unwrap_or_default() {
            "" | "identity" => Ok(Packing::None),
            "gzip" | "x-gzip" => Ok(Packing::Gzip),
            "zstd" => Ok(Packing::Zstd),
            other => Err(BodyError::Packing(other.chars().take(40).collect())),
        }
    }
}

pub(super) async fn read(mut body: Body, limits: &Limits, taken: &mut Taken) -> Result<Bytes, BodyError> {
    let reading = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            if whole.len() + data.len() > limits.request_bytes {
                return Err(BodyError::TooLarge(limits.request_bytes));
            }
            // As a list grows, what it is copied from is there as well.
            if whole.len() + data.len() > whole.capacity() {
                let before = whole.capacity();
                let after = (2 * before).max(whole.len() + data.len()).max(PIECE).min(limits.request_bytes);
                taken.more(after)?;
                let mut larger = BytesMut::with_capacity(after);
                larger.extend_from_slice(&whole);
                whole = larger;
                taken.less(before);
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    };
    tokio::time::timeout(limits.patience, reading).await.unwrap_or(Err(BodyError::Slow))
}

pub(super) fn unpack(
    packed: Bytes,
    packing: Packing,
    limits: &Limits,
    taken: &mut Taken,
) -> Result<Bytes, BodyError> {
    let wrong = |error: std::io::Error| BodyError::Unpacking(error.to_string());
    match packing {
        Packing::None => Ok(packed),
        Packing::Gzip => all_of(MultiGzDecoder::new(packed.as_ref()), limits, taken),
        Packing::Zstd => {
            let mut unpacked = zstd::stream::read::Decoder::new(packed.as_ref()).map_err(wrong)?;
            // A frame may ask for a window of 2 GiB.
            unpacked.window_log_max(WINDOW_LOG).map_err(wrong)?;
            let window = window(&packed);
            taken.more(window)?;
            let whole = all_of(unpacked, limits, taken);
            taken.less(window);
            whole
        }
    }
}

/// What unpacking takes: as much as the first frame may look back, and never more than is allowed.
fn window(packed: &[u8]) -> usize {
    let max = 1 << WINDOW_LOG;
    // Magic number, descriptor, window; where the whole is one segment there is none, and its length is the window.
    match packed {
        [_, _, _, _, descriptor, window, ..] if descriptor & 0x20 == 0 => {
            let base = 1usize << (10 + u32::from(window >> 3)).min(WINDOW_LOG);
            (base + base / 8 * usize::from(window & 7)).min(max)
        }
        [_, _, _, _, descriptor, low, high, ..] if descriptor >> 6 == 0 || descriptor >> 6 == 1 => {
            (256 + usize::from(*low) + (usize::from(*high) << 8)).min(max)
        }
        _ => max,
    }
}

fn all_of(mut unpacked: impl Read, limits: &Limits, taken: &mut Taken) -> Result<Bytes, BodyError> {
    let mut whole = Vec::new();
    let mut part = vec![0; PIECE];
    loop {
        let read = unpacked.read(&mut part).map_err(|error| BodyError::Unpacking(error.to_string()))?;
        if read == 0 {
            return Ok(whole.into());
        }
        if whole.len() + read > limits.request_bytes {
            return Err(BodyError::TooLarge(limits.request_bytes));
        }
        if whole.len() + read > whole.capacity() {
            let before = whole.capacity();
            let after = (2 * before).max(PIECE).max(whole.len() + read).min(limits.request_bytes);
            taken.more(after)?;
            whole.reserve_exact(after - whole.len());
            taken.less(before);
        }
        whole.extend_from_slice(&part[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn what_was_packed_comes_out_again() {
        let limits = Limits::default();
        let (budget, sender) = (Budget::new(16 << 20, false), "a".into());
        let text = b"why did the GPU stall? ".repeat(1_000);
        for (packed, packing) in [
            (Bytes::from(text.clone()), Packing::None),
            (gzip(&text), Packing::Gzip),
            (zstd::encode_all(text.as_slice(), 3).unwrap().into(), Packing::Zstd),
        ] {
            assert_eq!(unpack(packed, packing, &limits, &mut budget.none(&sender)).unwrap(), text);
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let limits = Limits { request_bytes: 100_000, ..Limits::default() };
        let bomb = vec![0; 50 << 20];
        let (budget, sender) = (Budget::new(1 << 30, false), "a".into());
        for (packed, packing) in [
            (gzip(&bomb), Packing::Gzip),
            (zstd::encode_all(bomb.as_slice(), 3).unwrap().into(), Packing::Zstd),
        ] {
            let refused = unpack(packed, packing, &limits, &mut budget.none(&sender)).unwrap_err();
            assert_eq!(refused, BodyError::TooLarge(100_000));
        }
        let little = Budget::new(20_000, false);
        let refused =
            unpack(gzip(&vec![0; 50_000]), Packing::Gzip, &limits, &mut little.none(&sender)).unwrap_err();
        assert_eq!(refused, BodyError::Full);
    }

    #[test]
    fn garbage_is_told_as_such() {
        let (budget, sender) = (Budget::new(16 << 20, false), "a".into());
        for packing in [Packing::Gzip, Packing::Zstd] {
            let refused = unpack(
                Bytes::from_static(b"no such thing"),
                packing,
                &Limits::default(),
                &mut budget.none(&sender),
            );
            assert!(matches!(refused, Err(BodyError::Unpacking(_))), "{refused:?}");
        }
        assert_eq!(Packing::parse(Some("br")), Err(BodyError::Packing("br".into())));
    }
}
