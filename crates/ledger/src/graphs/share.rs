//! One count for several: the kernel counts launches by handle, and the library uses handles again.

/// Splits a total by weight; the parts sum to it.
pub(super) fn share(total: u64, weights: &[u64]) -> Vec<u64> {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let (mut weight_so_far, mut given) = (0_u128, 0);
    weights
        .iter()
        .map(|weight| {
            weight_so_far += u128::from(*weight);
            let up_to = u128::from(total).saturating_mul(weight_so_far).checked_div(all).unwrap_or(0) as u64;
            let part = up_to - given;
            given = up_to;
            part
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn parts_sum_to_the_total() {
        assert_eq!(share(10, &[1]), [10]);
        assert_eq!(share(10, &[3, 3, 3]), [3, 3, 4]);
        assert_eq!(share(1, &[0, 5]), [0, 1]);
        assert_eq!(share(u64::MAX, &[7, 7]), [u64::MAX / 2, u64::MAX / 2 + 1]);
        assert_eq!(share(3, &[0, 0]), [0, 0]);
        assert!(share(3, &[]).is_empty());
    }
}
