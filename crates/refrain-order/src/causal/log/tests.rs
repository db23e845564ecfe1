//! The log, told at random.

use super::*;
use crate::causal::frames::Frames;
use crate::causal::read::{Reader, Which};
use crate::divergence::Moment;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Told {
    Post(Post),
    Resolve(usize, MatchResult),
    Failed(Kind, u64),
    Matched(Call, Vec<u32>, bool),
    Value(u8, u64),
    Turn(u64),
}

fn told() -> impl Strategy<Value = (u32, Told)> {
    let option = || prop::option::of(0i32..3);
    let post =
        (0u64..4, 0u32..3, option(), option()).prop_map(|(site, communicator, source, tag)| {
            Told::Post(Post { site, communicator, source, tag })
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
            .prop_map(|(which, match_result)| Told::Resolve(which, match_result)),
        (kind(), 0u64..4).prop_map(|(kind, site)| Told::Failed(kind, site)),
        matched.prop_map(|(kind, site, count, picks, all)| {
            Told::Matched(Call { kind, site, count }, picks, all)
        }),
        (0u8..3, any::<u64>()).prop_map(|(which, bits)| Told::Value(which, bits)),
        (0u64..5).prop_map(Told::Turn),
    ];
    (0u32..3, event)
}

/// What a replay would do.
fn moments(frames: Vec<u8>) -> Vec<Vec<Moment>> {
    let frames = Frames::read(frames);
    assert_eq!(frames.cut(), None);
    let all = |(stream, which)| Reader::new(&frames, stream).moments(which).unwrap();
    let streams = 0..frames.streams().len();
    streams.flat_map(|own| [(own, Which::Calls), (own, Which::Receives)]).map(all).collect()
}

/// Tells a log and a recorder the same; whoever resolves says which ticket.
fn tell(
    (log, direct): (&mut Log<'_>, &mut Recorder),
    stream: u32,
    told: &Told,
    tickets: &mut Vec<Ticket>,
    resolves: impl FnOnce(&mut Vec<Ticket>, usize) -> Option<Ticket>,
) {
    match told {
        Told::Post(post) => {
            let ticket = direct.post(stream, post);
            assert_eq!(log.post(stream, post), ticket);
            tickets.push(ticket);
        }
        Told::Resolve(which, match_result) => {
            if let Some(ticket) = resolves(tickets, *which) {
                direct.resolve(ticket, *match_result);
                log.resolve(ticket, *match_result);
            }
        }
        Told::Failed(kind, site) => {
            if kind.polls() {
                direct.failed(stream, *kind, *site);
                log.failed(stream, *kind, *site);
            }
        }
        Told::Matched(call, picks, all) => {
            direct.matched(stream, call, completed(picks, *all));
            log.matched(stream, call, completed(picks, *all));
        }
        Told::Value(which, bits) => {
            direct.value(stream, *which, *bits);
            log.value(stream, *which, *bits);
        }
        Told::Turn(key) => {
            direct.turn(stream, *key);
            log.turn(stream, *key);
        }
    }
}

/// What the first word of a window says, and the words in use.
fn left(words: &[AtomicU64]) -> (InUse, Vec<u64>) {
    let words = words.iter().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    let bytes: Vec<u8> = words.flatten().collect();
    let in_use = InUse::read(*bytes.first_chunk().unwrap());
    let place = in_use.place(bytes.len() as u64).unwrap();
    let content = super::words(&bytes[place.start as usize..place.end as usize]);
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
    fn a_recorder_told_by_way_of_a_log_makes_the_same_frames(
        told in prop::collection::vec(told(), 0..200)) {
        let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(7)).collect();
        let mut log = Log::new(&words, 17);
        let mut direct = Recorder::new();
        let mut tickets = Vec::new();
        for (stream, told) in &told {
            tell((&mut log, &mut direct), *stream, told, &mut tickets, |tickets, which| {
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

    /// However often a window is full, and wherever the process is killed: what is sealed and what is
    /// in the window are all that was told.
    #[test]
    fn what_a_killed_process_leaves_is_what_it_was_told(
        told in prop::collection::vec(told(), 0..400), words in 80usize..400) {
        let words: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(7)).collect();
        let (mut log, mut recorder) = (Log::new(&words, 0), Recorder::new());
        let (mut direct, mut frames, mut tickets) = (Recorder::new(), Vec::new(), Vec::new());
        for (stream, told) in &told {
            if !log.has_room(6) {
                apply(log.content(), &mut recorder).unwrap();
                let pending = recorder.seal_settled(&mut frames);
                log.restart(frames.len() as u64, &pending);
                // With as many receives pending, the next ones have no room.
                if !log.has_room(6) {
                    break;
                }
            }
            // Polls and turns of a block that ends are told apart from those behind it.
            if matches!(told, Told::Failed(..) | Told::Turn(_)) {
                continue;
            }
            tell((&mut log, &mut direct), *stream, told, &mut tickets, |tickets, which| {
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
    fn any_words_are_read_or_refused(words in prop::collection::vec(any::<u64>(), 0..50)) {
        let small = words.iter().map(|word| word & 0x0000_000f_0003_ff07);
        let _ = apply(small, &mut Recorder::new());
        for word in words {
            let _ = InUse::read(word.to_le_bytes()).place(word >> 40);
        }
    }
}

#[test]
fn failed_polls_fill_no_window() {
    let words: Vec<AtomicU64> = (0..33).map(|_| AtomicU64::new(0)).collect();
    let mut log = Log::new(&words, 0);
    for n in 0..1000 {
        log.failed(0, Kind::Testsome, n % 2);
    }
    assert!(!log.has_lost() && log.has_room(0));
}

#[test]
fn what_has_no_room_is_known_to_be_missing() {
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
