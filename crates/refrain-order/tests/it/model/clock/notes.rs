//! What the agents of ranks tell each other, beside MPI's messages.

use std::collections::{BTreeMap, VecDeque};

use refrain_order::clock::Note;
use refrain_testing::random::Random;

/// Rules that can be broken, to see that somebody notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: this is how it has to be.
    None,
    /// Nobody waits to hear that nothing earlier can come.
    Hasty,
    /// Nobody answers.
    Silent,
    /// Answers overtake messages.
    Overtaking,
    /// Stamps belong to messages in the order these are reported.
    PairAsReported,
    /// That the program tries to cancel is not told.
    CancelUntold,
    /// Whoever has agreed to something sticks to it, whatever comes.
    Stubborn,
}

/// Notes under way: each from one rank to another, in order.
#[derive(Default)]
pub struct Notes {
    flying: BTreeMap<(usize, usize), VecDeque<Note>>,
    pub asked: u64,
}

impl Notes {
    pub fn send(&mut self, from: usize, to: usize, note: Note, fault: Fault) {
        let is_message = matches!(note, Note::Sent { .. });
        let note = match note {
            Note::Again { origin, serial } if fault == Fault::Stubborn => {
                Note::Nothing { origin, serial, clock: 0, sure: false }
            }
            note => note,
        };
        self.asked += u64::from(!is_message);
        if fault == Fault::Silent && !is_message {
            return;
        }
        let queue = self.flying.entry((from, to)).or_default();
        if fault == Fault::Overtaking && !is_message {
            queue.push_front(note);
        } else {
            queue.push_back(note);
        }
    }

    /// The next note from one rank to another.
    pub fn take(&mut self, from: usize, to: usize) -> Option<Note> {
        self.flying.get_mut(&(from, to))?.pop_front()
    }

    /// Some note to a rank, if it is time.
    pub fn any(&mut self, to: usize, random: &mut Random) -> Option<(usize, Note)> {
        let own =
            self.flying.iter().filter(|((_, target), queue)| *target == to && !queue.is_empty());
        let from: Vec<usize> = own.map(|((from, _), _)| *from).collect();
        if from.is_empty() {
            return None;
        }
        let from = from[random.below(from.len())];
        Some((from, self.take(from, to)?))
    }
}
