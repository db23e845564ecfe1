//! A merged trace contains the calls of all ranks unchanged, in whatever order it was merged.
//! Damaged bytes are refused or read, without a panic and in bounded time.

mod common;

use common::tasks_of;
use proptest::prelude::*;
use refrain_signature::tasktrace::TaskTrace;
use refrain_structure::merged::Merged;
use refrain_structure::{read, write};
use refrain_testing::program::compare::{Names, compare};
use refrain_testing::program::{Op, Process, programs};

/// A simulated rank and the tasks that were encoded from it.
struct Rank {
    process: Process,
    tasks: Vec<(u32, TaskTrace)>,
}

fn ranks(program: &[Op], size: u32) -> Vec<Rank> {
    (0..size).map(|rank| rank_of(program, rank, size)).collect()
}

fn rank_of(program: &[Op], rank: u32, size: u32) -> Rank {
    let process = Process::run(program, rank, size);
    let tasks = tasks_of(&process);
    Rank { process, tasks }
}

/// One trace for each task of each rank.
fn singles(ranks: &[Rank]) -> Vec<Merged> {
    let tasks = |(rank, of): (u32, &Rank)| {
        of.tasks.iter().map(move |(t, task)| Merged::of(rank, *t, task.clone())).collect::<Vec<_>>()
    };
    (0..).zip(ranks).flat_map(tasks).collect()
}

/// Merges traces pairwise, any two at a time.
fn merge(mut traces: Vec<Merged>, order: &[u16]) -> Merged {
    let mut order = order.iter().cycle().map(|n| usize::from(*n));
    let mut any = |n: usize| order.next().unwrap_or(0) % n;
    while traces.len() > 1 {
        let one = traces.swap_remove(any(traces.len()));
        let other = traces.swap_remove(any(traces.len()));
        traces.push(one.merge(other));
    }
    traces.pop().unwrap_or_default()
}

/// Writes a trace and reads it again.
fn through_bytes(merged: &Merged) -> Merged {
    let streams = write::write(merged);
    let mut again = read::structure(&streams.structure).expect("the structure is well-formed");
    for (rank, thread, bytes) in &streams.residues {
        let residue = read::residue(bytes).expect("the residue is well-formed");
        let mut groups = again.groups.iter_mut();
        let group = groups.find(|g| g.thread == *thread && g.ranks.contains(*rank));
        group.expect("the rank is in a group").residues.insert(*rank, residue);
    }
    again
}

/// A task as bytes, without the fields that a merged trace does not store per task.
fn bare(task: &TaskTrace) -> Vec<u8> {
    let mut task = task.clone();
    task.functions.clear();
    task.lost = 0;
    task.signatures.iter_mut().for_each(|s| s.stats = Default::default());
    let mut bytes = Vec::new();
    task.put(&mut bytes);
    bytes
}

fn settings() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// A structure as bytes.
fn structure(program: &[Op], size: u32) -> Vec<u8> {
    write::write(&Merged::merge_all(singles(&ranks(program, size)))).structure
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn a_merged_trace_has_the_calls_of_all_ranks(
        program in programs(80), size in 1u32..12, order in proptest::collection::vec(any::<u16>(), 1..40),
    ) {
        let ranks = ranks(&program, size);
        let merged = through_bytes(&merge(singles(&ranks), &order));
        for (number, rank) in (0..).zip(&ranks) {
            let threads: Vec<u32> = rank.tasks.iter().map(|(thread, _)| *thread).collect();
            prop_assert_eq!(merged.threads(number), threads);
            let mut names = Names::default();
            for (thread, task) in &rank.tasks {
                let again = merged.task(number, *thread).expect("the rank has this task");
                prop_assert_eq!(bare(&again), bare(task), "rank {} thread {}", number, thread);
                compare(&rank.process, *thread as usize, &again, &mut names)
                    .map_err(|what| TestCaseError::fail(format!("rank {number}: {what}")))?;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..settings() })]

    #[test]
    fn a_damaged_structure_is_refused_or_read(
        program in programs(24), size in 1u32..6,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4), length: u16,
    ) {
        let mut bytes = structure(&program, size);
        for (at, byte) in &changes {
            let at = usize::from(*at) % bytes.len();
            bytes[at] = *byte;
        }
        if length < 16384 {
            bytes.truncate(usize::from(length) % (bytes.len() + 1));
        }
        if let Ok(merged) = read::structure(&bytes) {
            for group in &merged.groups {
                // A damaged structure may contain millions of ranks.
                for rank in group.ranks.iter().take(8) {
                    let _ = merged.task(rank, group.thread);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(mut bytes: Vec<u8>) {
        let _ = read::structure(&bytes);
        let _ = read::residue(&bytes);
        // With a valid version in front, the rest is parsed.
        bytes.insert(0, 1);
        let _ = read::structure(&bytes);
    }
}
