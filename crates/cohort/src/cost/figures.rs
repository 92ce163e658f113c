//! Numbers as people read them.

/// With commas between thousands; small ones with decimals.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => thousands(value.round()),
        size if size >= 1.0 => format!("{value:.1}"),
        size if size >= 0.005 => format!("{value:.2}"),
        _ => "0".into(),
    }
}

pub(super) fn dollars(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("${}", thousands(value.round())),
        _ => format!("${value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(figure(1311.6), "1,312");
        assert_eq!(figure(1_234_567.0), "1,234,567");
        assert_eq!(figure(12.34), "12.3");
        assert_eq!(figure(0.25), "0.25");
        assert_eq!(dollars(6560.4), "$6,560");
        assert_eq!(dollars(3.5), "$3.50");
    }
}
