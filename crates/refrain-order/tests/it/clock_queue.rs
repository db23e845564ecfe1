//! The queue with real threads, and the encoder thread. `scripts/loom.sh` tests the queue under all memory orders.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refrain_order::clock::Recorder;
use refrain_order::clock::background::Background;
use refrain_order::clock::queue::{Refused, queue};
use refrain_order::clock::read::Reader;
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording, Stamp,
};

#[test]
fn all_elements_are_taken_in_order() {
    for capacity in [1, 2, 64] {
        let (mut sender, mut receiver) = queue(capacity);
        let thread = std::thread::spawn(move || {
            for number in 0..200_000u64 {
                // An element that must be freed exactly once.
                sender.put(Box::new(number)).expect("there is a receiver");
            }
        });
        let mut expected = 0;
        while let Some(number) = receiver.take() {
            assert_eq!(*number, expected);
            expected += 1;
        }
        assert_eq!(expected, 200_000);
        thread.join().expect("the sender ends well");
    }
}

#[test]
fn a_full_queue_refuses_elements_and_remaining_elements_are_dropped() {
    let counted = Arc::new(());
    let (mut sender, mut receiver) = queue(4);
    for _ in 0..4 {
        assert_eq!(sender.offer(counted.clone()), Ok(()));
    }
    assert!(matches!(sender.offer(counted.clone()), Err(Refused::Full(_))));
    assert!(receiver.poll().is_some());
    assert_eq!(sender.offer(counted.clone()), Ok(()));
    drop(receiver);
    assert!(matches!(sender.offer(counted.clone()), Err(Refused::Closed(_))));
    assert_eq!(sender.put(counted.clone()).map_err(|_| ()), Err(()));
    drop(sender);
    assert_eq!(Arc::strong_count(&counted), 1);
}

/// A file in memory that the test can read.
#[derive(Clone, Default)]
struct Shared {
    bytes: Arc<Mutex<Vec<u8>>>,
    slow: bool,
    capacity: Option<usize>,
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.slow {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut file = self.bytes.lock().expect("no thread panics");
        if self.capacity.is_some_and(|capacity| file.len() + bytes.len() > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn record_receives(recorder: &mut impl Recording, receives: u64) {
    let call = Call { kind: Kind::Testsome, site: 5, count: 1 };
    for n in 0..receives {
        let post = Post { site: 1, communicator: 0, source: None, tag: Some(3) };
        let ticket = recorder.post(0, &post);
        if n % 3 == 0 {
            recorder.failed(0, Kind::Testsome, 5);
        }
        let sender = (n / 2 * 7 % 5) as u32;
        let stamp = Stamp { sender, sequence: n, clock: n + (n * n % 11) };
        let match_result = MatchResult::Matched(Envelope { source: sender as i32, tag: 3 });
        let finished = [Finished { ticket, match_result, stamp: Some(stamp) }];
        recorder.completed(0, &call, &[Some(ticket)], Completed::These(&[0]), &finished);
    }
}

#[test]
fn a_slow_file_makes_the_program_wait_and_no_event_is_lost() {
    let receives = 100_000;
    let mut inline = Recorder::new(0);
    let mut expected = Vec::new();
    record_receives(&mut inline, receives);
    inline.finish(&mut expected);
    let file = Shared { slow: true, ..Shared::default() };
    let background = Background::start(file.clone()).expect("a thread");
    let mut recorder = Recorder::with(0, background);
    record_receives(&mut recorder, receives);
    let statistics = recorder.close().finish().expect("it can be written");
    assert_eq!(statistics.messages, receives);
    assert!(statistics.chunks > 5);
    assert_eq!(*file.bytes.lock().expect("no thread panics"), expected);
}

#[test]
fn a_full_disk_truncates_the_record_and_the_program_continues() {
    let mut inline = Recorder::new(0);
    let mut whole = Vec::new();
    record_receives(&mut inline, 200_000);
    inline.finish(&mut whole);
    let file = Shared { capacity: Some(whole.len() / 2), ..Shared::default() };
    let mut recorder = Recorder::with(0, Background::start(file.clone()).expect("a thread"));
    record_receives(&mut recorder, 200_000);
    assert!(recorder.close().finish().is_err());
    // The chunks that were written can be read.
    let bytes = file.bytes.lock().expect("no thread panics").clone();
    let mut reader = Reader::new(&bytes[..]);
    let mut chunks = 0;
    while reader.next_chunk().expect("it is whole").is_some() {
        assert!(!reader.known().last);
        chunks += 1;
    }
    assert!(chunks > 0 && reader.truncated().is_none());
}
