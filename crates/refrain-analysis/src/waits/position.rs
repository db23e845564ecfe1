//! The open calls of a process, or the last call that it made.

use super::words::words;
use super::{KEPT_SENDS, Lane, Need, Operation, RankWaitState, Receive, SendingCall, Wait};
use crate::matching::{Action, Op, Step, Tracker, is_unique};
use crate::objects::{CallNames, Objects};
use crate::render::Renderer;
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use refrain_reader::{Event, Interleaved, Item};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A call that has not returned.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Its number in its thread.
    pub number: u64,
    /// The function.
    pub function: String,
    /// The call as text, without a result.
    pub text: String,
    /// Its arguments as JSON.
    pub arguments: Json,
    /// Its call site, if call sites were recorded.
    pub site: Option<Arc<str>>,
    depth: u8,
    /// What it waits for, and whether it waits for requests.
    wait: Option<(Wait, bool)>,
}

/// The open calls of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadPosition {
    /// Its open calls, the outermost first.
    pub flight: Vec<Flight>,
    /// The last call that returned: number and function.
    pub last: Option<(u64, String)>,
}

/// The open calls of a process.
#[derive(Clone, Debug)]
pub struct Position {
    /// By thread.
    pub threads: BTreeMap<u32, ThreadPosition>,
    /// For the wait-for graph.
    pub wait_state: RankWaitState,
}

/// Facts about a process besides its calls.
pub struct About {
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// The size of `MPI_COMM_WORLD`.
    pub ranks: usize,
    /// The family of its MPI library.
    pub family: Family,
    /// The version of its MPI library, if known.
    pub version: Option<(u32, u32)>,
    /// Names of predefined handles, as the calls have them.
    pub names: HandleTable,
    /// By thread, the first call whose number is its own: earlier ones stand for several calls.
    pub first_numbered: BTreeMap<u32, u64>,
}

/// Follows the items of a process, by thread, to their end. Each item has a count of repetitions. Returns `None` if a
/// call that must be observed separately ([`is_unique`]) has a count above 1, or if a request was cancelled among calls
/// that are counted together.
pub fn position<E, I>(about: About, threads: Vec<(u32, I)>) -> Result<Option<Position>, E>
where
    I: Iterator<Item = Result<(Item, u64), E>>,
{
    let mut objects = Objects::new(about.family, about.names);
    let renderer = Renderer::new(about.family, about.version, false);
    let mut tracker: Tracker<String> = Tracker::new(about.rank, about.ranks);
    let threads_of = threads.iter().map(|(thread, _)| (*thread, ThreadPosition::default()));
    let mut positions: BTreeMap<u32, ThreadPosition> = threads_of.collect();
    let mut last_sent: HashMap<Lane, VecDeque<SendingCall>> = HashMap::new();
    for next in Interleaved::new(threads) {
        let (thread, (item, times)) = next?;
        let call = match item {
            Item::Call(call) => call,
            Item::Note(note) if times > 1 && note.members().is_some() => return Ok(None),
            Item::Note(note) => {
                tracker.note(&note);
                continue;
            }
        };
        if times > 1 && is_unique(&call) {
            return Ok(None);
        }
        let event = call.event();
        let is_numbered =
            about.first_numbered.get(&thread).is_none_or(|first| event.number >= *first);
        // Which of the calls that are counted together were of cancelled requests is unknown.
        if !is_numbered && call.mpi().map(Action::of) == Some(Action::Cancel) {
            return Ok(None);
        }
        let names = match call.returned() && !makes_or_frees(event) {
            true => CallNames::default(),
            false => objects.name_call(event),
        };
        let progress = tracker.call(&call, times, &|side| words(&call, &names, side));
        for step in &progress.steps {
            if let Step::Posted(Op { what: Operation::Send { lane, .. }, .. }) = step {
                let number = is_numbered.then_some(event.number);
                let (function, site) = (call.name().to_owned(), call.site().cloned());
                let sends = last_sent.entry(*lane).or_default();
                for _ in 0..times.min(KEPT_SENDS as u64) {
                    sends.truncate(KEPT_SENDS - 1);
                    let (function, site) = (function.clone(), site.clone());
                    sends.push_front(SendingCall { number, function, site });
                }
            }
        }
        let position = positions.entry(thread).or_default();
        // Open calls of the same depth or deeper ended without returning.
        while position.flight.last().is_some_and(|open| open.depth >= event.depth) {
            position.flight.pop();
        }
        if call.returned() {
            let last = position.last.get_or_insert_default();
            last.0 = event.number;
            last.1.clone_from(&event.function.name);
            continue;
        }
        let function = call.name().to_owned();
        let completes = call.mpi().map(Action::of) == Some(Action::Complete);
        let wait = progress.blocked.map(|blocked| {
            // A request is described by the call that created it.
            let described = |words: String| match completes {
                true => format!("{function}: {words}"),
                false => words,
            };
            let needs = blocked.needs.into_iter().map(|(need, words)| (need, described(words)));
            let (function, until) = (function.clone(), blocked.until);
            Wait { thread, function, needs: needs.collect(), until }
        });
        let text = renderer.text(event, &objects, &names);
        position.flight.push(Flight {
            number: event.number,
            text: text.rsplit_once(" = ").map_or(text.as_str(), |(call, _)| call).to_owned(),
            arguments: renderer.arguments(event, &objects, &names),
            site: call.site().cloned(),
            depth: event.depth,
            function,
            wait: wait.map(|wait| (wait, completes)),
        });
    }
    // Of nested calls, the innermost is the one that blocks the thread.
    let innermost = |p: &mut ThreadPosition| p.flight.last_mut().and_then(|f| f.wait.take());
    let waits: Vec<(Wait, bool)> = positions.values_mut().filter_map(innermost).collect();
    let wait_state = RankWaitState { last_sent, ..wait_state(about.rank, &tracker, waits) };
    Ok(Some(Position { wait_state, threads: positions }))
}

/// The wait state of a process. `waits` are its blocked calls, each with whether it waits for requests.
fn wait_state(rank: i32, tracker: &Tracker<String>, waits: Vec<(Wait, bool)>) -> RankWaitState {
    let wildcard = |operation: &Operation| match operation {
        Operation::Receive(receive) if receive.lane().is_none() => Some(*receive),
        _ => None,
    };
    // A receive with a request is counted as pending below, so not here as well.
    let of_calls = waits.iter().filter(|(_, completes)| !completes).flat_map(|(wait, _)| {
        wait.needs.iter().filter_map(|(need, _)| match need {
            Need::Operation(operation) => Some(operation),
            _ => None,
        })
    });
    let of_requests = tracker.pending().map(|(op, _)| &op.what);
    let open: Vec<Receive> = of_calls.chain(of_requests).filter_map(wildcard).collect();
    let counts = tracker.counts().clone();
    RankWaitState {
        scopes: tracker.scopes().map(|(scope, begun)| (scope.clone(), begun)).collect(),
        sent: counts.sent,
        named: counts.named,
        matched: counts.matched,
        open,
        waits: waits.into_iter().map(|(wait, _)| wait).collect(),
        ..RankWaitState::new(rank)
    }
}

/// Whether a call may create or free objects.
fn makes_or_frees(event: &Event) -> bool {
    let changes = |p: &ParamDef| p.class == Class::Handle && p.direction != Direction::In;
    event.function.params.iter().any(changes)
}
