//! Medians and spreads that a few wild values cannot move.

/// From the median absolute deviation to the standard deviation of normal noise.
pub(crate) const MAD_TO_SIGMA: f64 = 1.4826;

/// The middle value, of two middle ones their mean. The order of `values` is lost.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if below.len() > middle.saturating_sub(1) && values.len().is_multiple_of(2) {
        let lower = values[..middle].iter().copied().max_by(f64::total_cmp)?;
        return Some(lower + (upper - lower) / 2.0);
    }
    Some(upper)
}

/// The value that a share `q` of the values lies below. The order of `values` is lost.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let at = ((values.len() - 1) as f64 * q).round() as usize;
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// The median of how far values are from `center`.
pub(crate) fn mad(values: &[f64], center: f64) -> f64 {
    let mut away: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    median(&mut away).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_and_nothing_of_nothing() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [9.0, 1.0]), Some(5.0));
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 1000.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_wild_value_moves_neither_median_nor_spread() {
        let values = [1.0, 2.0, 3.0, 4.0, 1e9];
        assert_eq!(median(&mut values.clone()), Some(3.0));
        assert_eq!(mad(&values, 3.0), 1.0);
    }

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        let mut values: Vec<f64> = (0..101).map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.9), Some(90.0));
        assert_eq!(quantile(&mut values, 0.0), Some(0.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
