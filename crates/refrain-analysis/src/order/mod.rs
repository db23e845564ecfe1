//! The receive order that a trace of calls holds, as `refrain record` would have kept it.
//!
//! A trace has every call with its outcome, so it has what a replay needs: which message a receive
//! got, which requests a call completed, which polls failed. [`orders`] tells a
//! [`refrain_order::Recorder`] of the calls of each rank, just as the agent does when it records
//! (its `order/record`), and gives what comes of it.
//!
//! Three things a trace does not have. *Sites*: unless they were asked for, so all calls are at one
//! place, and an agent that replays compares neither places nor communicators. *The clock*:
//! `MPI_Wtime` is not recorded, and a replay lets it go on. *The order among threads*: where several
//! threads of a rank match messages, there is no order to be had, and [`NoOrder`] says so; as where
//! calls are missing.

mod kind;
mod tell;

use refrain_bytes::stable::fnv1a_64;
use refrain_mpi::abi::{Family, Layout};
use refrain_order::{Frames, Recorder};
use refrain_reader::event::Event;
use refrain_reader::orders::RankOrder;
use refrain_reader::{
    CallTrace, Ended, Item, Orders, Paused, ProcessRef, Source, StreamMeta, TraceError,
};
use std::collections::BTreeMap;
use tell::Teller;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum NoOrder {
    /// The trace itself.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Calls were left out when it was recorded.
    #[error("it was recorded with `{0}`, so calls are missing that a replay needs")]
    Selected(String),
    /// The program switched recording off.
    #[error("rank {0} switched recording off for a while (MPI_Pcontrol), so calls are missing")]
    Paused(i32),
    /// Calls were forwarded only.
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
    /// A rank is not in it, or several processes are one.
    #[error("of {size} ranks it does not have each once: rank {rank} is there {times} times")]
    Ranks {
        /// How many ranks there were.
        size: i32,
        /// One that is not there once.
        rank: i32,
        /// How often it is.
        times: usize,
    },
    /// A process without `MPI_Init`.
    #[error("it has a process without a rank: one that has not called MPI_Init")]
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
    /// A receive whose message is not known.
    #[error(
        "rank {rank}, call {call}: a receive with a wildcard is let go of before it is complete, \
         so the trace does not have what it got"
    )]
    LetGo {
        /// The rank.
        rank: i32,
        /// The call's number.
        call: u64,
    },
}

/// What becomes of the call sites of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSites {
    /// All calls are at one place: so an agent that replays a trace wants it.
    Ignored,
    /// Calls are at their sites, or, in a trace without any, at one for each function.
    Kept,
}

/// The receive orders of a trace.
pub fn orders(trace: &CallTrace, sites: CallSites) -> Result<Orders, NoOrder> {
    let meta = trace.meta();
    // Call sites are recorded in addition: nothing is missing then.
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

/// Every rank has to be there once, with all its calls.
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

/// What one rank did.
fn rank_order(
    trace: &CallTrace,
    process: ProcessRef<'_>,
    mut sites: Option<&mut Sites>,
) -> Result<RankOrder, NoOrder> {
    let rank = process.rank();
    let mut told = Teller::new(Layout::of(trace.family()), trace.family() == Family::Mpich);
    let mut threads = 0;
    for task in process.tasks() {
        let before = told.matching;
        for item in task.items(Source::Untimed)? {
            if let Item::Call(call) = item? {
                let event = call.event();
                if let Some(sites) = &mut sites {
                    told.site = site_of(event, sites);
                }
                told.event(event).map_err(|call| NoOrder::LetGo { rank, call })?;
            }
        }
        threads += usize::from(told.matching > before);
    }
    if threads > 1 {
        return Err(NoOrder::Threads { rank, threads });
    }
    let meta = process.facts();
    let finalized = meta.ended == Ended::Finalized;
    told.end();
    let Teller { recorder, unsupported, .. } = told;
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

/// Of a rank that did not reach its end, the record is cut short.
fn frames(mut recorder: Recorder, finalized: bool) -> Frames {
    let mut bytes = Vec::new();
    match finalized {
        true => recorder.finish(&mut bytes),
        false => recorder.seal(&mut bytes),
    }
    Frames::read(bytes)
}
