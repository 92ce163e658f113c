//! Who sits where in a communicator, and how many of its collectives are remembered.

use super::communicator::Communicator;
use super::round::Round;
use super::seat::Seat;

impl Communicator {
    /// The seats of a rank of the job.
    pub(super) fn places(&self, rank: u32) -> &[u32] {
        self.held.get(&rank).map_or(&[], Vec::as_slice)
    }

    /// Ranks of the job with the number of their seats.
    pub(super) fn holders(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.held.iter().map(|(rank, places)| (*rank, places.len()))
    }

    /// The seat, which is this rank's from now on.
    pub(super) fn sit(&mut self, place: u32, rank: u32, node: u32) -> &mut Seat {
        let before = self.seats.get(&place).map(|seat| seat.rank);
        if before != Some(rank) {
            if let Some(places) = before.and_then(|before| self.held.get_mut(&before)) {
                places.retain(|held| *held != place);
            }
            self.held.entry(rank).or_default().push(place);
        }
        let seat = self.seats.entry(place).or_insert_with(|| Seat::new(rank, node));
        seat.rank = rank;
        seat
    }

    /// A rank of the job is in it no more.
    pub(super) fn leave(&mut self, rank: u32) {
        for place in self.held.remove(&rank).unwrap_or_default() {
            self.seats.remove(&place);
        }
    }

    pub(super) fn take_round(&mut self, seq: u64) -> Option<Round> {
        let round = self.rounds.remove(&seq)?;
        self.arrivals -= round.arrivals.len();
        Some(round)
    }

    /// Where there are more arrivals to remember than these, it is joined less often from now on.
    pub(super) fn thin_out(&mut self, max: usize) {
        while self.arrivals > max && self.stride < 1 << 20 {
            self.stride *= 2;
            let (stride, mut left) = (self.stride, 0);
            self.rounds.retain(|seq, round| {
                let stays = seq.is_multiple_of(stride);
                left += if stays { round.arrivals.len() } else { 0 };
                stays
            });
            self.arrivals = left;
        }
        // Where that is not enough, the oldest go.
        while self.arrivals > max
            && let Some((_, round)) = self.rounds.pop_first()
        {
            self.arrivals -= round.arrivals.len();
        }
    }
}
