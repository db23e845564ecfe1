//! Where a process stands: the calls it is in, or the last that it made.

use super::observe::Observer;
use super::{Standing, Wait};
use crate::objects::{CallNames, Objects};
use crate::render::Renderer;
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use refrain_reader::event::Event;
use serde_json::Value as Json;
use std::collections::BTreeMap;
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
    depth: u8,
    wait: Option<Wait>,
}

/// Where a thread stands.
#[derive(Clone, Debug, Default)]
pub struct ThreadPosition {
    /// The calls it is in, the outermost first.
    pub flight: Vec<Flight>,
    /// The last call that returned: number and function.
    pub last: Option<(u64, String)>,
}

/// Where a process stands.
#[derive(Clone, Debug)]
pub struct Position {
    /// By thread.
    pub threads: BTreeMap<u32, ThreadPosition>,
    /// For the wait-for graph.
    pub standing: Standing,
}

/// What is known of a process besides its calls.
pub struct About<'a> {
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// All ranks of that.
    pub world: &'a Arc<[i32]>,
    /// Its MPI.
    pub family: Family,
    /// The version of that, if known.
    pub version: Option<(u32, u32)>,
    /// Names of predefined handles, as the calls have them.
    pub names: HandleTable,
}

/// A call, and how often it was made before the next.
pub type Times = (Event, u64);

/// Goes through the calls of a process, by thread, to where it stands. None, if calls were made
/// more than once of which only single ones tell what they did.
pub fn position<E, I>(about: About<'_>, threads: Vec<(u32, I)>) -> Result<Option<Position>, E>
where
    I: Iterator<Item = Result<Times, E>>,
{
    let table = |names: &HandleTable| names.entries().collect::<HandleTable>();
    let mut objects = Objects::new(about.family, table(&about.names));
    let renderer = Renderer::new(about.family, about.version, false);
    let mut observer = Observer::new(about.rank, about.world, about.family, about.names);
    let mut positions: BTreeMap<u32, ThreadPosition> = BTreeMap::new();
    let mut sources = Vec::new();
    for (thread, mut events) in threads {
        positions.entry(thread).or_default();
        let next = events.next().transpose()?;
        sources.push((thread, events, next));
    }
    // In the order in which they began, as far as that is known across threads.
    let earliest = |sources: &[(u32, I, Option<Times>)]| {
        let start = |(i, (_, _, next)): (usize, &(u32, I, Option<Times>))| {
            next.as_ref().map(|(event, _)| (event.start, i))
        };
        sources.iter().enumerate().filter_map(start).min().map(|(_, i)| i)
    };
    while let Some(i) = earliest(&sources) {
        let (thread, events, next) = &mut sources[i];
        let taken = std::mem::replace(next, events.next().transpose()?);
        let Some((event, times)) = taken else { break };
        let is_note = event.function.name.starts_with("refrain_");
        if times > 1 && (event.function.name == "refrain_members" || observer.is_wildcard(&event)) {
            return Ok(None);
        }
        let names = match is_note || !(event.result.is_none() || makes_or_frees(&event)) {
            true => CallNames::default(),
            false => objects.name_call(&event),
        };
        let wait = observer.event(*thread, &event, &names, times);
        if is_note {
            continue;
        }
        let position = positions.entry(*thread).or_default();
        // A call at this depth ends every call that was open as deep or deeper.
        while position.flight.last().is_some_and(|open| open.depth >= event.depth) {
            position.flight.pop();
        }
        if event.result.is_some() {
            let last = position.last.get_or_insert_default();
            last.0 = event.number;
            last.1.clone_from(&event.function.name);
            continue;
        }
        let text = renderer.text(&event, &objects, &names);
        position.flight.push(Flight {
            number: event.number,
            function: event.function.name.clone(),
            text: text.rsplit_once(" = ").map_or(text.as_str(), |(call, _)| call).to_owned(),
            arguments: renderer.arguments(&event, &objects, &names),
            depth: event.depth,
            wait,
        });
    }
    // Of calls inside calls, the innermost is what a thread waits in.
    let innermost = |p: &mut ThreadPosition| p.flight.last_mut().and_then(|f| f.wait.take());
    let waits: Vec<Wait> = positions.values_mut().filter_map(innermost).collect();
    Ok(Some(Position { threads: positions, standing: observer.finish(waits) }))
}

/// Whether a call makes objects that need names, or may free some.
fn makes_or_frees(event: &Event) -> bool {
    let changes = |p: &ParamDef| p.class == Class::Handle && p.direction != Direction::In;
    event.function.params.iter().any(changes)
}
