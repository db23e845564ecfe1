//! Memory that is part of the program: static data and the stack.
//!
//! A trace says how long an allocation is. Of static data and the stack, it has only offsets: the generated program
//! sets aside what lies between the lowest and the highest of them, and as much as the calls access from there on.

use crate::program::{Group, Program};
use refrain_format::record::segment;
use refrain_mpi::semantics::Amount;
use refrain_reader::datatypes::{Sizes, makes_datatypes};
use refrain_reader::payload::payload;
use refrain_reader::{Event, Value};
use std::collections::BTreeMap;

/// No more than this is set aside for the static data of a module.
const MOST_STATIC: i64 = 1 << 30;
/// More than a call accesses of a buffer whose size is not known.
const UNKNOWN: i64 = 1 << 16;
/// No more than this follows the highest address on the stack.
const MOST_ON_STACK: i64 = 4 << 20;

/// The lowest and one past the highest offset of static data and stacks, by thread and segment.
pub fn arenas(program: &Program<'_>) -> BTreeMap<(u32, u32), (i64, i64)> {
    let mut arenas = BTreeMap::new();
    for group in &program.groups {
        add(program, group, &mut arenas);
    }
    arenas
}

fn add(program: &Program<'_>, group: &Group<'_>, arenas: &mut BTreeMap<(u32, u32), (i64, i64)>) {
    let mut parts: BTreeMap<u32, i64> = BTreeMap::new();
    let mut images: BTreeMap<u32, i64> = BTreeMap::new();
    for signature in group.calls.iter().filter(|s| s.function.name == "refrain_segment") {
        for (_, event) in &signature.events {
            let int = |at: usize| match event.inputs.get(at) {
                Some(Some(Value::Int(value))) => *value,
                _ => 0,
            };
            match int(1) as u8 {
                segment::STACK => parts.insert(int(0) as u32, MOST_ON_STACK),
                segment::STATIC => {
                    // The whole module: what follows an address is certainly there.
                    let bytes = event.outputs.iter().flatten().find_map(|value| match value {
                        Value::Int(bytes) => Some(*bytes),
                        _ => None,
                    });
                    images.insert(int(0) as u32, bytes.unwrap_or(0).min(MOST_STATIC));
                    parts.insert(int(0) as u32, 0)
                }
                _ => None,
            };
        }
    }
    if parts.is_empty() {
        return;
    }
    let made = group.calls.iter().filter(|signature| makes_datatypes(&signature.function));
    let events =
        made.flat_map(|s| s.events.first()).map(|(_, event)| (event.clone(), &group.names));
    let sizes = Sizes::new(events);
    for signature in &group.calls {
        for (_, event) in &signature.events {
            let mut bytes = None;
            let is_callback = |at: usize| {
                let name = signature.function.params.get(at).map(|def| def.name.as_str());
                let param = name.and_then(|name| signature.mpi?.param(name));
                param.is_some_and(|param| param.kind.name.ends_with("FUNCTION"))
            };
            let inputs = event.inputs.iter().enumerate().filter(|(at, _)| !is_callback(*at));
            for value in inputs.map(|(_, value)| value).chain(&event.outputs).flatten() {
                each_location(value, &mut |thread, number, offset| {
                    let Some(most) = parts.get(&number) else { return };
                    let bytes = *bytes.get_or_insert_with(|| reach(program, event, group, &sizes));
                    let key = (thread.unwrap_or(group.thread), number);
                    let (low, high) = arenas.entry(key).or_insert((i64::MAX, i64::MIN));
                    // Aligned as it was.
                    *low = (*low).min(offset & !63);
                    *high = (*high).max(offset.saturating_add(bytes.min(*most)));
                });
            }
        }
    }
    for (number, bytes) in images {
        if let Some((_, high)) = arenas.get_mut(&(group.thread, number)) {
            *high = (*high).max(bytes);
        }
    }
}

/// How many bytes a call may access of one of its buffers.
fn reach(program: &Program<'_>, event: &Event, group: &Group<'_>, sizes: &Sizes) -> i64 {
    let elements = payload(event, &group.names, program.family);
    let bytes = elements.and_then(|elements| sizes.bytes(&elements));
    let one = bytes.map_or(UNKNOWN, |bytes| i64::try_from(bytes).unwrap_or(UNKNOWN));
    // Collectives access a block for each process; derived datatypes have gaps.
    let displacements = event.inputs.iter().flatten().map(|value| match value {
        Value::List(all) => {
            let ints = all.iter().map(|v| if let Value::Int(n) = v { n.abs() } else { 0 });
            ints.max().unwrap_or(0).saturating_mul(16)
        }
        _ => 0,
    });
    let far = displacements.max().unwrap_or(0);
    let blocks = refrain_mpi::interface::function(&event.function.name).map_or(1, |function| {
        let of_peers = |buffer: &refrain_mpi::semantics::Buffer| {
            matches!(buffer.amount, Amount::Each(..) | Amount::Counts(_) | Amount::Displaced { .. })
        };
        if function.buffers().iter().any(of_peers) { i64::from(program.size) + 1 } else { 1 }
    });
    one.saturating_mul(blocks).saturating_add(far).saturating_add(UNKNOWN)
}

fn each_location(value: &Value, visit: &mut dyn FnMut(Option<u32>, u32, i64)) {
    match value {
        Value::Location { thread, segment, offset, .. } => visit(*thread, *segment, *offset),
        Value::List(all) => all.iter().for_each(|value| each_location(value, visit)),
        _ => {}
    }
}
