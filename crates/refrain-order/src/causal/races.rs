//! Message races: outcomes that could have been different, as far as one record shows.
//!
//! A wildcard receive got one message. Another message competed with it if the receive would have accepted it, and a
//! later wildcard receive of the same thread and communicator got it; unless the program's logic kept it from being
//! sent in time. A record has no sends, so that cannot be excluded. The result is therefore an upper bound within a
//! *horizon* of later receives. It is a lower bound beyond the horizon, and with regard to messages that receives
//! without wildcards got. Two rules are certain:
//!
//! - messages of the same source do not compete: one does not overtake the other;
//! - of another source, only the first message that the receive would have accepted can compete.
//!
//! For completing calls that choose among their requests, or that may fail, every other choice counts as possible.
//! *Surprises* count outcomes that differ from what followed the same outcome the last time at this call site. A call
//! site with many calls and no surprise may be deterministic after all; one that was passed once cannot tell.

use std::collections::BTreeMap;

use crate::causal::event::{CallShape, PostShape};
use crate::causal::frames::Frames;
use crate::causal::read::{Reader, Stretch};
use crate::coding::symbol::mix;
use crate::error::OrderError;
use crate::vocabulary::{Choice, Envelope, MatchResult};
use refrain_bytes::table::Map;

/// How many later receives are searched for competitors by default.
pub const HORIZON: usize = 64;

/// The races of one call site of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteRaces {
    /// The number of calls or receives.
    pub total: u64,
    /// How often the outcome could have been different.
    pub open: u64,
    /// How often the same outcome had come before, so that there was something to compare with.
    pub compared: u64,
    /// How often the outcome was a surprise, among these.
    pub surprises: u64,
    /// The number of failed polls.
    pub polls: u64,
    /// Sources whose messages were received, with counts.
    pub received: BTreeMap<i32, u64>,
    /// Sources whose messages competed, with counts.
    pub competed: BTreeMap<i32, u64>,
}

/// The call sites of a rank where outcomes could have been different.
#[derive(Clone, Debug, Default)]
pub struct Races {
    /// Wildcard receives and probes.
    pub receives: Vec<(PostShape, SiteRaces)>,
    /// Calls that choose among their requests or may fail.
    pub calls: Vec<(CallShape, SiteRaces)>,
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
    races.receives.retain(|(_, site)| site.open > 0);
    races.calls.retain(|(_, site)| site.open > 0);
    races.receives.sort_by_key(|(shape, _)| (shape.site, shape.communicator));
    races.calls.sort_by_key(|(shape, _)| (shape.site, shape.kind));
    Ok(races)
}

/// A receive whose competitors are searched among later receives.
#[derive(Debug)]
struct Pending {
    shape: PostShape,
    got: Envelope,
    competitors: Vec<i32>,
}

impl Pending {
    fn close(self, posts: &mut Map<PostShape, SiteRaces>) {
        let site = posts.entry(self.shape).or_default();
        site.open += u64::from(!self.competitors.is_empty());
        for source in self.competitors {
            *site.competed.entry(source).or_default() += 1;
        }
    }
}

#[derive(Debug, Default)]
struct Search {
    horizon: usize,
    posts: Map<PostShape, SiteRaces>,
    shapes: Map<CallShape, SiteRaces>,
    pending: std::collections::VecDeque<Pending>,
    /// The outcome that followed the last time, by call site and previous outcome.
    followed: Map<u64, u64>,
    last: Map<u64, u64>,
}

impl Search {
    fn receives(&mut self, reader: &Reader<'_>, stretch: &Stretch) -> Result<(), OrderError> {
        for receive in &stretch.block.receives {
            let shape = reader.post_shape(receive)?;
            self.posts.entry(shape).or_default().total += 1;
            let Some(MatchResult::Matched(got)) = receive.match_result else { continue };
            let outcome = mix(got.source as u64, got.tag as u64);
            let surprise = self.surprise(mix(1, shape.site), outcome);
            let site = self.posts.entry(shape).or_default();
            site.compared += u64::from(surprise.is_some());
            site.surprises += u64::from(surprise == Some(true));
            *site.received.entry(got.source).or_default() += 1;
            self.compete(&shape, got);
            if self.pending.len() == self.horizon
                && let Some(oldest) = self.pending.pop_front()
            {
                oldest.close(&mut self.posts);
            }
            if self.horizon > 0 {
                self.pending.push_back(Pending { shape, got, competitors: Vec::new() });
            }
        }
        Ok(())
    }

    /// A message was received that earlier receives might have got.
    fn compete(&mut self, shape: &PostShape, message: Envelope) {
        let same = |pending: &&mut Pending| pending.shape.communicator == shape.communicator;
        for pending in self.pending.iter_mut().filter(same) {
            let other = message.source != pending.got.source;
            let accepted = pending.shape.accepts(pending.got, message);
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
            let site = self.shapes.entry(shape).or_default();
            site.total += 1;
            site.polls += call.polls;
            site.open += u64::from(chooses || shape.kind.polls());
            site.compared += u64::from(surprise.is_some());
            site.surprises += u64::from(surprise == Some(true));
        }
        for trailing in &stretch.block.trailing {
            let call =
                crate::causal::event::CallEvent { shape: trailing.shape, ..Default::default() };
            let shape = reader.call_shape(&call)?;
            self.shapes.entry(shape).or_default().polls += trailing.polls;
        }
        Ok(())
    }

    /// Whether an outcome differs from what followed the same outcome the last time; `None` if that is not known.
    fn surprise(&mut self, site: u64, outcome: u64) -> Option<bool> {
        let last = self.last.insert(site, outcome).unwrap_or(0);
        let followed = self.followed.insert(mix(site, last), outcome);
        followed.map(|followed| followed != outcome)
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
        races.receives.iter().flat_map(|(_, site)| site.competed.keys().copied()).collect()
    }

    #[test]
    fn a_later_message_of_another_source_competed() {
        let any = |source| (0, None, Some(1), source, 1);
        let frames = record(&[any(4), any(7), any(4)]);
        let races = races(&frames, HORIZON).unwrap();
        let (_, site) = &races.receives[0];
        assert_eq!((site.total, site.open), (3, 2));
        assert_eq!(site.competed, BTreeMap::from([(4, 1), (7, 1)]));
        assert_eq!(
            (site.compared, site.surprises),
            (0, 0),
            "no outcome came twice before the last"
        );
    }

    #[test]
    fn outcomes_are_compared_from_the_second_time_on() {
        let any = |source| (0, None, Some(1), source, 1);
        let frames = record(&[any(4), any(7), any(4), any(7), any(4), any(4)]);
        let races = races(&frames, HORIZON).unwrap();
        let (_, site) = &races.receives[0];
        assert_eq!((site.total, site.compared, site.surprises), (6, 3, 1));
    }

    #[test]
    fn messages_of_one_source_do_not_compete() {
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
