//! What waits to be sent: bounded in bytes. Beyond, the oldest is given up, as newer sums contain it.

use super::delivery::{Delivery, GivenUp};
use crate::otlp::{Request, Signal};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// One request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) signal: Signal,
    pub(super) items: u64,
    pub(super) body: Bytes,
    /// Its place in line, where that is kept on disk.
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    most_bytes: usize,
    waiting: Mutex<Waiting>,
    news: Notify,
    delivery: Arc<Delivery>,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Outgoing>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new(most_bytes: usize, delivery: Arc<Delivery>) -> Queue {
        Queue { most_bytes, waiting: Mutex::default(), news: Notify::new(), delivery }
    }

    pub(super) fn put(&self, request: &Request) {
        let (signal, items) = (request.signal(), request.items());
        let outgoing = Outgoing { signal, items, body: request.encode(), number: 0 };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += outgoing.body.len();
        waiting.requests.push_back(outgoing);
        while waiting.bytes > self.most_bytes
            && let Some(oldest) = waiting.requests.pop_front()
        {
            waiting.bytes -= oldest.body.len();
            self.delivery.dropped(oldest.signal, GivenUp::Queue, oldest.items);
        }
        self.delivery.queued(waiting.bytes);
        self.news.notify_one();
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.news.notify_one();
    }

    /// The oldest, once there is one; nothing when it is closed and empty.
    pub(super) async fn next(&self) -> Option<Outgoing> {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(oldest) = waiting.requests.pop_front() {
                    waiting.bytes -= oldest.body.len();
                    self.delivery.queued(waiting.bytes);
                    return Some(oldest);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }

    /// It was taken out and could not be sent in time.
    pub(super) fn give_up_one(&self, outgoing: &Outgoing) {
        self.delivery.dropped(outgoing.signal, GivenUp::End, outgoing.items);
    }

    /// Everything that still waits is given up.
    pub(super) fn give_up(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = 0;
        for outgoing in waiting.requests.drain(..) {
            self.delivery.dropped(outgoing.signal, GivenUp::End, outgoing.items);
        }
        self.delivery.queued(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;
    use crate::otlp::{Histograms, Resource, metrics};

    #[test]
    fn when_it_is_full_the_oldest_goes_and_is_counted() {
        let state = State::new("h", 1, &[], false);
        let request = metrics(&state, &Resource::new("h", &[]), Histograms::Explicit).remove(0);
        let delivery = Arc::new(Delivery::default());
        let room = 3 * request.encode().len();
        let queue = Queue::new(room, Arc::clone(&delivery));
        for _ in 0..5 {
            queue.put(&request);
        }
        let dropped = delivery.now().dropped;
        assert_eq!(dropped.get(&(Signal::Metrics, GivenUp::Queue)), Some(&(2 * request.items())));
        assert_eq!(delivery.now().queued_bytes, room as u64);
        queue.give_up();
        assert_eq!(delivery.now().dropped_in_all(), 5 * request.items());
    }
}
