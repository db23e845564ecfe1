//! Folders of parts as a run leaves them, and traces made of them: small, with an example of everything.

use crate::program::{Op, Process, THREADS};
use crate::random::Random;
use crate::records::FAMILY;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_format::part::{self, PartHeader, flags};
use refrain_format::state;
use refrain_signature::cells::{put_list, put_unsigned};
use refrain_trace::Meta;
use refrain_trace::assemble::{Keep, assemble};
use refrain_trace::form::Structure;
use refrain_trace::steps::Steps;
use std::mem::offset_of;
use std::path::Path;

/// A program of up to `steps` steps, some of them repeated.
pub fn program(random: &mut Random, steps: usize) -> Vec<Op> {
    let mut all = Vec::new();
    while all.len() < steps {
        let op = |random: &mut Random| Op {
            thread: random.byte(),
            what: random.byte(),
            how: [random.byte(), random.byte(), random.byte()],
        };
        let part: Vec<Op> = (0..1 + random.below(6)).map(|_| op(random)).collect();
        all.extend(part.repeat(1 + random.below(5)));
    }
    all
}

/// Writes the parts of a program's ranks to a folder. Every other rank also has a state with the first half of
/// its records. The log has these records too only if `keep` says so.
pub fn leave_parts(folder: &Path, program: &[Op], size: u32, keep: Keep) {
    for rank in 0..size {
        let process = Process::run(program, rank, size);
        let half = 1000 + (process.now() - 1000) / 2;
        let has_state = rank % 2 == 1;
        let ends: Vec<usize> = process.threads.iter().map(|t| t.log.end_of(half)).collect();
        for (thread, of) in process.threads.iter().enumerate().take(THREADS) {
            if of.log.bytes.is_empty() {
                continue;
            }
            let base = if has_state && keep == Keep::Trace { ends[thread] } else { 0 };
            let part = Part { rank, size, thread: thread as u32, base, log: &of.log.bytes };
            let name = format!("{rank}.{thread}.{}", part::EXTENSION);
            std::fs::write(folder.join(name), part.to_bytes()).unwrap();
        }
        if has_state {
            let name = state::file_name(HOST, pid(rank), process_number(rank));
            std::fs::write(folder.join(name), state_of(&process, &ends)).unwrap();
        }
    }
}

/// Makes a trace of a folder of parts.
pub fn merge(folder: &Path, trace: &Path, keep: Keep) -> Result<Meta, String> {
    let meta = Meta {
        refrain: "0.0.0".into(),
        command: vec!["mpirun".into(), "./a.out".into()],
        exit_code: Some(3),
        ..Meta::default()
    };
    assemble(folder, trace, keep, Structure::Grammar, meta, &Steps::default())
        .map(|(meta, _)| meta)
        .map_err(|error| error.to_string())
}

const HOST: &str = "node";

fn pid(rank: u32) -> i32 {
    4000 + rank as i32
}

fn process_number(rank: u32) -> u64 {
    1_700_000_000_000_000_000 + u64::from(rank)
}

fn state_of(process: &Process, ends: &[usize]) -> Vec<u8> {
    let mut encoder = Encoder::new(FAMILY);
    let halves = (0..).zip(&process.threads).zip(ends);
    let batches: Vec<Batch<'_>> = halves
        .map(|((thread, of), end)| Batch { thread, records: &of.log.bytes[..*end] })
        .collect();
    assert_eq!(encoder.feed(&batches), []);
    let mut bytes = vec![0; state::HEAD];
    put_list(&mut bytes, ends.iter().enumerate(), |out, (thread, end)| {
        put_unsigned(out, thread as u64);
        put_unsigned(out, *end as u64);
    });
    encoder.save(&mut bytes);
    state::seal(&mut bytes);
    bytes
}

struct Part<'a> {
    rank: u32,
    size: u32,
    thread: u32,
    base: usize,
    log: &'a [u8],
}

impl Part<'_> {
    /// Half of the log is in the body, half in the window.
    fn to_bytes(&self) -> Vec<u8> {
        let log = &self.log[self.base..];
        let (body, window) = log.split_at(log.len() / 2);
        let mut bytes = vec![0; part::BODY];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(offset_of!(PartHeader, magic), &part::MAGIC);
        put(offset_of!(PartHeader, version), &part::VERSION.to_le_bytes());
        put(offset_of!(PartHeader, family), &FAMILY.code().to_le_bytes());
        put(offset_of!(PartHeader, rank), &self.rank.to_le_bytes());
        put(offset_of!(PartHeader, size), &self.size.to_le_bytes());
        put(offset_of!(PartHeader, pid), &pid(self.rank).to_le_bytes());
        put(offset_of!(PartHeader, thread), &self.thread.to_le_bytes());
        put(offset_of!(PartHeader, flags), &flags::INITIALIZED.to_le_bytes());
        put(offset_of!(PartHeader, process), &process_number(self.rank).to_le_bytes());
        put(offset_of!(PartHeader, last_ticks), &9_000_000_u64.to_le_bytes());
        put(offset_of!(PartHeader, last_nanos), &3_000_000_u64.to_le_bytes());
        put(offset_of!(PartHeader, appended), &(body.len() as u64).to_le_bytes());
        put(offset_of!(PartHeader, base), &(self.base as u64).to_le_bytes());
        put(offset_of!(PartHeader, host), HOST.as_bytes());
        put(offset_of!(PartHeader, program), b"/home/user/a.out");
        put(offset_of!(PartHeader, library), b"MPICH Version: 5.0.2\nMPICH Release date: -");
        let end = (self.base + body.len()) as u64;
        put(part::HEADER_BYTES, &end.to_le_bytes());
        put(part::HEADER_BYTES + part::WINDOW_HEAD, window);
        bytes.extend(body);
        bytes
    }
}
