//! Input: the bodies of the frames of a record by the clock method, each preceded by its length (`u16`). The target
//! adds valid checksums, and compresses the chunks whose heads say that they are compressed. It reads the record to
//! the end, summarises it, and replays it with a program that receives what the record says.

#![no_main]

use flate2::Compression;
use flate2::write::DeflateEncoder;
use libfuzzer_sys::fuzz_target;
use refrain_order::clock::chunk::Head;
use refrain_order::clock::read::Reader;
use refrain_order::clock::{Note, Replayer, summary};
use refrain_order::frame::put_frame;
use refrain_order::{Call, Kind, Post};
use std::io::Write as _;

fuzz_target!(|bytes: &[u8]| {
    let (mut frames, mut rest) = (Vec::new(), bytes);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let Some((body, behind)) = behind.split_at_checked(u16::from_le_bytes(*length).into())
        else {
            break;
        };
        put_frame(&mut frames, &compressed(body));
        rest = behind;
    }
    let mut reader = Reader::new(&frames[..]);
    while let Ok(Some(_)) = reader.next_chunk() {}
    let _ = summary::summary(&frames);
    replay(frames);
});

/// The body with its chunk compressed.
fn compressed(body: &[u8]) -> Vec<u8> {
    let Ok(Some((_, chunk))) = Head::take(body) else { return body.to_vec() };
    let head = body[..body.len() - chunk.len()].to_vec();
    let mut deflate = DeflateEncoder::new(head, Compression::fast());
    deflate.write_all(chunk).and_then(|()| deflate.finish()).expect("memory")
}

/// Replays the record: posts receives, makes calls and delivers messages.
fn replay(frames: Vec<u8>) {
    let Ok(mut replayer) = Replayer::new(frames, 0, 3) else { return };
    for n in 0..100u64 {
        let (stream, sender) = ((n % 3) as u32, (n % 4) as u32);
        let (source, tag) = (sender as i32, n as i32 % 5);
        replayer.receive_note(sender, Note::Sent { clock: n * 2, communicator: 0, source, tag });
        let _ = replayer.value(stream, 1);
        let post = Post { site: n % 4, communicator: 0, source: None, tag: Some(4) };
        let Ok(ticket) = replayer.receive(stream, &post) else { continue };
        for kind in [Kind::Waitsome, Kind::Recv, Kind::Testany, Kind::Probe] {
            let _ = replayer.call(stream, &Call { kind, site: n % 3, count: 1 }, &[Some(ticket)]);
        }
        while replayer.next_note().is_some() {}
    }
    let _ = replayer.finish();
}
