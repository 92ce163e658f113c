//! Durations, sizes and shares as people type and read them.

use crate::Estimate;
use std::time::Duration;

/// `90s`, `5m`, `2h`, `1d`, `250ms`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write 90s, 5m, 2h or 1d");
    let (number, unit) = split(text);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(value * factor).map_err(|_| wrong())
}

/// `500M`, `10G`, `64K`; a bare number is bytes. Powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size; write 500M or 10G");
    let (number, unit) = split(text);
    let factor = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 1u64,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = value * factor as f64;
    if bytes.is_finite() && (0.0..=1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// `1%` or `0.01` as a share of one.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a share; write 1% or 0.01");
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share = number.trim().parse::<f64>().map_err(|_| wrong())? * scale;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(wrong()) }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..at].trim(), &text[at..])
}

/// A duration for people: `840ns`, `12.3us`, `48.3ms`, `2.1s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", three_digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{}ms", three_digits(value / 1e6)),
        _ => format!("{}s", three_digits(value / 1e9)),
    }
}

/// A time of day, as `14:03:21.250 UTC`: traces travel between time zones.
pub fn time_of_day(unix_ns: u64) -> String {
    let ms = unix_ns / 1_000_000 % 86_400_000;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03} UTC", ms % 1000)
}

/// The same to the second: `14:03:21 UTC`.
pub fn clock(unix_ns: u64) -> String {
    let fine = time_of_day(unix_ns);
    match fine.split_once('.') {
        Some((seconds, _)) => format!("{seconds} UTC"),
        None => fine,
    }
}

/// A size for people: `512 B`, `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{} {}", three_digits(value), UNITS[unit]) }
}

/// A count for people: `200,000`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `about 12,300 (11,900 to 12,700), watched 9% of the time`.
pub fn estimate(estimate: &Estimate) -> String {
    let pct = estimate.watched_pct;
    let digits = if pct < 1.0 { 1 } else { 0 };
    format!(
        "about {} ({} to {}), watched {pct:.digits$}% of the time",
        rounded(estimate.value),
        rounded(estimate.low),
        rounded(estimate.high)
    )
}

/// To three digits: more would say more than is known.
fn rounded(value: f64) -> String {
    let unit = 10f64.powf((value.max(1.0).log10().floor() - 2.0).max(0.0));
    count(((value / unit).round() * unit) as u64)
}

/// A string of a traced process made safe for a terminal: control characters are shown, not obeyed.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || turns_text(c) { '\u{fffd}' } else { c }).collect()
}

/// A word as a shell reads it: as it is where that does, else in single quotes. Control characters are shown, not obeyed.
pub fn quoted(word: &str) -> String {
    let word = printable(word);
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Characters that change the direction of what follows, and so can make a line say something else.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn three_digits(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_sizes_and_shares_read_as_typed() {
        assert_eq!(parse_duration("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("5m").unwrap(), Duration::from_secs(300));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_size("500M").unwrap(), 500 << 20);
        assert_eq!(parse_size("10G").unwrap(), 10 << 30);
        assert!((parse_share("1%").unwrap() - 0.01).abs() < 1e-12);
        for wrong in ["", "5x", "-3s", "s", "nan"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "10X", "-1G", "infG"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        assert!(parse_share("101%").is_err());
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(duration(840), "840ns");
        assert_eq!(duration(48_300_000), "48.3ms");
        assert_eq!(size(1 << 20), "1.00 MiB");
        assert_eq!(count(200_000), "200,000");
        assert_eq!(count(7), "7");
    }

    #[test]
    fn terminal_escapes_lose_their_power() {
        assert_eq!(printable("a\u{1b}[31mb"), "a\u{fffd}[31mb");
        assert_eq!(printable("a\u{202e}b"), "a\u{fffd}b");
    }
}
