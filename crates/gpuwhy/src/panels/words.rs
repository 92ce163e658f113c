//! Shares, intervals, handles and names as people read them.

use gpuwhy_model::units::{printable, size};

/// A share of a whole, in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    if share > 0.0 && share < 9.95 { format!("{share:.1}%") } else { format!("{share:.0}%") }
}

/// Between two shares of a whole: `62–71%`.
pub(super) fn interval(lower: u64, upper: u64, whole: u64) -> String {
    let share = |part: u64| (100.0 * part as f64 / whole.max(1) as f64).min(100.0).round();
    let (lower, upper) = (share(lower), share(upper));
    if lower == upper { format!("{upper}%") } else { format!("{lower}–{upper}%") }
}

pub(super) fn rate(bytes_per_s: u64) -> String {
    format!("{}/s", size(bytes_per_s))
}

pub(super) fn hex(handle: u64) -> String {
    format!("{handle:#x}")
}

/// One of it, or many.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", gpuwhy_model::units::count(n), if n == 1 { one } else { many })
}

/// The name of a kernel without what it returns, what it takes and what it is a template of; the end of it where it
/// is still too long.
pub(super) fn kernel_name(name: &str, most: usize) -> String {
    let name = printable(name);
    let name = name.strip_prefix("void ").unwrap_or(&name);
    let mut short = String::new();
    let (mut angles, mut rounds) = (0usize, 0usize);
    for character in name.chars() {
        match character {
            '<' if rounds == 0 => {
                if angles == 0 {
                    short.push_str("<>");
                }
                angles += 1;
            }
            '>' if rounds == 0 => angles = angles.saturating_sub(1),
            '(' => rounds += 1,
            ')' => rounds = rounds.saturating_sub(1),
            _ if angles == 0 && rounds == 0 => short.push(character),
            _ => {}
        }
    }
    let short = short.trim().trim_start_matches("::");
    let length = short.chars().count();
    if length <= most {
        return short.to_string();
    }
    let end: String = short.chars().skip(length + 3 - most).collect();
    format!("...{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_intervals() {
        assert_eq!(percent(5, 1000), "0.5%");
        assert_eq!(percent(0, 0), "0%");
        assert_eq!(percent(62, 100), "62%");
        assert_eq!(interval(62, 71, 100), "62–71%");
        assert_eq!(interval(700, 710, 100), "100%");
    }

    #[test]
    fn kernel_names_lose_their_types() {
        let name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, float)";
        assert_eq!(kernel_name(name, 60), "at::native::vectorized_elementwise_kernel<>");
        assert_eq!(kernel_name(name, 24), "..._elementwise_kernel<>");
        assert_eq!(kernel_name("(anonymous namespace)::softmax(float*)", 40), "softmax");
        assert_eq!(kernel_name("sgemm_128x64_nn", 40), "sgemm_128x64_nn");
    }
}
