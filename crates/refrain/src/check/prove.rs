//! `--prove`: runs the program again so that a potential error happens, if it can.
//!
//! | finding | what is forced |
//! |---|---|
//! | potential deadlock | standard sends are synchronous: MPI buffers nothing |
//! | message race | the send whose message came first is later, so that another message comes first |
//!
//! A finding is proven if the program then hangs in the same calls, or fails.

use super::run::{Manner, traced};
use anyhow::Result;
use refrain_check::{Class, Finding, Options, Place, check};
use refrain_reader::CallTrace;
use serde::Serialize;
use std::ffi::OsString;

/// Milliseconds by which a send is late: less than the watchdog takes to call a job stuck.
const LATE: u64 = 400;

/// So many races are forced, each in a run of its own.
const MOST_RACES: usize = 8;

/// What came of forcing a finding.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// Whether the program failed because of it.
    pub proven: bool,
    /// What was forced, and what the program did.
    pub what: String,
}

/// What a forced run did.
struct Forced {
    hung: bool,
    succeeded: bool,
    deadlocks: Vec<Finding>,
}

/// Forces each finding that is potential. The proofs are in the order of the findings.
pub fn prove(
    command: &[OsString],
    trace: &CallTrace,
    found: &[Finding],
    patience: u64,
) -> Result<Vec<Option<Proof>>> {
    let run = |force: &str| -> Result<Forced> {
        let run = traced(command, Manner { output: None, patience, force: Some(force) })?;
        let all = check(&run.opened.trace, Options::default())?;
        let deadlocks = all.into_iter().filter(|finding| finding.class == Class::Deadlock);
        let (hung, succeeded) = (run.hung.is_some(), run.succeeded);
        Ok(Forced { hung, succeeded, deadlocks: deadlocks.collect() })
    };
    let mut synchronous = None;
    let (mut proofs, mut races) = (Vec::new(), 0);
    for finding in found {
        proofs.push(match finding.class {
            Class::PotentialDeadlock => {
                if synchronous.is_none() {
                    say!("refrain: runs the program with synchronous sends");
                    synchronous = Some(run("synchronous")?);
                }
                synchronous.as_ref().map(|forced| of_sends(finding, forced))
            }
            Class::MessageRace => {
                races += 1;
                let late = late_send(trace, finding)?.filter(|_| races <= MOST_RACES);
                match late {
                    Some((force, words)) => {
                        say!("refrain: runs the program with a late send: {words}");
                        Some(of_race(&words, &run(&force)?))
                    }
                    None => None,
                }
            }
            _ => None,
        });
    }
    Ok(proofs)
}

fn of_sends(finding: &Finding, forced: &Forced) -> Proof {
    let is_in = |place: &Place| {
        finding.places.iter().any(|own| (own.function, &own.site) == (place.function, &place.site))
    };
    let is_same = forced.deadlocks.iter().any(|deadlock| deadlock.places.iter().any(is_in));
    let what = match (is_same, forced.hung, forced.succeeded) {
        (true, true, _) => "the program hangs in these calls",
        (false, true, _) => "the program hangs in other calls, before it comes to these",
        (_, false, false) => "the program fails, and does not hang",
        (_, false, true) => "the program ends as usual",
    };
    Proof { proven: is_same && forced.hung, what: format!("with synchronous sends, {what}") }
}

fn of_race(late: &str, forced: &Forced) -> Proof {
    let what = match (forced.hung, forced.succeeded) {
        (true, _) => "the program hangs",
        (false, false) => "the program fails",
        (false, true) => "the program ends as usual",
    };
    Proof { proven: !forced.succeeded, what: format!("if {late} is late, {what}") }
}

/// The send whose message came first, as `--force` and in words; none if it cannot be delayed. Its place is the last one
/// of a race.
fn late_send(trace: &CallTrace, finding: &Finding) -> Result<Option<(String, String)>> {
    let Some(send) = finding.places.last().filter(|send| is_send(send.function)) else {
        return Ok(None);
    };
    let tasks = trace.processes().filter(|process| process.rank() == send.rank);
    for task in tasks.flat_map(|process| process.tasks()) {
        if task.thread() != send.thread {
            continue;
        }
        let mut nth = 0;
        for call in task.calls()? {
            let call = call?;
            nth += u64::from(call.name() == send.function);
            if call.number() == send.number {
                let (rank, function) = (send.rank, send.function);
                let words = format!("call #{} of rank {rank} ({function})", send.number);
                return Ok(Some((format!("delay:{rank}:{function}:{nth}:{LATE}"), words)));
            }
        }
    }
    Ok(None)
}

/// Whether the agent can delay a function.
fn is_send(function: &str) -> bool {
    let name = function.strip_prefix("MPI_").unwrap_or(function);
    matches!(name, "Send" | "Ssend" | "Bsend" | "Rsend" | "Isend" | "Issend" | "Ibsend" | "Irsend")
}
