//! Message races: outcomes that could have been different, as far as one record shows.
//!
//! A wildcard receive took one message. Another that it would have accepted, and that a later
//! wildcard receive of the same thread and communicator took, competed with it, unless something
//! in the program kept it from being sent in time. A record holds no sends, so that cannot be
//! excluded: the answer is an upper bound within a *horizon* of so many later receives, and a
//! lower bound beyond it and for messages that receives without wildcards took. What is certain:
//!
//! - messages of the same source do not compete: MPI does not let one overtake the other;
//! - of another source only the first message that the receive would have accepted can have been
//!   first in line.
//!
//! For matching calls that choose among their requests, or that may fail, every other choice
//! counts as possible. *Surprises* tell what a record shows to vary: outcomes that were not what
//! had followed the last time in the same circumstances. A place with many calls and no surprise
//! may well be deterministic after all.

use std::collections::BTreeMap;

use crate::causal::event::{CallShape, PostShape};
use crate::causal::frames::Frames;
use crate::causal::read::{Reader, Stretch};
use crate::coding::symbol::mix;
use crate::error::OrderError;
use crate::vocabulary::{Choice, Envelope, MatchResult};
use refrain_bytes::table::Map;

/// So many later receives are searched for competitors by default.
pub const HORIZON: usize = 64;

/// What happened at one call site, on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// How often it was passed.
    pub total: u64,
    /// How often the outcome could have been another.
    pub open: u64,
    /// How often the outcome was not what followed the last time.
    pub surprises: u64,
    /// How many polls failed.
    pub polls: u64,
    /// Sources whose messages were received, and sources whose messages competed, with how often.
    pub received: BTreeMap<i32, u64>,
    /// See `received`.
    pub competed: BTreeMap<i32, u64>,
}

/// The call sites of a rank where outcomes could have been different.
#[derive(Clone, Debug, Default)]
pub struct Races {
    /// Wildcard receives and probes.
    pub receives: Vec<(PostShape, Place)>,
    /// Calls that choose among their requests or may fail.
    pub calls: Vec<(CallShape, Place)>,
}

/// Finds the races of one rank's record, searching `horizon` later receives for competitors.
pub fn races(frames: &Frames, horizon: usize) -> Result<Races, OrderError> {
    let mut search = Search { horizon, ..Search::default() };
    for stream in 0..frames.streams().len() {
        let mut reader = Reader::new(frames, stream);
        search.followed = Map::default();
        while let Some(stretch) = reader.next_stretch()? {
            search.receives(&reader, &stretch)?;
            search.calls(&reader, &stretch)?;
        }
        search.pending.drain(..).for_each(|pending| pending.close(&mut search.posts));
    }
    let mut races = Races {
        receives: search.posts.into_iter().collect(),
        calls: search.shapes.into_iter().collect(),
    };
    races.receives.retain(|(_, place)| place.open > 0);
    races.calls.retain(|(_, place)| place.open > 0);
    races.receives.sort_by_key(|(shape, _)| (shape.site, shape.communicator));
    races.calls.sort_by_key(|(shape, _)| (shape.site, shape.kind));
    Ok(races)
}

/// A receive whose competitors are searched among later ones.
#[derive(Debug)]
struct Pending {
    shape: PostShape,
    own: Envelope,
    competitors: Vec<i32>,
}

impl Pending {
    fn close(self, posts: &mut Map<PostShape, Place>) {
        let place = posts.entry(self.shape).or_default();
        place.open += u64::from(!self.competitors.is_empty());
        for source in self.competitors {
            *place.competed.entry(source).or_default() += 1;
        }
    }
}

#[derive(Debug, Default)]
struct Search {
    horizon: usize,
    posts: Map<PostShape, Place>,
    shapes: Map<CallShape, Place>,
    pending: std::collections::VecDeque<Pending>,
    /// What followed the last time, by call site and previous outcome.
    followed: Map<u64, u64>,
    last: Map<u64, u64>,
}

