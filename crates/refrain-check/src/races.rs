//! Message races that can end in a deadlock.
//!
//! A receive with a wildcard got one message, and could have got another that a later receive got: the sender of that
//! one did not know that the first receive was complete. That alone is nondeterminism, which programs may want. It is an
//! error if the later receive cannot take the first message instead, and all messages that it can take are needed by
//! receives like it: then one of these waits forever.

use crate::finding::{Class, Findings, Place};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a receive asks for: source and tag; none for a wildcard.
pub type Spec = (Option<i32>, Option<i64>);

/// A receive, with the message that it got.
#[derive(Clone, Debug)]
pub struct Received {
    /// The number of the operation.
    pub id: u64,
    /// What it asked for.
    pub spec: Spec,
    /// The sender.
    pub from: i32,
    /// The tag of the message.
    pub tag: i64,
    /// The last step of the receiver that the sender knew.
    pub knew: u32,
    /// The step of the receiver at which it was complete.
    pub done: Option<u32>,
    /// The receive.
    pub place: Arc<Place>,
    /// The send.
    pub sender: Arc<Place>,
}

fn fits(spec: Spec, from: i32, tag: i64) -> bool {
    spec.0.is_none_or(|source| source == from) && spec.1.is_none_or(|wanted| wanted == tag)
}

/// How many later receives are compared with a wildcard.
const HORIZON: usize = 256;

/// Finds the races among the receives of one inbox, in the order in which they were posted.
pub fn races(received: &[Received], findings: &mut Findings) {
    let mut sorted: Vec<&Received> = received.iter().collect();
    sorted.sort_by_key(|received| received.id);
    // Of the receives after the current one: by what they ask for, and the messages that they got.
    let mut asked: HashMap<Spec, u64> = HashMap::new();
    let mut got: HashMap<(i32, i64), u64> = HashMap::new();
    for (at, first) in sorted.iter().enumerate().rev() {
        let is_wild = first.spec.0.is_none() || first.spec.1.is_none();
        if let (true, Some(done)) = (is_wild, first.done) {
            let mut seen = HashSet::from([(first.from, first.tag)]);
            for later in sorted.iter().skip(at + 1).take(HORIZON) {
                let is_first_of_lane = seen.insert((later.from, later.tag));
                // Of two messages of one sender, a receive that both fit gets the one that was sent first.
                let competes = is_first_of_lane
                    && later.from != first.from
                    && fits(first.spec, later.from, later.tag)
                    && later.knew < done
                    && !fits(later.spec, first.from, first.tag);
                if !competes {
                    continue;
                }
                let wanted = asked.get(&later.spec).copied().unwrap_or(0);
                let there: u64 = got
                    .iter()
                    .filter(|((from, tag), _)| fits(later.spec, *from, *tag))
                    .map(|(_, count)| count)
                    .sum();
                if wanted >= there {
                    let message = format!(
                        "{} with a wildcard can take the message that a later {} needs, which then waits forever.",
                        first.place.function, later.place.function
                    );
                    let places = vec![
                        (*first.place).clone(),
                        (*later.place).clone(),
                        (*later.sender).clone(),
                        (*first.sender).clone(),
                    ];
                    findings.add(Class::MessageRace, message, places);
                    break;
                }
            }
        }
        *asked.entry(first.spec).or_default() += 1;
        *got.entry((first.from, first.tag)).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Arc<Place> {
        Arc::new(Place { rank: 0, thread: 0, number, function: "MPI_Recv", site: None })
    }

    fn received(id: u64, spec: Spec, from: i32, tag: i64, knew: u32) -> Received {
        let done = Some(id as u32 + 1);
        Received { id, spec, from, tag, knew, done, place: place(id), sender: place(100 + id) }
    }

    fn found(all: &[Received]) -> usize {
        let mut findings = Findings::default();
        races(all, &mut findings);
        findings.len()
    }

    #[test]
    fn a_wildcard_that_can_take_the_message_of_a_named_receive_is_a_race() {
        let named = (Some(0), None);
        let all = [received(0, (None, None), 2, 0, 0), received(1, named, 0, 0, 0)];
        assert_eq!(found(&all), 1);
    }

    #[test]
    fn messages_of_one_sender_do_not_overtake_each_other() {
        let all = [received(0, (Some(0), None), 0, 45, 0), received(1, (None, Some(46)), 0, 46, 0)];
        assert_eq!(found(&all), 0);
    }

    #[test]
    fn two_wildcards_may_swap_their_messages() {
        let all = [received(0, (None, None), 2, 0, 0), received(1, (None, None), 0, 0, 0)];
        assert_eq!(found(&all), 0);
    }

    #[test]
    fn a_message_that_was_sent_after_the_first_receive_does_not_compete() {
        let all = [received(0, (None, None), 2, 0, 0), received(1, (Some(0), None), 0, 0, 1)];
        assert_eq!(found(&all), 0);
    }

    #[test]
    fn another_message_of_the_same_sender_serves_the_later_receive() {
        // Each sender sends a header and a body; the body comes from the sender of the header.
        let any = (None, Some(1));
        let all = [
            received(0, any, 2, 1, 0),
            received(1, (Some(2), Some(1)), 2, 1, 0),
            received(2, any, 3, 1, 0),
            received(3, (Some(3), Some(1)), 3, 1, 0),
        ];
        assert_eq!(found(&all), 0);
    }
}
