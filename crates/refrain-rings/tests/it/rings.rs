//! What one side writes the other reads, whole and in order, whichever of them dies.

use proptest::prelude::*;
use refrain_rings::consumer::{Program, SharedMemory};
use refrain_rings::layout::*;
use refrain_rings::producer::{Gone, Ledger, Ring};
use refrain_rings::record::{NO_CONTEXT, Record, Reference, pc, references, split_pc};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A memory file with a control page, a ledger and one ring, mapped.
struct Shared {
    file: File,
    memory: *mut u8,
    chunk_words: usize,
    chunks: usize,
}

const SMALL_LEDGER: usize = 1 << 16;
const RING_AT: usize = CONTROL_BYTES + SMALL_LEDGER;

impl Shared {
    fn new(chunk_words: usize, chunks: usize) -> Self {
        let bytes = RING_AT + RING_HEAD_BYTES + 8 * chunk_words * chunks;
        // SAFETY: a new descriptor, and a new mapping of it.
        unsafe {
            let file = File::from_raw_fd(libc::memfd_create(c"rings".as_ptr(), libc::MFD_CLOEXEC));
            file.set_len(bytes as u64).unwrap();
            let all = libc::PROT_READ | libc::PROT_WRITE;
            let shared = libc::MAP_SHARED;
            let memory = libc::mmap(std::ptr::null_mut(), bytes, all, shared, file.as_raw_fd(), 0);
            assert_ne!(memory, libc::MAP_FAILED);
            Self { file, memory: memory.cast(), chunk_words, chunks }
        }
    }

    /// The program's side, of a process of that number.
    fn producer(&self) -> (Ledger, Ring) {
        // SAFETY: the memory is of that size, and stays mapped to the end of the test.
        unsafe {
            let ledger = Ledger::create(self.memory, SMALL_LEDGER, std::process::id(), COMPILED);
            let ring = Ring::create(self.memory.add(RING_AT), 0, self.chunk_words, self.chunks);
            (ledger, ring)
        }
    }

    fn shared_file(&self) -> SharedMemory {
        SharedMemory::File(Arc::new(self.file.try_clone().unwrap()))
    }

    fn consumer(&self) -> (Program, refrain_rings::consumer::Ring) {
        let program = Program::open(self.shared_file()).unwrap();
        let bytes = RING_HEAD_BYTES + 8 * self.chunk_words * self.chunks;
        let ring = program.ring(RING_AT as u64, bytes as u64).unwrap();
        (program, ring)
    }
}

