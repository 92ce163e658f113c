//! How panels share the lines of a page.

/// Every panel's heading and first rows come before any panel's others.
const MIN: usize = 4;
/// What answers the question comes before anything else, up to so many lines.
const OF_ANSWER: usize = 9;
/// On a page with everything, no panel needs more to be useful.
const ENOUGH: usize = 13;

/// Lines for each panel that wants so many, in the order of importance; none gets more than it wants. The first `answers` of them
/// are the answer.
pub(super) fn share(wanted: &[usize], answers: usize, room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    let mut left = room;
    for (count, least) in [(answers, OF_ANSWER), (wanted.len(), MIN), (wanted.len(), usize::MAX)] {
        for (given, wanted) in given.iter_mut().zip(wanted).take(count) {
            let more = (*wanted).min(least).saturating_sub(*given).min(left);
            *given += more;
            left -= more;
        }
    }
    // A heading alone says nothing.
    for given in given.iter_mut().filter(|given| **given == 1) {
        *given = 0;
    }
    given
}

/// Whether everything fits on one page, with an empty line after each panel.
pub(super) fn is_enough(wanted: &[usize], room: usize) -> bool {
    wanted.iter().map(|wanted| (*wanted).min(ENOUGH) + 1).sum::<usize>() <= room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_get_most_and_none_gets_nothing() {
        assert_eq!(share(&[9, 30, 6], 0, 20), [9, 7, 4]);
        assert_eq!(share(&[2, 3, 4], 0, 20), [2, 3, 4]);
        assert_eq!(share(&[9, 30, 6], 0, 5), [4, 0, 0]);
        assert_eq!(share(&[], 0, 5), [0usize; 0]);
        // The answer is whole before others get anything.
        assert_eq!(share(&[8, 30, 6], 1, 16), [8, 4, 4]);
        assert_eq!(share(&[40, 30, 6], 1, 16), [9, 4, 3]);
    }

    #[test]
    fn long_tables_do_not_keep_everything_from_one_page() {
        assert!(is_enough(&[5, 90, 5], 26));
        assert!(!is_enough(&[5, 90, 5], 25));
    }
}
