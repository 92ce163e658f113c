//! Prints the samples of the GPUs as JSON, once a second, and how long a reading took: `cargo run --example gpus -- 5`.

use gpuwhy_host::GpuMeter;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let times: u32 = std::env::args().nth(1).map_or(Ok(5), |times| times.parse())?;
    let began = Instant::now();
    let mut meter = GpuMeter::open()?;
    eprintln!(
        "driver {}, {:?}, opened in {:.1} ms",
        meter.driver_version(),
        meter.names(),
        began.elapsed().as_secs_f64() * 1e3
    );
    for _ in 0..times {
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        let began = Instant::now();
        let samples = meter.read(now_ns);
        let read = began.elapsed();
        let errors = meter.errors(now_ns);
        let reported = began.elapsed() - read;
        eprintln!(
            "read in {:.2} ms, errors in {:.3} ms",
            read.as_secs_f64() * 1e3,
            reported.as_secs_f64() * 1e3
        );
        for sample in samples {
            println!("{}", serde_json::to_string(&sample)?);
        }
        for error in errors {
            println!("{}", serde_json::to_string(&error)?);
        }
        sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
    }
    Ok(())
}
