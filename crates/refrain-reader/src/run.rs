//! The recorded run: facts that all kinds of files have.

use crate::meta::{Ended, Meta, StreamMeta, why_log_stopped};
use crate::orders::Orders;
use refrain_memtrace::process::Ended as MemoryEnded;
use refrain_memtrace::trace::Facts;

/// How a program was run, and how much of the run was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The version of Refrain that wrote the file.
    pub refrain: String,
    /// The command, as it was given.
    pub command: Vec<String>,
    /// The exit code of the command, if it had ended.
    pub exit_code: Option<i32>,
    /// Nanoseconds since 1970 when the first process began.
    pub began: Option<u64>,
    /// Nanoseconds since 1970 when the last process was last seen.
    pub last_seen: Option<u64>,
    /// The options that say what to record: `--functions Send,Recv`.
    pub selected: Vec<String>,
    /// What could not be read, and why.
    pub lost: Vec<String>,
    /// The processes, by rank.
    pub processes: Vec<Process>,
}

/// A process of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its rank in `MPI_COMM_WORLD`; none if it never had one.
    pub rank: Option<u32>,
    /// The size of `MPI_COMM_WORLD`, if it is known.
    pub size: Option<u32>,
    /// The process number.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// The program's file.
    pub program: String,
    /// The MPI library, as it describes itself; empty if the file does not have it.
    pub library: String,
    /// How many of its threads are recorded.
    pub threads: usize,
    /// Why its record is truncated; none if it is complete.
    pub truncated: Option<String>,
}

impl Run {
    /// How many ranks the program had; if that is not known, how many are recorded.
    pub fn ranks(&self) -> usize {
        let size = self.processes.iter().filter_map(|process| process.size).max();
        size.map_or(self.processes.len(), |size| size as usize)
    }

    /// Whether the record of every process is complete, and nothing was lost.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.processes.iter().all(|process| process.truncated.is_none())
    }

    pub(crate) fn of_calls(meta: &Meta) -> Run {
        let process = |streams: &[usize]| {
            let of = |stream: &usize| &meta.streams[*stream];
            let first = of(&streams[0]);
            let truncated = |stream: &StreamMeta| match &stream.ended {
                Ended::Finalized | Ended::Aborted(_) => None,
                Ended::Unfinalized => Some("it ended without MPI_Finalize".to_owned()),
                Ended::LogStopped(errno) => {
                    Some(format!("its log stopped: {}", why_log_stopped(*errno)))
                }
                Ended::Running => Some("it was still running".to_owned()),
            };
            Process {
                rank: u32::try_from(first.rank).ok(),
                size: u32::try_from(first.size).ok(),
                pid: first.pid as u32,
                host: first.host.clone(),
                program: first.program.clone(),
                library: first.library.clone(),
                threads: streams.len(),
                truncated: streams.iter().map(of).find_map(truncated),
            }
        };
        Run {
            refrain: meta.refrain.clone(),
            command: meta.command.clone(),
            exit_code: meta.exit_code,
            began: Some(meta.time.0),
            last_seen: Some(meta.time.1),
            selected: meta.selected.clone(),
            lost: meta.lost.clone(),
            processes: meta.processes().iter().map(|p| process(&p.streams)).collect(),
        }
    }

    pub(crate) fn of_orders(orders: &Orders) -> Run {
        let process = |rank: &crate::orders::RankOrder| Process {
            rank: Some(rank.rank),
            size: Some(rank.size).filter(|size| *size > 0),
            pid: rank.pid,
            host: rank.host.clone(),
            program: rank.program.clone(),
            library: rank.library.clone(),
            threads: rank.threads.len().max(1),
            truncated: match (&rank.why_cut, rank.is_whole()) {
                (Some(why), _) => Some(why.clone()),
                (None, true) => None,
                (None, false) => Some("it ended without MPI_Finalize".to_owned()),
            },
        };
        Run {
            refrain: orders.refrain.clone(),
            command: orders.command.clone(),
            exit_code: orders.exit_code,
            began: Some(orders.time),
            processes: orders.ranks.iter().map(process).collect(),
            ..Run::default()
        }
    }

    pub(crate) fn of_memory(facts: &Facts) -> Run {
        let process = |process: &refrain_memtrace::process::ProcessFacts| Process {
            rank: process.rank,
            pid: process.pid,
            host: process.host.clone(),
            program: process.program.clone(),
            threads: process.threads as usize,
            truncated: match (process.lost.as_str(), process.ended) {
                ("", MemoryEnded::Exited) => None,
                ("", MemoryEnded::Died) => Some("it was killed".to_owned()),
                ("", MemoryEnded::Running) => Some("it was still running".to_owned()),
                (why, _) => Some(why.to_owned()),
            },
            ..Process::default()
        };
        Run {
            refrain: facts.refrain.clone(),
            command: facts.command.clone(),
            exit_code: facts.exit_code,
            began: facts.processes.iter().map(|process| process.time.0).min(),
            last_seen: facts.processes.iter().map(|process| process.time.1).max(),
            selected: facts.selected.clone(),
            lost: facts.lost.clone(),
            processes: facts.processes.iter().map(process).collect(),
        }
    }
}
