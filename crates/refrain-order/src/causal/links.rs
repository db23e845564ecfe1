//! Which completing call got the message of which receive, as far as a record has it.
//!
//! Receives and completing calls are two sequences of a stream, numbered separately. A call that posts and
//! completes a receive itself (Recv, Sendrecv, probes) is in both, with one call site: the n-th receive of the
//! site belongs to its n-th call, provided that all calls of the site had a wildcard. Of receives that complete
//! by a request the record holds the request's index in the call, and not which receive it was.

use crate::causal::frames::Frames;
use crate::causal::read::Reader;
use crate::error::OrderError;
use crate::vocabulary::Kind;
use refrain_bytes::table::Map;

/// The links of one stream.
#[derive(Clone, Debug, Default)]
pub struct Links {
    calls: Map<u64, u64>,
    receives: Map<u64, u64>,
}

impl Links {
    /// Those of a stream.
    pub fn of(frames: &Frames, stream: usize) -> Result<Links, OrderError> {
        let mut calls: Map<u64, Vec<u64>> = Map::default();
        let mut receives: Map<u64, Vec<u64>> = Map::default();
        let mut reader = Reader::new(frames, stream);
        while let Some(stretch) = reader.next_stretch()? {
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
        let mut links = Links::default();
        for (site, calls) in calls {
            let receives = receives.get(&site).filter(|receives| receives.len() == calls.len());
            for (call, receive) in calls.iter().zip(receives.into_iter().flatten()) {
                links.calls.insert(*receive, *call);
                links.receives.insert(*call, *receive);
            }
        }
        Ok(links)
    }

    /// The call that completed a receive.
    pub fn call(&self, receive: u64) -> Option<u64> {
        self.calls.get(&receive).copied()
    }

    /// The receive that a call completed.
    pub fn receive(&self, call: u64) -> Option<u64> {
        self.receives.get(&call).copied()
    }
}

/// Whether a call posts the receive that it completes.
fn posts(kind: Kind) -> bool {
    use Kind::*;
    matches!(kind, Recv | Sendrecv | Probe | Mprobe | Iprobe | Improbe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Completed, Envelope, MatchResult, Post, Recorder};

    #[test]
    fn calls_and_the_receives_that_they_post_are_linked() {
        let mut recorder = Recorder::new();
        let call = |kind, site| Call { kind, site, count: 0 };
        for n in 0..3 {
            // A wildcard, a receive that completes later, and one whose source is given every other time.
            for (site, source) in [(5, None), (6, None), (7, (n % 2 == 0).then_some(1))] {
                let post = Post { site, communicator: 0, source, tag: Some(3) };
                let ticket = recorder.post(0, &post);
                recorder.resolve(ticket, MatchResult::Matched(Envelope { source: 1, tag: 3 }));
                let kind = if site == 6 { Kind::Wait } else { Kind::Recv };
                let site = if site == 6 { 66 } else { site };
                recorder.matched(0, &call(kind, site), Completed::All);
            }
        }
        let mut bytes = Vec::new();
        recorder.finish(&mut bytes);
        let links = Links::of(&Frames::read(bytes), 0).unwrap();
        let calls: Vec<Option<u64>> = (0..7).map(|receive| links.call(receive)).collect();
        assert_eq!(calls, [Some(0), None, Some(3), None, None, Some(6), None]);
        let receives: Vec<Option<u64>> = (0..9).map(|call| links.receive(call)).collect();
        assert_eq!(receives[..4], [Some(0), None, None, Some(2)]);
        assert_eq!(receives[4..], [None, None, Some(5), None, None]);
    }
}
