//! The JSON that `refrain where` prints: these structs are its schema.

use super::Process;
use super::recorded::Recorded;
use super::report::state;
use anyhow::Result;
use refrain_analysis::matching::Until;
use refrain_analysis::sites::{Frame, Sites};
use refrain_analysis::waits::graph::{
    Edge, Findings, Incomplete, Mismatch, NearMiss, Odd, Step, WaitsOnEnded,
};
use refrain_analysis::waits::position::Flight;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The output.
#[derive(Serialize)]
struct Whole<'a> {
    ranks: Vec<RankRow<'a>>,
    waits: Vec<WaitRow<'a>>,
    cycles: Vec<Vec<StepRow<'a>>>,
    /// Ranks that wait for one that has ended.
    ended: Vec<EndedRow<'a>>,
    collectives: Vec<CollectiveRow<'a>>,
    /// Messages that a stuck rank would receive if one thing were different.
    mismatches: Vec<MismatchRow<'a>>,
    /// Ranks that cannot make progress.
    stuck: &'a [i32],
    /// Why the result may be wrong; null if it is certain.
    doubt: Option<String>,
}

#[derive(Serialize)]
struct RankRow<'a> {
    rank: i32,
    host: &'a str,
    pid: i32,
    state: String,
    threads: Vec<ThreadRow<'a>>,
}

#[derive(Serialize)]
struct ThreadRow<'a> {
    thread: u32,
    /// Its open calls, the outermost first.
    r#in: Vec<CallRow<'a>>,
    last: Option<LastRow<'a>>,
}

#[derive(Serialize)]
struct CallRow<'a> {
    call: u64,
    function: &'a str,
    arguments: &'a Json,
    /// The time since it began; null unless the process is running.
    seconds: Option<f64>,
    /// Its call site, innermost frame first; absent unless call sites were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Vec<Json>>,
}

#[derive(Serialize)]
struct LastRow<'a> {
    call: u64,
    function: &'a str,
}

#[derive(Serialize)]
struct WaitRow<'a> {
    rank: i32,
    thread: u32,
    r#for: &'a [i32],
    /// `all` or `any`.
    until: &'static str,
    call: &'a str,
}

#[derive(Serialize)]
struct StepRow<'a> {
    rank: i32,
    call: &'a str,
}

#[derive(Serialize)]
struct EndedRow<'a> {
    rank: i32,
    r#for: i32,
    call: &'a str,
}

#[derive(Serialize)]
struct CollectiveRow<'a> {
    /// Ranks by their open call.
    inside: &'a BTreeMap<String, Vec<i32>>,
    missing: &'a [i32],
}

#[derive(Serialize)]
struct MismatchRow<'a> {
    sender: i32,
    receiver: i32,
    tag: i64,
    messages: u64,
    /// Whether the receiver waits for the message.
    awaited: bool,
    /// `tag`, `source` or `communicator`.
    differs: &'static str,
    /// The tag or the source that the receive names; for a communicator its ranks.
    wanted: Json,
    /// The call that sent the first of the messages; null if there are too many to know it.
    sent_in: Option<SendingRow<'a>>,
    /// The rank whose tag is likely to be wrong; null if that is not clear.
    odd: Option<OddRow>,
}

#[derive(Serialize)]
struct SendingRow<'a> {
    call: Option<u64>,
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Vec<Json>>,
}

#[derive(Serialize)]
struct OddRow {
    rank: i32,
    tag: i64,
    /// The tag of the other rank, and how many other messages have it.
    usual: i64,
    messages: u64,
}

/// One JSON object.
pub fn as_json(
    processes: &[Process],
    found: &Findings,
    recorded: &Recorded,
    sites: &mut Sites,
) -> Result<String> {
    let whole = Whole {
        ranks: processes.iter().map(|process| rank(process, sites)).collect(),
        waits: found.edges.iter().map(wait).collect(),
        cycles: found.cycles.iter().map(|cycle| cycle.iter().map(step).collect()).collect(),
        ended: found.waits_on_ended.iter().map(ended).collect(),
        collectives: found.incomplete.iter().map(collective).collect(),
        mismatches: found.near_misses.iter().map(|miss| mismatch(miss, sites)).collect(),
        stuck: &found.stuck,
        doubt: recorded.doubt(),
    };
    Ok(serde_json::to_string(&whole)?)
}

fn rank<'a>(process: &'a Process, sites: &mut Sites) -> RankRow<'a> {
    let mut threads = Vec::new();
    for (thread, at) in &process.position.threads {
        let call = |call: &'a Flight| CallRow {
            call: call.number,
            function: &call.function,
            arguments: &call.arguments,
            seconds: process.age(*thread, call.number).map(|age| age.as_secs_f64()),
            site: call.site.as_ref().map(|s| sites.frames(s).iter().map(Frame::json).collect()),
        };
        let last = at.last.as_ref().map(|(call, function)| LastRow { call: *call, function });
        threads.push(ThreadRow {
            thread: *thread,
            r#in: at.flight.iter().map(call).collect(),
            last,
        });
    }
    let stream = &process.stream;
    let (rank, host, pid) = (stream.rank, stream.host.as_str(), stream.pid);
    RankRow { rank, host, pid, state: state(process), threads }
}

fn wait(edge: &Edge) -> WaitRow<'_> {
    let until = if edge.until == Until::Any { "any" } else { "all" };
    WaitRow { rank: edge.from, thread: edge.thread, r#for: &edge.to, until, call: &edge.words }
}

fn step(step: &Step) -> StepRow<'_> {
    StepRow { rank: step.rank, call: &step.words }
}

fn ended(waits_on_ended: &WaitsOnEnded) -> EndedRow<'_> {
    EndedRow { rank: waits_on_ended.rank, r#for: waits_on_ended.gone, call: &waits_on_ended.words }
}

fn collective(collective: &Incomplete) -> CollectiveRow<'_> {
    CollectiveRow { inside: &collective.inside, missing: &collective.missing }
}

fn mismatch<'a>(miss: &'a NearMiss, sites: &mut Sites) -> MismatchRow<'a> {
    let (differs, wanted) = match &miss.mismatch {
        Mismatch::Tag { wanted } => ("tag", (*wanted).into()),
        Mismatch::Source { wanted } => ("source", (*wanted).into()),
        Mismatch::Communicator { wanted, .. } => ("communicator", wanted.members.to_vec().into()),
    };
    MismatchRow {
        sender: miss.sender,
        receiver: miss.receiver,
        tag: miss.tag,
        messages: miss.messages,
        awaited: miss.is_awaited,
        differs,
        wanted,
        sent_in: miss.sent_in.as_ref().map(|sent| SendingRow {
            call: sent.number,
            function: &sent.function,
            site: sent.site.as_ref().map(|s| sites.frames(s).iter().map(Frame::json).collect()),
        }),
        odd: miss.odd.map(|Odd { rank, tag, usual, messages }| OddRow {
            rank,
            tag,
            usual,
            messages,
        }),
    }
}
