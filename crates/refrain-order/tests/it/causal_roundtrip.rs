//! A reader reads back all events of a recorder.

use proptest::prelude::*;
use refrain_order::causal::read::{Reader, Which};
use refrain_order::{
    Call, Choice, Completed, Envelope, Frames, Kind, MatchResult, Moment, Post, Recorder, Replayer,
    Ticket,
};

#[derive(Clone, Debug)]
enum Step {
    Post {
        site: u64,
        communicator: u32,
        any_tag: bool,
        source: i32,
        tag: i32,
    },
    /// The match result of one of the receives that have none yet.
    Resolve {
        which: prop::sample::Index,
        cancelled: bool,
    },
    Failed {
        kind: Kind,
        site: u64,
        times: u8,
    },
    Matched {
        kind: Kind,
        site: u64,
        count: u32,
        picks: Vec<u32>,
    },
    Value {
        which: u8,
        bits: u64,
    },
    Seal,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    let source = prop_oneof![0i32..4, 0i32..300, Just(i32::MAX)];
    let tag = prop_oneof![0i32..3, any::<i32>()];
    let picks = prop::collection::vec(prop_oneof![0u32..5, 0u32..400], 0..6);
    prop_oneof![
        6 => (0u64..3, 0u32..2, any::<bool>(), source, tag).prop_map(
            |(site, communicator, any_tag, source, tag)| {
                Step::Post { site, communicator, any_tag, source, tag }
            }),
        6 => (any::<prop::sample::Index>(), prop::bool::weighted(0.1))
            .prop_map(|(which, cancelled)| Step::Resolve { which, cancelled }),
        3 => (kind(), 0u64..3, 0u8..40)
            .prop_map(|(kind, site, times)| Step::Failed { kind, site, times }),
        6 => (kind(), 0u64..3, 0u32..500, picks)
            .prop_map(|(kind, site, count, picks)| Step::Matched { kind, site, count, picks }),
        1 => (0u8..3, any::<u64>()).prop_map(|(which, bits)| Step::Value { which, bits }),
        1 => Just(Step::Seal),
    ]
}

#[derive(Default)]
struct Expected {
    calls: Vec<Moment>,
    receives: Vec<Moment>,
    values: Vec<(u8, u64)>,
    open: Vec<(Ticket, Envelope)>,
}

fn perform(recorder: &mut Recorder, step: &Step, expected: &mut Expected, bytes: &mut Vec<u8>) {
    match step {
        Step::Post { site, communicator, any_tag, source, tag } => {
            let (site, communicator) = (*site, *communicator);
            let asked = (!any_tag).then_some(*tag);
            let ticket = recorder.post(0, &Post { site, communicator, source: None, tag: asked });
            expected.open.push((ticket, Envelope { source: *source, tag: *tag }));
            expected.receives.push(Moment::Receive {
                position: expected.receives.len() as u64,
                site,
                communicator,
                any: [true, *any_tag],
                match_result: Some(MatchResult::Never),
            });
        }
        Step::Resolve { which, cancelled } if !expected.open.is_empty() => {
            let (ticket, from) = expected.open.remove(which.index(expected.open.len()));
            let new = if *cancelled { MatchResult::Cancelled } else { MatchResult::Matched(from) };
            recorder.resolve(ticket, new);
            if let Moment::Receive { match_result, .. } =
                &mut expected.receives[ticket.number as usize]
            {
                *match_result = Some(new);
            }
        }
        Step::Resolve { .. } => {}
        Step::Failed { kind, site, times } => {
            (0..*times).for_each(|_| recorder.failed(0, *kind, *site));
        }
        Step::Matched { kind, site, count, picks } => {
            let call = Call { kind: *kind, site: *site, count: *count };
            recorder.matched(0, &call, Completed::These(picks));
            // Outcomes that do not fit the kind of call are not recorded.
            let picks = match kind.choice() {
                Choice::All => &[][..],
                Choice::One => &picks[..picks.len().min(1)],
                Choice::Some => picks,
            };
            let count = if kind.has_array() { *count } else { 0 };
            let (position, picks) = (expected.calls.len() as u64, picks.to_vec());
            let (kind, site) = (*kind, *site);
            expected.calls.push(Moment::Call { position, kind, site, count, polls: 0, picks });
        }
        Step::Value { which, bits } => {
            recorder.value(0, *which, *bits);
            expected.values.push((*which, *bits));
        }
        Step::Seal => recorder.seal(bytes),
    }
}

/// Without failed polls, which belong to a call or to the end of a block.
fn without_polls(mut moment: Moment) -> Moment {
    if let Moment::Call { polls, .. } = &mut moment {
        *polls = 0;
    }
    moment
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_recorded_event_is_read_back(steps in prop::collection::vec(step(), 0..300)) {
        let mut recorder = Recorder::new();
        let (mut expected, mut bytes) = (Expected::default(), Vec::new());
        let mut failed = 0u64;
        for step in &steps {
            perform(&mut recorder, step, &mut expected, &mut bytes);
            if let Step::Failed { kind, times, .. } = step && kind.polls() {
                failed += u64::from(*times);
            }
        }
        recorder.finish(&mut bytes);
        let frames = Frames::read(bytes);
        prop_assert_eq!(frames.truncated(), None);
        let calls = Reader::new(&frames, 0).moments(Which::Calls).unwrap();
        let calls: Vec<Moment> = calls.into_iter().map(without_polls).collect();
        prop_assert_eq!(calls, expected.calls);
        let receives = Reader::new(&frames, 0).moments(Which::Receives).unwrap();
        prop_assert_eq!(receives, expected.receives);
        let summary = refrain_order::causal::summary::summary(&frames).unwrap();
        prop_assert_eq!(summary.calls.failed, failed);
        prop_assert_eq!(summary.values, expected.values.len() as u64);
        let replayer = Replayer::new(frames);
        prop_assert!(replayer.is_ok());
    }
}
