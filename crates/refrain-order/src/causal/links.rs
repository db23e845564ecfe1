//! Which call completed which receive, as far as a record has it.
//!
//! Receives and completing calls are two sequences of a thread, numbered separately. A record says which receives
//! a call completed by its requests ([`Completion`]), unless it was made by a version that did not record
//! that, or recording it would have taken too much. A call that posts and completes a receive itself (Recv,
//! Sendrecv, probes) is in both sequences, with one call site: the n-th receive of the site belongs to its n-th
//! call, provided that all calls of the site had a wildcard.
//!
//! [`Completion`]: crate::causal::event::Completion

use crate::causal::completions::posts;
use crate::causal::frames::Frames;
use crate::causal::read::Reader;
use crate::error::OrderError;
use refrain_bytes::table::Map;

/// A call or a receive: its thread, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The thread.
    pub stream: u32,
    /// The number of the call among those of the thread, or that of the receive.
    pub number: u64,
}

/// A call, and a receive that it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The call.
    pub call: Position,
    /// The index of the request among those of the call; nothing if the call posted the receive itself.
    pub request: Option<u32>,
    /// The receive.
    pub receive: Position,
}

/// The links of a rank.
#[derive(Clone, Debug, Default)]
pub struct Links {
    by_call: Vec<Link>,
    by_receive: Vec<Link>,
}

impl Links {
    /// Those of a rank's record.
    pub fn of(frames: &Frames) -> Result<Links, OrderError> {
        let mut by_call = Vec::new();
        for stream in 0..frames.streams().len() {
            add_links(frames, stream as u32, &mut by_call)?;
        }
        by_call.sort_by_key(|link| link.call);
        let mut by_receive = by_call.clone();
        by_receive.sort_by_key(|link| link.receive);
        Ok(Links { by_call, by_receive })
    }

    /// The receives that a call completed, in the order in which it returned them.
    pub fn of_call(&self, call: Position) -> &[Link] {
        matching(&self.by_call, call, |link| link.call)
    }

    /// The call that completed a receive.
    pub fn of_receive(&self, receive: Position) -> Option<&Link> {
        matching(&self.by_receive, receive, |link| link.receive).first()
    }
}

/// Those of sorted links that have this key.
fn matching(links: &[Link], key: Position, of: impl Fn(&Link) -> Position) -> &[Link] {
    let from = links.partition_point(|link| of(link) < key);
    let rest = links.get(from..).unwrap_or_default();
    let several = rest.partition_point(|link| of(link) == key);
    rest.get(..several).unwrap_or_default()
}

