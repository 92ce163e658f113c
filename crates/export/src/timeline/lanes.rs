//! Slices that cross each other on one track get lines of their own: viewers know only slices within others.

/// More than any thread has; hostile files have more.
const MAX: usize = 100;

/// The lines of one track: of each the ends of the slices that are open, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    open: Vec<Vec<u64>>,
}

impl Lanes {
    /// The line for a slice that starts no earlier than those before it; nothing where there is no room.
    pub(crate) fn place(&mut self, start_ns: u64, end_ns: u64) -> Option<usize> {
        for (number, ends) in self.open.iter_mut().enumerate() {
            while ends.last().is_some_and(|end| *end <= start_ns) {
                ends.pop();
            }
            if ends.last().is_none_or(|end| end_ns <= *end) {
                ends.push(end_ns);
                return Some(number);
            }
        }
        if self.open.len() == MAX {
            return None;
        }
        self.open.push(vec![end_ns]);
        Some(self.open.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nests_shares_a_line_and_what_crosses_does_not() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.place(10, 30), Some(0));
        assert_eq!(lanes.place(10, 20), Some(0), "within");
        assert_eq!(lanes.place(15, 25), Some(1), "crosses the inner one");
        assert_eq!(lanes.place(20, 30), Some(0), "the inner one is over");
        assert_eq!(lanes.place(26, 40), Some(1));
        assert_eq!(lanes.place(30, 30), Some(0), "no length");
    }

    #[test]
    fn a_hostile_file_does_not_get_lines_without_end() {
        let mut lanes = Lanes::default();
        assert_eq!((0..500).filter_map(|n| lanes.place(n, 1000 + n)).max(), Some(MAX - 1));
    }
}
