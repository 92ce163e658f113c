//! What the tests of several crates share: skips that are counted, and children that end with their test.

use std::env;
use std::fs::File;
use std::io::Write;
use std::process::Child;

/// Says which test did not run, and why; a failure under GPUWHY_REQUIRE=all.
///
/// # Panics
/// Where nothing may be skipped.
pub fn skip(test: &str, reason: &str) {
    assert_ne!(env::var("GPUWHY_REQUIRE").as_deref(), Ok("all"), "{test} may not be skipped here: {reason}");
    unavailable(test, reason);
}

/// A program of others that cannot be fetched just now: counted as a skip, but never a failure of this project.
///
/// # Panics
/// Where the list of skips cannot be written.
#[allow(clippy::expect_used, reason = "a skip that is not counted must not pass")]
pub fn unavailable(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(path) = env::var_os("GPUWHY_SKIPS") {
        let file = File::options().append(true).create(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "  {test}: {reason}"));
        written.expect("the list of skips can be written");
    }
}

/// Ends a child with the test, however that ends.
#[derive(Debug)]
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
