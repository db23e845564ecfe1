//! Damaged and random bytes cause neither panics nor unbounded memory.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;
use refrain_bytes::varint::{put_bytes, take_bytes};
use refrain_order::clock::Note;
use refrain_order::clock::chunk::Head;
use refrain_order::clock::read::Reader;
use refrain_order::clock::{Recorder, Replayer};
use refrain_order::frame::{put_frame, take_frame};
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, OrderError, Post, Recording, Stamp,
};

/// A record with all kinds of events.
fn record(seed: u64) -> Vec<u8> {
    let mut recorder = Recorder::new(0);
    let mut bytes = Vec::new();
    let mut state = seed | 1;
    let mut random = move |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % end
    };
    let mut sequences = [0; 3];
    for n in 0..150u64 {
        let stream = random(2) as u32;
        let tag = (random(3) > 0).then_some(4);
        let source = (random(3) == 0).then_some(1);
        let ticket = recorder.post(stream, &Post { site: random(4), communicator: 0, source, tag });
        let sender = source.unwrap_or(random(3) as i32) as usize;
        let stamp = Stamp { sender: sender as u32, sequence: sequences[sender], clock: n * 2 };
        sequences[sender] += 1 + random(8) / 7;
        let call = [Kind::Waitsome, Kind::Recv, Kind::Testany][random(3) as usize];
        recorder.failed(stream, Kind::Testany, 7);
        let finished = Finished {
            ticket,
            match_result: MatchResult::Matched(Envelope { source: sender as i32, tag: 4 }),
            stamp: Some(stamp),
        };
        let call = Call { kind: call, site: random(3), count: 1 };
        let these = Completed::These(&[0]);
        recorder.completed(stream, &call, &[Some(ticket)], these, &[finished]);
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
    let mut reader = Reader::new(&bytes[..]);
    while let Ok(Some(_)) = reader.next_chunk() {}
    let Ok(mut replayer) = Replayer::new(bytes, 0, 3) else { return };
    for n in 0..200u64 {
        let stream = (n % 3) as u32;
        let sender = (n % 4) as u32;
        let note =
            Note::Sent { clock: n * 2, communicator: 0, source: sender as i32, tag: n as i32 % 5 };
        replayer.receive_note(sender, note);
        let _ = replayer.value(stream, 1);
        let post = Post { site: n % 4, communicator: 0, source: None, tag: Some(4) };
        let Ok(ticket) = replayer.receive(stream, &post) else { continue };
        for kind in [Kind::Waitsome, Kind::Recv, Kind::Testany, Kind::Probe] {
            let call = Call { kind, site: n % 3, count: 1 };
            let _ = replayer.call(stream, &call, &[Some(ticket)]);
        }
        if n % 7 == 0 {
            let (clock, sure) = (n * 3, true);
            replayer.receive_note(sender, Note::Bound { origin: 1, serial: 0, clock, sure });
            replayer
                .receive_note(sender, Note::Query { origin: 1, serial: n, clock: u64::MAX - n });
        }
        while replayer.next_note().is_some() {}
    }
    let _ = replayer.finish();
}

fn changed(bytes: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, byte) in changes {
        let at = at % (2 * bytes.len()).max(1);
        if let Some(target) = bytes.get_mut(at) {
            *target = *byte;
        }
    }
    bytes
}

/// Changes the contents of frames, and gives them correct checksums.
fn reframed(bytes: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let (mut input, mut out) = (bytes, Vec::new());
    while let Ok(body) = take_frame(&mut input) {
        let body = match Head::take(body) {
            Ok(Some((_, rest))) => {
                let (mut inner, mut zipped) = (Vec::new(), rest);
                let values = take_bytes(&mut zipped).expect("it was just made");
                DeflateDecoder::new(zipped).read_to_end(&mut inner).expect("it was just made");
                let mut body = body[..body.len() - rest.len()].to_vec();
                put_bytes(&mut body, &changed(values, changes));
                let mut deflate = DeflateEncoder::new(&mut body, Compression::fast());
                deflate.write_all(&changed(&inner, changes)).expect("memory");
                deflate.finish().expect("memory");
                body
            }
            _ => changed(body, changes),
        };
        put_frame(&mut out, &body);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut framed = Vec::new();
        for tag in [17, 18] {
            let mut body = vec![tag];
            body.extend_from_slice(&bytes);
            put_frame(&mut framed, &body);
            use_up(std::mem::take(&mut framed));
        }
        use_up(bytes);
    }

    #[test]
    fn a_damaged_record_is_replayed_without_a_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4)) {
        let bytes = record(seed);
        use_up(reframed(&bytes, &changes));
        use_up(changed(&bytes, &changes));
    }
}

#[test]
fn a_decompression_bomb_is_refused() {
    let mut body = vec![17, 0, 0, 0, 0];
    let mut deflate = DeflateEncoder::new(&mut body, Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..80).for_each(|_| deflate.write_all(&zeros).expect("memory"));
    deflate.finish().expect("memory");
    let mut bytes = Vec::new();
    put_frame(&mut bytes, &body);
    assert!(bytes.len() < 200_000);
    assert_eq!(Reader::new(&bytes[..]).next_chunk(), Err(OrderError::OutOfRange("size")));
}
