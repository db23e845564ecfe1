//! Damaged and random bytes cause neither panics nor unbounded memory.

use proptest::prelude::*;
use refrain_order::causal::diff::diff;
use refrain_order::causal::races::{HORIZON, races};
use refrain_order::causal::read::{Reader, Which};
use refrain_order::causal::summary::summary;
use refrain_order::{
    Call, Completed, Decision, Envelope, Frames, Kind, MatchResult, Post, Recorder, Replayer, Stop,
};

/// A record with all kinds of events.
fn record(seed: u64) -> Vec<u8> {
    let mut recorder = Recorder::new();
    let mut bytes = Vec::new();
    let mut state = seed | 1;
    let mut random = move |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % end
    };
    for _ in 0..200 {
        let stream = random(2) as u32;
        let tag = (random(3) > 0).then_some(4);
        let post = Post { site: random(4), communicator: random(2) as u32, source: None, tag };
        let ticket = recorder.post(stream, &post);
        let call = Call { kind: Kind::Waitsome, site: random(3), count: 9 };
        let indices: Vec<u32> = (0..random(4)).map(|n| (n * 2) as u32).collect();
        if indices.is_empty() {
            recorder.failed(stream, Kind::Testany, 7);
        } else {
            recorder.matched(stream, &call, Completed::These(&indices));
        }
        if random(5) > 0 {
            let from = Envelope { source: random(5) as i32, tag: 4 };
            recorder.resolve(ticket, MatchResult::Matched(from));
        }
        recorder.value(stream, 1, random(u64::MAX));
        recorder.turn(stream, random(9));
        if random(30) == 0 {
            recorder.seal(&mut bytes);
        }
    }
    recorder.finish(&mut bytes);
    bytes
}

/// Reads and replays bytes.
fn use_up(bytes: Vec<u8>) {
    let frames = Frames::read(bytes);
    let _ = summary(&frames);
    let _ = races(&frames, HORIZON);
    let _ = diff(std::slice::from_ref(&frames), &[], true);
    for stream in 0..frames.streams().len() {
        let _ = Reader::new(&frames, stream).moments(Which::Calls);
    }
    let Ok(mut replayer) = Replayer::new(frames) else { return };
    for n in 0..300 {
        let _ = replayer.value(n % 3, 1);
        let call = Call { kind: Kind::Waitsome, site: u64::from(n) % 3, count: 9 };
        if let Ok(Decision::These(indices)) = replayer.call(n % 3, &call) {
            assert!(indices.iter().all(|index| *index < 9), "an index that the call does not have");
        }
        let post = Post { site: 1, communicator: 0, source: None, tag: Some(4) };
        let _ = replayer.post(n % 3, &post);
        let _ = replayer.turn(n % 3, u64::from(n));
        replayer.took_turn(u64::from(n));
    }
    let _ = replayer.finish();
}

/// Gives changed frames correct checksums, so that they reach the decoders.
fn mend(bytes: &mut Vec<u8>) {
    let mut mended = Vec::new();
    let mut at = 0;
    while let Some((length, digits)) = leb128(&bytes[at..]) {
        let from = at + digits;
        let Some(body) = bytes.get(from..from + length) else { break };
        mended.extend_from_slice(&bytes[at..from + length]);
        let sum = body
            .iter()
            .fold(0x811c_9dc5u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        mended.extend_from_slice(&sum.to_le_bytes());
        at = from + length + 4;
        if at >= bytes.len() {
            break;
        }
    }
    *bytes = mended;
}

fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (n, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some((value, n + 1));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        use_up(bytes);
    }

    #[test]
    fn a_damaged_record_is_replayed_without_a_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        checksums in any::<bool>(),
    ) {
        let mut bytes = record(seed);
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if checksums {
            mend(&mut bytes);
        } else {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        use_up(bytes);
    }
}

#[test]
fn a_truncated_record_is_read_up_to_the_last_whole_frame() {
    let bytes = record(3);
    let mut last = 0;
    for end in 0..bytes.len() {
        let frames = Frames::read(bytes[..end].to_vec());
        let blocks: usize = frames.streams().iter().map(|stream| stream.bodies.len()).sum();
        assert!(blocks >= last, "cutting less shows less");
        last = blocks;
        assert!(summary(&frames).is_ok());
    }
    assert!(Frames::read(bytes).truncated().is_none());
}

#[test]
fn an_empty_record_ends_at_once() {
    let mut replayer = Replayer::new(Frames::read(Vec::new())).unwrap();
    let call = Call { kind: Kind::Recv, site: 1, count: 0 };
    assert_eq!(replayer.call(0, &call), Err(Stop::RecordEnds));
}