/// Takes everything until the program has ended.
fn drain(program: &mut Program, ring: &mut refrain_rings::consumer::Ring) -> (Vec<u64>, u64) {
    let (mut words, mut records) = (Vec::new(), 0);
    loop {
        let ended = program.control().ended.load(Ordering::SeqCst) != 0;
        let until = program.written();
        while let Some((_, bytes)) = program.peek(until).unwrap() {
            program.advance(bytes);
            records += 1;
        }
        let waiting = ring.waiting();
        for _ in 0..waiting {
            assert!(ring.ledger_of(0) <= program.written());
            ring.take(&mut words).unwrap();
        }
        if waiting == 0 && ended && until == program.written() {
            ring.take_rest(&mut words).unwrap();
            program.set_state(DONE);
            return (words, records);
        }
        if waiting == 0 {
            program.sleep(10, || ring.waiting() == 0 && program.written() == until);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_word_arrives_in_order(
        chunk_words in 8usize..64,
        chunks in prop::sample::select(vec![2usize, 4, 8]),
        lengths in prop::collection::vec((1usize..8, any::<bool>(), 0u8..4), 0..3000),
    ) {
        let shared = Shared::new(chunk_words, chunks);
        let (ledger, mut ring) = shared.producer();
        let (mut program, mut taker) = shared.consumer();
        program.control().compressor_pid.store(std::process::id(), Ordering::SeqCst);
        program.set_state(RUNNING);
        let expected: Vec<u64> = (0..lengths.iter().map(|l| l.0 as u64).sum()).collect();
        let announced = lengths.iter().filter(|l| l.2 == 0).count() as u64;
        let (words, records) = std::thread::scope(|scope| {
            let taken = scope.spawn(|| drain(&mut program, &mut taker));
            let mut next = 0;
            for (length, publishes, announces) in &lengths {
                let record: Vec<u64> = (next..).take(*length).collect();
                next += *length as u64;
                ring.push(&record, &ledger).unwrap();
                if *publishes {
                    ring.publish(&ledger).unwrap();
                }
                if *announces == 0 {
                    ledger.append(&Record::ThreadEnd { thread: 7 }).unwrap();
                }
            }
            ledger.end().unwrap();
            taken.join().unwrap()
        });
        prop_assert_eq!(words, expected);
        prop_assert_eq!(records, announced);
    }

    #[test]
    fn records_come_back(
        numbers in any::<(u32, u32, u64, u64)>(),
        text in prop::collection::vec(any::<u8>(), 0..100),
        id in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let (a, b, c, d) = numbers;
        let refs: Vec<u8> =
            text.iter().flat_map(|t| Reference { pc: c, size: u32::from(*t), kind: 1 }.to_bytes()).collect();
        for record in [
            Record::Module { module: a, is_main: b % 2 == 0, base: c, size: d, path: &text, build_id: &id },
            Record::Block { block: a, references: &refs },
            Record::Context { block: a, parent: NO_CONTEXT, call: c, function: d },
            Record::Segment { kind: a, owner: b, base: c, size: d },
            Record::Thread { thread: a, tid: b, ring: c, ring_bytes: d },
            Record::ThreadEnd { thread: a },
        ] {
            let (fixed, length, tails) = record.encode();
            let mut bytes = [&fixed[..length], tails[0], tails[1]].concat();
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            prop_assert_eq!(Record::length(&bytes), Some(bytes.len()));
            prop_assert_eq!(Record::decode(&bytes), Some(record));
            for end in 0..bytes.len().min(60) {
                let _ = Record::decode(&bytes[..end]);
            }
        }
        prop_assert_eq!(references(&refs).len(), text.len());
        prop_assert_eq!(split_pc(pc(a & 0xffff, c >> 16)), (a & 0xffff, c >> 16));
    }
}

/// Runs a function in a process of its own.
fn in_child(what: impl FnOnce()) -> i32 {
    // SAFETY: the child calls nothing but `what`, which takes no lock of the parent's threads.
    match unsafe { libc::fork() } {
        0 => {
            what();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        pid => pid,
    }
}

fn kill(pid: i32) {
    let mut status = 0;
    // SAFETY: the child is ours.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &mut status, 0);
    }
}

/// A page of memory shared with children.
fn counter() -> &'static AtomicU64 {
    // SAFETY: a new mapping of a page, never unmapped.
    unsafe {
        let all = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, all, shared, -1, 0);
        &*page.cast()
    }
}

#[test]
fn a_killed_program_has_lost_nothing() {
    for round in 0..30 {
        let shared = Shared::new(16 + round, 4);
        let done = counter();
        let child = in_child(|| {
            let (ledger, mut ring) = shared.producer();
            done.store(1, Ordering::SeqCst);
            for n in 1.. {
                // Three words, of which a torn record would show.
                if ring.push(&[n, !n, n], &ledger).is_err() {
                    return;
                }
                done.store(n, Ordering::SeqCst);
            }
        });
        while done.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let (_program, mut ring) = shared.consumer();
        let mut words = Vec::new();
        let until = Instant::now() + Duration::from_millis(1 + u64::from(round as u8) / 3);
        while Instant::now() < until {
            if ring.waiting() > 0 {
                ring.take(&mut words).unwrap();
            }
        }
        kill(child);
        while ring.waiting() > 0 {
            ring.take(&mut words).unwrap();
        }
        ring.take_rest(&mut words).unwrap();
        let written = done.load(Ordering::SeqCst);
        assert!(words.len() as u64 / 3 >= written, "{} of {written}", words.len() / 3);
        assert!(words.len() as u64 / 3 <= written + 1);
        for (n, record) in (1..).zip(words.chunks(3)) {
            assert_eq!(record, [n, !n, n]);
        }
    }
}

