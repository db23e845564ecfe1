//! Random events in a log and in a recorder.

use super::*;
use crate::causal::frames::Frames;
use crate::causal::read::{Reader, Which};
use crate::divergence::Moment;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Post(Post),
    Resolve(usize, MatchResult),
    Failed(Kind, u64),
    Matched(Call, Vec<u32>, bool),
    Value(u8, u64),
    Turn(u64),
}

fn steps() -> impl Strategy<Value = (u32, Step)> {
    let option = || prop::option::of(0i32..3);
    let post =
        (0u64..4, 0u32..3, option(), option()).prop_map(|(site, communicator, source, tag)| {
            Step::Post(Post { site, communicator, source, tag })
        });
    let match_result = prop_oneof![
        (-2i32..5, -1i32..9)
            .prop_map(|(source, tag)| MatchResult::Matched(Envelope { source, tag })),
        Just(MatchResult::Cancelled),
        Just(MatchResult::Never),
    ];
    let kind = || (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n]);
    let matched = (kind(), 0u64..4, 1u32..6, prop::collection::vec(0u32..5, 0..6), any::<bool>());
    let event = prop_oneof![
        post,
        (0usize..9, match_result)
            .prop_map(|(which, match_result)| Step::Resolve(which, match_result)),
        (kind(), 0u64..4).prop_map(|(kind, site)| Step::Failed(kind, site)),
        matched.prop_map(|(kind, site, count, picks, all)| {
            Step::Matched(Call { kind, site, count }, picks, all)
        }),
        (0u8..3, any::<u64>()).prop_map(|(which, bits)| Step::Value(which, bits)),
        (0u64..5).prop_map(Step::Turn),
    ];
    (0u32..3, event)
}

/// All calls and receives that a replay would see.
fn moments(frames: Vec<u8>) -> Vec<Vec<Moment>> {
    let frames = Frames::read(frames);
    assert_eq!(frames.truncated(), None);
    let all = |(stream, which)| Reader::new(&frames, stream).moments(which).unwrap();
    let streams = 0..frames.streams().len();
    streams
        .flat_map(|stream| [(stream, Which::Calls), (stream, Which::Receives)])
        .map(all)
        .collect()
}

/// Passes the same event to a log and to a recorder; `which` selects the ticket to resolve.
fn perform(
    (log, direct): (&mut Log<'_>, &mut Recorder),
    stream: u32,
    step: &Step,
    tickets: &mut Vec<Ticket>,
    resolves: impl FnOnce(&mut Vec<Ticket>, usize) -> Option<Ticket>,
) {
    match step {
        Step::Post(post) => {
            let ticket = direct.post(stream, post);
            assert_eq!(log.post(stream, post), ticket);
            tickets.push(ticket);
        }
        Step::Resolve(which, match_result) => {
            if let Some(ticket) = resolves(tickets, *which) {
                direct.resolve(ticket, *match_result);
                log.resolve(ticket, *match_result);
            }
        }
        Step::Failed(kind, site) => {
            if kind.polls() {
                direct.failed(stream, *kind, *site);
                log.failed(stream, *kind, *site);
            }
        }
        Step::Matched(call, picks, all) => {
            direct.matched(stream, call, completed(picks, *all));
            log.matched(stream, call, completed(picks, *all));
        }
        Step::Value(which, bits) => {
            direct.value(stream, *which, *bits);
            log.value(stream, *which, *bits);
        }
        Step::Turn(key) => {
            direct.turn(stream, *key);
            log.turn(stream, *key);
        }
    }
}

/// The first word of a window, decoded, and the words in use.
fn left(words: &[AtomicU64]) -> (InUse, Vec<u64>) {
    let words = words.iter().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    let bytes: Vec<u8> = words.flatten().collect();
    let in_use = InUse::read(*bytes.first_chunk().unwrap());
    let range = in_use.range(bytes.len() as u64).unwrap();
    let content = super::words(&bytes[range.start as usize..range.end as usize]);
    (in_use, content.collect())
}

fn completed<'a>(picks: &'a [u32], all: bool) -> Completed<'a> {
    match (all, picks.is_empty()) {
        (true, _) => Completed::All,
        (false, true) => Completed::Undefined,
        (false, false) => Completed::These(picks),
    }
}

