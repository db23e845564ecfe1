//! Input: the bodies of the frames of a record by the causal method, each preceded by its length (`u16`). The target
//! adds valid checksums, reads the record to the end, and replays it with a program that makes the recorded calls.
//! It also reads the last body as the window of a killed process, after the other frames.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_order::causal::read::{Reader, Which};
use refrain_order::causal::{log, races, summary};
use refrain_order::frame::put_frame;
use refrain_order::{Call, Frames, Moment, Post, Recorder, Replayer};

/// How many moments of each stream are read.
const MOMENTS: usize = 2000;
const STREAMS: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let (mut frames, mut rest, mut last) = (Vec::new(), bytes, &[][..]);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let Some((body, behind)) = behind.split_at_checked(u16::from_le_bytes(*length).into())
        else {
            break;
        };
        put_frame(&mut frames, body);
        (rest, last) = (behind, body);
    }
    let order = Frames::read(frames.clone());
    let _ = summary::summary(&order);
    let _ = races::races(&order, 64);
    for stream in 0..order.streams().len().min(STREAMS) {
        let read = |which| Reader::new(&order, stream).moments(which).unwrap_or_default();
        replay(&order, stream as u32, &read(Which::Receives), &read(Which::Calls));
    }
    let mut recorder = Recorder::resume(&order);
    let _ = log::apply(log::words(last), &mut recorder);
    let pending = recorder.seal_settled(&mut frames);
    assert!(pending.len() <= 512);
    recorder.finish(&mut frames);
});

/// Replays the recorded receives and calls, one receive at a time.
fn replay(order: &Frames, stream: u32, receives: &[Moment], calls: &[Moment]) {
    let Ok(mut replayer) = Replayer::new(order.clone()) else { return };
    let mut receives = receives.iter();
    for call in calls.iter().take(MOMENTS) {
        if let Some(Moment::Receive { site, communicator, any, .. }) = receives.next() {
            let [source, tag] = any.map(|any| (!any).then_some(0));
            let _ = replayer
                .post(stream, &Post { site: *site, communicator: *communicator, source, tag });
        }
        if let Moment::Call { kind, site, count, .. } = call {
            let _ = replayer.call(stream, &Call { kind: *kind, site: *site, count: *count });
        }
    }
    let _ = replayer.finish();
}