impl Search {
    fn receives(&mut self, reader: &Reader<'_>, stretch: &Stretch) -> Result<(), OrderError> {
        for receive in &stretch.block.receives {
            let shape = reader.post_shape(receive)?;
            self.posts.entry(shape).or_default().total += 1;
            let Some(MatchResult::Matched(own)) = receive.match_result else { continue };
            let outcome = mix(own.source as u64, own.tag as u64);
            let surprise = self.surprise(mix(1, shape.site), outcome);
            let place = self.posts.entry(shape).or_default();
            place.surprises += u64::from(surprise);
            *place.received.entry(own.source).or_default() += 1;
            self.compete(&shape, own);
            if self.pending.len() == self.horizon
                && let Some(oldest) = self.pending.pop_front()
            {
                oldest.close(&mut self.posts);
            }
            if self.horizon > 0 {
                self.pending.push_back(Pending { shape, own, competitors: Vec::new() });
            }
        }
        Ok(())
    }

    /// A message came that earlier receives might have had.
    fn compete(&mut self, shape: &PostShape, message: Envelope) {
        let same = |pending: &&mut Pending| pending.shape.communicator == shape.communicator;
        for pending in self.pending.iter_mut().filter(same) {
            let other = message.source != pending.own.source;
            let accepted = pending.shape.accepts(pending.own, message);
            if other && accepted && !pending.competitors.contains(&message.source) {
                pending.competitors.push(message.source);
            }
        }
    }

    fn calls(&mut self, reader: &Reader<'_>, stretch: &Stretch) -> Result<(), OrderError> {
        for (call, picks) in stretch.calls() {
            let shape = reader.call_shape(call)?;
            let outcome = picks.iter().fold(call.polls, |mixed, index| mix(mixed, (*index).into()));
            let surprise = self.surprise(mix(mix(2, shape.site), shape.kind as u64), outcome);
            let chooses = shape.choice() != Choice::All && call.count > 1;
            let place = self.shapes.entry(shape).or_default();
            place.total += 1;
            place.polls += call.polls;
            place.open += u64::from(chooses || shape.kind.polls());
            place.surprises += u64::from(surprise);
        }
        for trailing in &stretch.block.trailing {
            let call =
                crate::causal::event::CallEvent { shape: trailing.shape, ..Default::default() };
            let shape = reader.call_shape(&call)?;
            self.shapes.entry(shape).or_default().polls += trailing.polls;
        }
        Ok(())
    }

    fn surprise(&mut self, place: u64, outcome: u64) -> bool {
        let last = self.last.insert(place, outcome).unwrap_or(0);
        let followed = self.followed.insert(mix(place, last), outcome);
        followed.is_some_and(|followed| followed != outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Post, Recorder};

    /// Communicator, source and tag asked for, source and tag of the message.
    type Receive = (u32, Option<i32>, Option<i32>, i32, i32);

    fn record(receives: &[Receive]) -> Frames {
        let mut recorder = Recorder::new();
        for &(communicator, wants, tagged, source, tag) in receives {
            let post = Post { site: 5, communicator, source: wants, tag: tagged };
            let ticket = recorder.post(0, &post);
            recorder.resolve(ticket, MatchResult::Matched(Envelope { source, tag }));
        }
        let mut bytes = Vec::new();
        recorder.finish(&mut bytes);
        Frames::read(bytes)
    }

    fn competed(frames: &Frames) -> Vec<i32> {
        let races = races(frames, HORIZON).unwrap();
        races.receives.iter().flat_map(|(_, place)| place.competed.keys().copied()).collect()
    }

    #[test]
    fn a_later_message_of_another_source_competed() {
        let any = |source| (0, None, Some(1), source, 1);
        let frames = record(&[any(4), any(7), any(4)]);
        let races = races(&frames, HORIZON).unwrap();
        let (_, place) = &races.receives[0];
        assert_eq!((place.total, place.open), (3, 2));
        assert_eq!(place.competed, BTreeMap::from([(4, 1), (7, 1)]));
    }

    #[test]
    fn one_source_does_not_compete_with_itself() {
        let any = |tag| (0, None, None, 4, tag);
        assert_eq!(competed(&record(&[any(1), any(2), any(1)])), []);
    }

    #[test]
    fn other_tags_and_communicators_do_not_compete() {
        assert_eq!(competed(&record(&[(0, None, Some(1), 4, 1), (0, None, Some(2), 7, 2)])), []);
        assert_eq!(competed(&record(&[(0, None, None, 4, 1), (1, None, None, 7, 1)])), []);
        assert_eq!(competed(&record(&[(0, Some(4), None, 4, 1), (0, None, None, 7, 1)])), []);
    }
}
