//! Checks a whole trace: decides which questions it answers.

use crate::finding::{Class, Finding, Findings, Place};
use crate::job::{Job, Options};
use crate::process::Process;
use crate::repeat::TaskItems;
use crate::threads::thread_level;
use refrain_mpi::names::constant_name;
use refrain_mpi::semantics;
use refrain_reader::{CallTrace, Ended, Source, TraceError, Value};
use std::collections::BTreeSet;

/// Finds the errors in a trace.
pub fn check(trace: &CallTrace, options: Options) -> Result<Vec<Finding>, TraceError> {
    let mut findings = Findings::default();
    let processes: Vec<_> = trace.processes().collect();
    let ranks: BTreeSet<i32> = processes.iter().map(|process| process.rank()).collect();
    let is_one_job = ranks.len() == processes.len()
        && ranks.iter().copied().eq(0..processes.len() as i32)
        && processes.len() == trace.run().ranks();
    let has_stopped =
        |process: &refrain_reader::ProcessRef<'_>| matches!(process.ended(), Ended::LogStopped(_));
    let is_complete = trace.meta().left_out().is_empty()
        && trace.meta().lost.is_empty()
        && !processes.iter().any(has_stopped);
    let mut threads = 0;
    for process in &processes {
        let calls = first_calls(process)?;
        threads = threads.max(calls.0.len());
        thread_level(&calls.0, calls.1, &mut findings);
    }
    let has_connects = trace.functions()?.values().any(|function| {
        let mpi = refrain_mpi::interface::function(&function.name);
        mpi.is_some_and(|function| function.op() == semantics::Op::Connect)
    });
    let is_single = processes.iter().all(|process| process.tasks().len() == 1);
    let together = is_one_job && is_complete && is_single && !has_connects;
    match together {
        true => {
            let mut job = Job::new(options, trace.run().ranks());
            for process in &processes {
                for task in process.tasks() {
                    let items = TaskItems::new(task.items(Source::Untimed)?, task.thread());
                    job.add(process.rank(), process.ended(), Box::new(items));
                }
            }
            job.run(&mut findings)?;
        }
        false => {
            for process in &processes {
                let mut alone = Process::new(process.rank(), trace.run().ranks(), threads > 1);
                for next in process.items(Source::Compressed)? {
                    let (task, item) = next?;
                    alone.item(task.thread(), &item, &mut findings);
                }
                alone.finish(&mut findings);
            }
        }
    }
    let mut found = findings.into_sorted();
    if !is_complete {
        // What follows from calls that are missing is not known.
        found.retain(|finding| {
            matches!(finding.class, Class::InvalidArgument | Class::ThreadLevel | Class::RmaRange)
        });
    }
    Ok(found)
}

/// The first call of each thread of a process that needs MPI, and the thread level that MPI provides.
type FirstCalls = (Vec<(u32, Place)>, Option<&'static str>);

fn first_calls(process: &refrain_reader::ProcessRef<'_>) -> Result<FirstCalls, TraceError> {
    let (mut calls, mut provided) = (Vec::new(), None);
    for task in process.tasks() {
        for call in task.calls()? {
            let call = call?;
            let Some(function) = call.mpi() else { continue };
            if function.op() == semantics::Op::Begin {
                let level = match call.arg("provided") {
                    Some(Value::Int(level)) => {
                        constant_name(call.layout().family, "thread", *level)
                    }
                    _ => Some("MPI_THREAD_SINGLE"),
                };
                provided = level.filter(|_| call.returned());
            }
            // Any thread may ask these at any time.
            let is_free = matches!(
                function.name.as_str(),
                "MPI_Initialized"
                    | "MPI_Finalized"
                    | "MPI_Get_version"
                    | "MPI_Get_library_version"
                    | "MPI_Query_thread"
                    | "MPI_Is_thread_main"
                    | "MPI_Wtime"
                    | "MPI_Wtick"
            ) || matches!(function.op(), semantics::Op::Tool | semantics::Op::Clock);
            if !is_free {
                calls.push((task.thread(), Place::of(process.rank(), task.thread(), &call)));
                break;
            }
        }
    }
    Ok((calls, provided))
}