/// Appends the links of one thread's calls.
fn add_links(frames: &Frames, stream: u32, links: &mut Vec<Link>) -> Result<(), OrderError> {
    let mut calls: Map<u64, Vec<u64>> = Map::default();
    let mut receives: Map<u64, Vec<u64>> = Map::default();
    let mut reader = Reader::new(frames, stream as usize);
    while let Some(stretch) = reader.next_stretch()? {
        for completion in &stretch.block.completions {
            let number = stretch.first_call.saturating_add(completion.call.into());
            let call = Position { stream, number };
            let receive = Position { stream: completion.stream, number: completion.receive };
            links.push(Link { call, request: Some(completion.index), receive });
        }
        for (position, (call, _)) in (stretch.first_call..).zip(stretch.calls()) {
            let shape = reader.call_shape(call)?;
            if posts(shape.kind) {
                calls.entry(shape.site).or_default().push(position);
            }
        }
        for (position, receive) in (stretch.first_receive..).zip(&stretch.block.receives) {
            let site = reader.post_shape(receive)?.site;
            receives.entry(site).or_default().push(position);
        }
    }
    for (site, calls) in calls {
        let receives = receives.get(&site).filter(|receives| receives.len() == calls.len());
        for (call, receive) in calls.iter().zip(receives.into_iter().flatten()) {
            let [call, receive] = [*call, *receive].map(|number| Position { stream, number });
            links.push(Link { call, request: None, receive });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Completed, Envelope, Kind, MatchResult, Post, Recorder, Ticket};

    const FROM: MatchResult = MatchResult::Matched(Envelope { source: 1, tag: 3 });

    fn of_calls(links: &Links, stream: u32, calls: u64) -> Vec<Vec<u64>> {
        let receives = |number| {
            let links = links.of_call(Position { stream, number });
            links.iter().map(|link| link.receive.number).collect()
        };
        (0..calls).map(receives).collect()
    }

    fn of_receives(links: &Links, stream: u32, receives: u64) -> Vec<Option<u64>> {
        let call = |number| links.of_receive(Position { stream, number });
        (0..receives).map(|number| call(number).map(|link| link.call.number)).collect()
    }

    #[test]
    fn calls_and_the_receives_that_they_post_are_linked() {
        let mut recorder = Recorder::new();
        let call = |kind, site| Call { kind, site, count: 0 };
        for n in 0..3 {
            // A wildcard, a receive that completes later, and one whose source is given every other time.
            for (site, source) in [(5, None), (6, None), (7, (n % 2 == 0).then_some(1))] {
                let post = Post { site, communicator: 0, source, tag: Some(3) };
                let ticket = recorder.post(0, &post);
                recorder.resolve(ticket, FROM);
                let kind = if site == 6 { Kind::Wait } else { Kind::Recv };
                let site = if site == 6 { 66 } else { site };
                recorder.matched(0, &call(kind, site), Completed::All);
            }
        }
        let mut bytes = Vec::new();
        recorder.finish(&mut bytes);
        let links = Links::of(&Frames::read(bytes)).unwrap();
        let calls = of_receives(&links, 0, 7);
        assert_eq!(calls, [Some(0), None, Some(3), None, None, Some(6), None]);
        let receives = of_calls(&links, 0, 9);
        assert_eq!(receives[..4], [vec![0], vec![], vec![], vec![2]]);
        assert_eq!(receives[4..], [vec![], vec![], vec![5], vec![], vec![]]);
    }

    /// A thread with two receives and a send in an array, which `MPI_Waitsome` completes in both orders, and a
    /// receive that another thread waits for.
    fn record(with_completions: bool) -> Vec<u8> {
        let mut recorder = Recorder::new();
        let mut bytes = Vec::new();
        let post = Post { site: 5, communicator: 0, source: None, tag: None };
        for n in 0..2_000u32 {
            let tickets = [(); 2].map(|()| recorder.post(0, &post));
            let order = if n % 3 == 0 { [2, 1, 0] } else { [0, 1, 2] };
            for index in order {
                // The send is in between.
                let ticket: Option<Ticket> = [Some(tickets[0]), None, Some(tickets[1])][index];
                if let Some(ticket) = ticket {
                    recorder.resolve(ticket, FROM);
                    if with_completions {
                        recorder.completes(ticket, index as u32);
                    }
                }
            }
            let waitsome = Call { kind: Kind::Waitsome, site: 6, count: 3 };
            recorder.matched(0, &waitsome, Completed::These(&order.map(|index| index as u32)));
            if n % 500 == 7 {
                let ticket = recorder.post(0, &post);
                recorder.resolve(ticket, FROM);
                if with_completions {
                    recorder.completes(ticket, 0);
                }
                recorder.matched(1, &Call { kind: Kind::Wait, site: 7, count: 0 }, Completed::All);
                recorder.seal(&mut bytes);
            }
        }
        recorder.finish(&mut bytes);
        bytes
    }

    #[test]
    fn calls_and_the_receives_that_they_complete_by_requests_are_linked() {
        let links = Links::of(&Frames::read(record(true))).unwrap();
        assert_eq!(
            of_calls(&links, 0, 5),
            [vec![1, 0], vec![2, 3], vec![4, 5], vec![7, 6], vec![8, 9]]
        );
        assert_eq!(of_receives(&links, 0, 4), [Some(0), Some(0), Some(1), Some(1)]);
        let first = Position { stream: 0, number: 0 };
        assert_eq!(
            links.of_call(first).iter().map(|link| link.request).collect::<Vec<_>>(),
            [Some(2), Some(0)]
        );
        // The thread that waited is another.
        let waited = Position { stream: 0, number: 16 };
        let call = Position { stream: 1, number: 0 };
        assert_eq!(links.of_receive(waited).map(|link| link.call), Some(call));
        assert_eq!(links.of_call(call)[0].receive, waited);
        let last = Position { stream: 0, number: 4_003 };
        assert_eq!(links.of_receive(last).map(|link| link.call.number), Some(1_999));
    }

    #[test]
    fn completions_take_next_to_nothing_and_records_without_them_have_no_links() {
        let (with, without) = (record(true), record(false));
        assert!(with.len() <= without.len() + 60, "{} and {}", with.len(), without.len());
        let links = Links::of(&Frames::read(without)).unwrap();
        assert!(links.by_call.is_empty());
    }
}
