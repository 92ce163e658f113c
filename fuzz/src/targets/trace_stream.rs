//! A trace as another node sends it. An input is the stream.

use crate::{Target, scratch};
use gpuwhy_store::Reader;
use gpuwhy_store::transfer::Receiver;
use std::fs;

pub(crate) const TARGET: Target = Target {
    name: "trace_stream",
    about: "traces in transfer from other nodes, as rows (store)",
    run,
    words: &["{\"format\":1,\"schema\":", "{\"table\":\"calls\",\"columns\":[\"", "{\"rows\":", "\"]}"],
    runs: 100,
    most_bytes: 16 << 10,
};

const MAX_BYTES: u64 = 1 << 20;

fn run(bytes: &[u8]) {
    scratch::with_folder(|folder| {
        let path = folder.join("received.db");
        let _ = fs::remove_file(&path);
        let mut receiver = Receiver::new(&path, MAX_BYTES).expect("a temporary file");
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        let taken = receiver.take(first).and_then(|()| receiver.take(rest));
        if taken.and_then(|()| receiver.finish()).is_ok() {
            let reader = Reader::open(&path).expect("what was received whole opens");
            reader.sessions().expect("and is read");
        }
    });
}