proptest! {
    #[test]
    fn a_recorder_behind_a_log_makes_the_same_frames(
        steps in prop::collection::vec(steps(), 0..200)) {
        let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(7)).collect();
        let mut log = Log::new(&words, 17);
        let mut direct = Recorder::new();
        let mut tickets = Vec::new();
        for (stream, step) in &steps {
            perform((&mut log, &mut direct), *stream, step, &mut tickets, |tickets, which| {
                tickets.get(which).copied()
            });
        }
        prop_assert!(!log.has_lost());
        let (in_use, content) = left(&words);
        prop_assert_eq!(in_use.base, 17);
        let mut indirect = Recorder::new();
        apply(content, &mut indirect).unwrap();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        direct.finish(&mut left);
        indirect.finish(&mut right);
        prop_assert_eq!(left, right);
    }

    /// However often the window was full, and wherever the process is killed: the sealed frames and the window together
    /// hold all events.
    #[test]
    fn no_event_of_a_killed_process_is_lost(
        steps in prop::collection::vec(steps(), 0..400), words in 80usize..400) {
        let words: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(7)).collect();
        let (mut log, mut recorder) = (Log::new(&words, 0), Recorder::new());
        let (mut direct, mut frames, mut tickets) = (Recorder::new(), Vec::new(), Vec::new());
        for (stream, step) in &steps {
            if !log.has_room(6) {
                apply(log.content(), &mut recorder).unwrap();
                let pending = recorder.seal_settled(&mut frames);
                log.restart(frames.len() as u64, &pending);
                // So many receives are pending that there is no room for the next event.
                if !log.has_room(6) {
                    break;
                }
            }
            // Failed polls and turns are split at the end of a block, so the records would differ.
            if matches!(step, Step::Failed(..) | Step::Turn(_)) {
                continue;
            }
            perform((&mut log, &mut direct), *stream, step, &mut tickets, |tickets, which| {
                let at = tickets.len().checked_sub(1 + which)?;
                Some(tickets.remove(at))
            });
        }
        prop_assert!(!log.has_lost());
        let (in_use, content) = left(&words);
        prop_assert_eq!(in_use.base, frames.len() as u64);
        let mut resumed = Recorder::resume(&Frames::read(frames.clone()));
        apply(content, &mut resumed).unwrap();
        resumed.finish(&mut frames);
        let mut all = Vec::new();
        direct.finish(&mut all);
        prop_assert_eq!(moments(frames), moments(all));
    }

    #[test]
    fn random_words_are_read_or_refused_without_a_panic(words in prop::collection::vec(any::<u64>(), 0..50)) {
        let small = words.iter().map(|word| word & 0x0000_000f_0003_ff07);
        let _ = apply(small, &mut Recorder::new());
        for word in words {
            let _ = InUse::read(word.to_le_bytes()).range(word >> 40);
        }
    }
}

#[test]
fn failed_polls_do_not_fill_the_window() {
    let words: Vec<AtomicU64> = (0..33).map(|_| AtomicU64::new(0)).collect();
    let mut log = Log::new(&words, 0);
    for n in 0..1000 {
        log.failed(0, Kind::Testsome, n % 2);
    }
    assert!(!log.has_lost() && log.has_room(0));
}

#[test]
fn events_without_room_are_reported_as_lost() {
    let words: Vec<AtomicU64> = (0..33).map(|_| AtomicU64::new(0)).collect();
    let mut log = Log::new(&words, 0);
    while log.has_room(0) {
        log.value(0, 0, 1);
    }
    assert!(!log.has_lost());
    for _ in 0..words.len() / 2 {
        log.value(0, 0, 1);
    }
    assert!(log.has_lost());
}
