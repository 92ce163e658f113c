//! What kind of computing running code does, as far as its frames tell: importing, pickling, tokenizing, allocating.

use super::running::is_own;
use gpuwhy_model::{Frame, FrameKind};

/// A kind of computing, and what its frames look like.
struct Kind {
    about: &'static str,
    /// Parts of the file or module that a frame is in.
    files: &'static [&'static str],
    /// Functions at the innermost place alone: the program's caller of them is what computes.
    innermost: &'static [&'static str],
}

/// The first that fits counts: an import may unpickle, and pickling allocates.
const KINDS: &[Kind] = &[
    Kind { about: "importing", files: &["importlib._bootstrap"], innermost: &[] },
    Kind {
        about: "tokenizing",
        files: &[
            "/tokenizers/",
            "/tokenizers.",
            "/tokenization_",
            "/sentencepiece/",
            "/_sentencepiece.",
            "/tiktoken/",
        ],
        innermost: &[],
    },
    Kind {
        about: "pickling",
        files: &["/pickle.py", "/_pickle.", "/cloudpickle/", "/multiprocessing/reduction.py"],
        innermost: &["_pickle_dump", "_pickle_dumps", "_pickle_load", "_pickle_loads"],
    },
    Kind {
        about: "encoding and decoding JSON",
        files: &["/json/encoder.py", "/json/decoder.py", "/_json.", "/orjson"],
        innermost: &[],
    },
    Kind {
        about: "decoding images",
        files: &["/PIL/", "/torchvision/io/", "/cv2/", "libjpeg", "libpng", "libturbojpeg"],
        innermost: &[],
    },
    Kind {
        about: "compressing",
        files: &["/gzip.py", "/zipfile", "/lzma.py", "/bz2.py", "libz.so", "libzstd.so", "liblzma.so"],
        innermost: &[],
    },
    // That of tensors on the GPU launches, and is not asked about here.
    Kind { about: "running an optimizer on the CPU", files: &["/torch/optim/"], innermost: &[] },
    Kind {
        about: "allocating memory",
        files: &[],
        innermost: &[
            "malloc",
            "calloc",
            "realloc",
            "free",
            "cfree",
            "_int_malloc",
            "_int_free",
            "_int_realloc",
            "sysmalloc",
            "malloc_consolidate",
            "unlink_chunk",
            "posix_memalign",
            "aligned_alloc",
            "operator new",
            "operator delete",
        ],
    },
];

/// Innermost frame first. Nothing where they say no more than that it computes.
pub(crate) fn computing(frames: &[Frame]) -> Option<&'static str> {
    // What the program's own function was called by is not what it does.
    let own = frames.iter().position(is_own).unwrap_or(frames.len());
    let frames = &frames[..own];
    let kind = KINDS.iter().find(|kind| kind.fits(frames))?;
    Some(kind.about)
}

impl Kind {
    fn fits(&self, frames: &[Frame]) -> bool {
        let is_in_file = |frame: &Frame| {
            let file = match frame.kind {
                FrameKind::Python => frame.file.as_deref().unwrap_or_default(),
                _ => &frame.module,
            };
            self.files.iter().any(|part| file.contains(part))
        };
        let is_function = |frame: &Frame| {
            frame.kind == FrameKind::Native
                && self.innermost.iter().any(|name| frame.function.as_deref() == Some(name))
        };
        frames.iter().any(is_in_file) || frames.first().is_some_and(is_function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(file: &str, function: &str) -> Frame {
        Frame {
            kind: FrameKind::Python,
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(3),
            ..Frame::default()
        }
    }

    fn native(module: &str, function: &str) -> Frame {
        Frame {
            kind: FrameKind::Native,
            function: Some(function.into()),
            module: module.into(),
            ..Frame::default()
        }
    }

    #[test]
    fn frames_name_the_kind_of_computing() {
        let own = || python("/job/train.py", "encode");
        let of = |frames: Vec<Frame>| computing(&frames);
        assert_eq!(of(vec![own()]), None);
        assert_eq!(
            of(vec![
                python("/usr/lib/python3/torch/__init__.py", "<module>"),
                python("<frozen importlib._bootstrap>", "_find_and_load"),
                own()
            ]),
            Some("importing")
        );
        // A program that runs while it is imported computes.
        assert_eq!(of(vec![own(), python("<frozen importlib._bootstrap>", "_find_and_load")]), None);
        let tokenizers = native("/venv/site-packages/tokenizers/tokenizers.abi3.so", "encode_batch");
        assert_eq!(of(vec![tokenizers, own()]), Some("tokenizing"));
        assert_eq!(of(vec![native("/lib/libpython3.12.so", "_pickle_dumps"), own()]), Some("pickling"));
        assert_eq!(of(vec![native("/lib/libc.so.6", "_int_malloc"), own()]), Some("allocating memory"));
        let adam = || python("/venv/site-packages/torch/optim/adam.py", "_single_tensor_adam");
        assert_eq!(
            of(vec![native("/venv/lib/libgomp.so.1", "gomp_team_barrier_wait"), adam(), own()]),
            Some("running an optimizer on the CPU")
        );
        // A function that allocates somewhere below another one is that one's.
        assert_eq!(
            of(vec![native("/lib/libm.so.6", "exp"), native("/lib/libc.so.6", "malloc"), own()]),
            None
        );
    }
}