#[test]
fn a_program_whose_compressor_is_killed_stops_recording_and_continues() {
    let shared = Shared::new(64, 2);
    let (ledger, mut ring) = shared.producer();
    let child = in_child(|| {
        let (program, mut ring) = shared.consumer();
        program.control().compressor_pid.store(std::process::id(), Ordering::SeqCst);
        program.set_state(RUNNING);
        let mut words = Vec::new();
        for _ in 0..3 {
            while ring.waiting() == 0 {
                std::thread::yield_now();
            }
            ring.take(&mut words).unwrap();
        }
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    // It takes three parts and then no more: the ring fills up.
    let waits = std::thread::spawn(move || {
        let mut pushed = 0u64;
        let end = loop {
            match ring.push(&[pushed, pushed], &ledger) {
                Ok(()) => pushed += 1,
                Err(gone) => break gone,
            }
        };
        (end, pushed, ledger.append(&Record::ThreadEnd { thread: 0 }), ledger.end())
    });
    // What both sides have written says when: all three parts are taken, and the program waits for room.
    let (_, looking) = shared.consumer();
    let head = looking.head();
    while head.consumed.load(Ordering::SeqCst) < 3 || head.waits.load(Ordering::SeqCst) == 0 {
        assert!(!waits.is_finished(), "back pressure, not loss");
        std::thread::yield_now();
    }
    assert!(!waits.is_finished(), "back pressure, not loss");
    kill(child);
    // A program that is not told waits for ever.
    let (end, pushed, _, ended) = waits.join().unwrap();
    assert_eq!((end, ended), (Gone, Err(Gone)));
    assert!((64 / 2 * 3..=64 / 2 * 5).contains(&pushed), "{pushed}");
}

#[test]
fn what_is_no_ring_is_refused() {
    let shared = Shared::new(64, 2);
    let (_, mut taker) = {
        // SAFETY: as for `Shared::producer`.
        let _ = unsafe { Ledger::create(shared.memory, SMALL_LEDGER, 1, DYNAMORIO) };
        shared.consumer()
    };
    let head = taker.head();
    head.published.store(1, Ordering::SeqCst);
    head.parts[0].start.store(u64::MAX, Ordering::SeqCst);
    head.parts[0].words.store(2, Ordering::SeqCst);
    assert!(taker.take(&mut Vec::new()).is_err());
    let (mut program, _) = shared.consumer();
    assert!(program.ring(0, u64::MAX).is_err());
    assert!(program.ring(RING_AT as u64, 1 << 30).is_err());
    program.control().ledger_written.store(64, Ordering::SeqCst);
    assert!(program.peek(64).is_err(), "a record of no length");
    program.control().magic.store(0, Ordering::SeqCst);
    assert!(Program::open(shared.shared_file()).is_err());
}

/// A System V segment serves as well as a memfd, and is gone when nobody has it attached.
#[test]
fn a_segment_is_read_like_a_file() {
    let bytes = CONTROL_BYTES + SMALL_LEDGER;
    // SAFETY: a new segment, attached at an address that the kernel chooses.
    let (segment, memory) = unsafe {
        let segment = libc::shmget(libc::IPC_PRIVATE, bytes, libc::IPC_CREAT | 0o600);
        let memory = libc::shmat(segment, std::ptr::null(), 0);
        assert_ne!(memory as isize, -1);
        libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
        (segment, memory)
    };
    // SAFETY: the memory is of that size, and attached until the ledger is used no more.
    let ledger = unsafe { Ledger::create(memory.cast(), SMALL_LEDGER, 1, DYNAMORIO) };
    ledger.append(&Record::ThreadEnd { thread: 7 }).unwrap();
    let mut program = Program::open(SharedMemory::attach(segment).unwrap()).unwrap();
    let until = program.written();
    let (record, _) = program.peek(until).unwrap().expect("a record");
    assert!(matches!(record, Record::ThreadEnd { thread: 7 }), "{record:?}");
    assert!(program.ring(0, 1 << 20).is_err(), "past the end of the segment");
    drop(program);
    // SAFETY: attached above.
    unsafe { libc::shmdt(memory) };
    assert!(SharedMemory::attach(segment).is_err(), "the segment is still there");
}
