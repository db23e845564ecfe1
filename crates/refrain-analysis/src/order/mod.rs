//! Converts a trace of calls to a record of receive orders, as `refrain record` would have written it.
//!
//! A trace has every call with its outcome, so it has what a replay needs: matched messages, completed
//! requests, failed polls. [`orders`] passes the calls of each rank to a [`refrain_order::Recorder`],
//! as the agent does when it records (`order/record` in `refrain-agent`).
//!
//! A trace lacks three things:
//!
//! * *Call sites*, unless they were requested. Then all calls have the same call site, and a replay
//!   compares neither call sites nor communicators.
//! * *The clock*: results of `MPI_Wtime` are not recorded, and a replay does not replace them.
//! * *The order among threads*: if several threads of a rank match messages, their order is unknown and
//!   the trace cannot be converted ([`NoOrder`]).

mod convert;
mod kind;

use convert::Converter;
use refrain_bytes::stable::fnv1a_64;
use refrain_mpi::abi::{Family, Layout};
use refrain_order::{Frames, Recorder};
use refrain_reader::event::Event;
use refrain_reader::orders::RankOrder;
use refrain_reader::{
    CallTrace, Ended, Item, Orders, Paused, ProcessRef, Source, StreamMeta, TraceError,
};
use std::collections::BTreeMap;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum NoOrder {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Calls were excluded when it was recorded.
    #[error("it was recorded with `{0}`, so calls are missing that a replay needs")]
    Selected(String),
    /// The program paused recording.
    #[error("rank {0} paused recording (MPI_Pcontrol), so calls are missing")]
    Paused(i32),
    /// Calls were forwarded without being recorded.
    #[error("{calls} calls of rank {rank} were not recorded")]
    Unrecorded {
        /// The rank.
        rank: i32,
        /// How many.
        calls: u32,
    },
    /// Parts of it could not be read when it was made.
    #[error("parts of it were lost: {0}")]
    Lost(String),
    /// A rank is missing, or several processes have the same rank.
    #[error("it must have each of {size} ranks once, but has rank {rank} {times} times")]
    Ranks {
        /// The number of ranks.
        size: i32,
        /// A rank that does not occur once.
        rank: i32,
        /// How often it occurs.
        times: usize,
    },
    /// A process without `MPI_Init`.
    #[error("it has a process without a rank, which has not called MPI_Init")]
    NoRank,
    /// Several threads.
    #[error(
        "{threads} threads of rank {rank} receive or complete messages, and a trace does not have \
         the order among them"
    )]
    Threads {
        /// The rank.
        rank: i32,
        /// How many.
        threads: usize,
    },
    /// A receive whose match is unknown.
    #[error(
        "rank {rank}, call {call}: a receive with a wildcard is freed before it completes, so the \
         trace does not have its match"
    )]
    FreedReceive {
        /// The rank.
        rank: i32,
        /// The call's number.
        call: u64,
    },
}

/// Whether the record has the call sites of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSites {
    /// All calls have the same call site, as a replay of a trace requires.
    Ignored,
    /// Calls have their call sites or, in a trace without call sites, one per function.
    Kept,
}

/// The receive orders of a trace.
pub fn orders(trace: &CallTrace, sites: CallSites) -> Result<Orders, NoOrder> {
    let meta = trace.meta();
    // `--callsite` excludes no calls.
    let leaves_out = |option: &&String| !option.starts_with("--callsite ");
    let selected: Vec<&str> = meta.selected.iter().filter(leaves_out).map(String::as_str).collect();
    if !selected.is_empty() {
        return Err(NoOrder::Selected(selected.join(" ")));
    }
    if let Some(lost) = meta.lost.first() {
        return Err(NoOrder::Lost(lost.clone()));
    }
    check_ranks(trace)?;
    let mut named = Sites::default();
    let kept = sites == CallSites::Kept;
    let ranks =
        trace.processes().map(|process| rank_order(trace, process, kept.then_some(&mut named)));
    let ranks = ranks.collect::<Result<_, _>>()?;
    Ok(Orders {
        refrain: meta.refrain.clone(),
        command: meta.command.clone(),
        time: meta.time.0,
        exit_code: meta.exit_code,
        ranks,
        sites: named,
        redacted: meta.is_redacted(),
        is_recovered: false,
    })
}

/// Checks that every rank occurs once, with all its calls.
fn check_ranks(trace: &CallTrace) -> Result<(), NoOrder> {
    let streams = &trace.meta().streams;
    for StreamMeta { rank, paused, unrecorded, .. } in streams {
        if *rank < 0 {
            return Err(NoOrder::NoRank);
        }
        if *paused != Paused::Never {
            return Err(NoOrder::Paused(*rank));
        }
        if *unrecorded > 0 {
            return Err(NoOrder::Unrecorded { rank: *rank, calls: *unrecorded });
        }
    }
    let size = streams.iter().map(|stream| stream.size).max().unwrap_or(0);
    let mut times = vec![0; size.max(0) as usize];
    for process in trace.processes() {
        if let Some(times) = times.get_mut(process.rank() as usize) {
            *times += 1;
        }
    }
    if let Some((rank, &times)) = (0..).zip(&times).find(|(_, times)| **times != 1) {
        return Err(NoOrder::Ranks { size, rank, times });
    }
    Ok(())
}

/// The record of one rank.
fn rank_order(
    trace: &CallTrace,
    process: ProcessRef<'_>,
    mut sites: Option<&mut Sites>,
) -> Result<RankOrder, NoOrder> {
    let rank = process.rank();
    let mut converter = Converter::new(Layout::of(trace.family()), trace.family() == Family::Mpich);
    let mut threads = 0;
    for task in process.tasks() {
        let before = converter.matching;
        for item in task.items(Source::Untimed)? {
            if let Item::Call(call) = item? {
                let event = call.event();
                if let Some(sites) = &mut sites {
                    converter.site = site_of(event, sites);
                }
                converter.event(event).map_err(|call| NoOrder::FreedReceive { rank, call })?;
            }
        }
        threads += usize::from(converter.matching > before);
    }
    if threads > 1 {
        return Err(NoOrder::Threads { rank, threads });
    }
    let meta = process.facts();
    let finalized = meta.ended == Ended::Finalized;
    converter.end();
    let Converter { recorder, unsupported, .. } = converter;
    Ok(RankOrder {
        rank: rank as u32,
        size: meta.size.max(0) as u32,
        finalized,
        host: meta.host.clone(),
        pid: meta.pid as u32,
        program: meta.program.clone(),
        library: meta.library.lines().next().unwrap_or_default().to_owned(),
        traced: true,
        unsupported,
        frames: frames(recorder, finalized),
        ..RankOrder::default()
    })
}

/// Call sites by number.
type Sites = BTreeMap<u64, String>;

/// The number of a call's site: that of its function if the trace has no sites.
fn site_of(event: &Event, sites: &mut Sites) -> u64 {
    let text = event.site.as_deref().unwrap_or(&event.function.name);
    let site = fnv1a_64(text.as_bytes());
    sites.entry(site).or_insert_with(|| text.lines().next().unwrap_or_default().to_owned());
    site
}

/// The record of a rank that did not call `MPI_Finalize` is truncated.
fn frames(mut recorder: Recorder, finalized: bool) -> Frames {
    let mut bytes = Vec::new();
    match finalized {
        true => recorder.finish(&mut bytes),
        false => recorder.seal(&mut bytes),
    }
    Frames::read(bytes)
}
