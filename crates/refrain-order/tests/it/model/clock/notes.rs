//! Notes between the agents of ranks.

use std::collections::{BTreeMap, VecDeque};

use refrain_order::clock::Note;
use refrain_testing::random::Random;

/// Rules of the agents that can be broken, to check that a test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No rule is broken.
    None,
    /// Receives do not wait until no earlier message can arrive.
    DecideEarly,
    /// Queries are not answered.
    NoAnswers,
    /// Answers overtake messages.
    AnswersOvertake,
    /// Stamps are paired with messages in the order in which messages are reported.
    PairInReportedOrder,
    /// The recorder does not learn that the program cancels a receive.
    IgnoreCancel,
    /// An answer is never withdrawn.
    NoRetry,
}

/// Notes in flight between ranks, in order.
#[derive(Default)]
pub struct Notes {
    in_flight: BTreeMap<(usize, usize), VecDeque<Note>>,
    pub queries: u64,
}

impl Notes {
    pub fn send(&mut self, from: usize, to: usize, note: Note, fault: Fault) {
        let is_message = matches!(note, Note::Sent { .. });
        let note = match note {
            Note::Retry { origin, serial } if fault == Fault::NoRetry => {
                Note::Bound { origin, serial, clock: 0, sure: false }
            }
            note => note,
        };
        self.queries += u64::from(!is_message);
        if fault == Fault::NoAnswers && !is_message {
            return;
        }
        let queue = self.in_flight.entry((from, to)).or_default();
        if fault == Fault::AnswersOvertake && !is_message {
            queue.push_front(note);
        } else {
            queue.push_back(note);
        }
    }

    /// The next note from one rank to another.
    pub fn take(&mut self, from: usize, to: usize) -> Option<Note> {
        self.in_flight.get_mut(&(from, to))?.pop_front()
    }

    /// A note to a rank from a random sender, if there is one.
    pub fn any(&mut self, to: usize, random: &mut Random) -> Option<(usize, Note)> {
        let queues =
            self.in_flight.iter().filter(|((_, target), queue)| *target == to && !queue.is_empty());
        let from: Vec<usize> = queues.map(|((from, _), _)| *from).collect();
        if from.is_empty() {
            return None;
        }
        let from = from[random.below(from.len())];
        Some((from, self.take(from, to)?))
    }
}
