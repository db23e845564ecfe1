//! Memory that operations use while they are in flight.

use crate::finding::{Class, Findings, Place};
use crate::typemap::Types;
use refrain_bytes::table::Map;
use refrain_mpi::interface::{Direction, Function};
use refrain_mpi::semantics::{Amount, Blocks, Buffer};
use refrain_reader::datatypes::counts;
use refrain_reader::{Call, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The segment: the thread that it is numbered in, and its number.
    pub segment: (u32, u32),
    /// The first byte.
    pub start: i64,
    /// The byte after the last one.
    pub end: i64,
}

impl Range {
    /// The range that begins at an address; none if it is no place in a segment, or empty.
    pub fn at(address: &Value, thread: u32, bytes: i64) -> Option<Range> {
        let Value::Location { thread: of, segment, offset, .. } = address else { return None };
        let end = offset.checked_add(bytes).filter(|_| bytes > 0)?;
        Some(Range { segment: (of.unwrap_or(thread), *segment), start: *offset, end })
    }

    /// Whether two ranges have a byte in common.
    pub fn meets(&self, other: &Range) -> bool {
        self.segment == other.segment && self.start < other.end && other.start < self.end
    }
}

/// Memory that a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The memory.
    pub range: Range,
    /// Whether the operation writes to it.
    pub writes: bool,
    /// The index of the buffer among those of the function.
    pub buffer: usize,
}

/// What a call's buffers depend on besides its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The thread.
    pub thread: u32,
    /// Whether it is the root; none if that is not known.
    pub is_root: Option<bool>,
    /// How many processes a block is for.
    pub peers: Option<u64>,
}

/// The memory that a call uses, as far as it is known: datatypes with gaps are left out, because what lies in the gaps
/// is not used.
pub fn uses(call: &Call, function: &Function, types: &mut Types, caller: Caller) -> Vec<Use> {
    let mut all = Vec::new();
    for (number, buffer) in function.buffers().iter().enumerate() {
        if buffer.at_root && caller.is_root != Some(true) {
            continue;
        }
        let writes = buffer.param(function).direction != Direction::In;
        for range in ranges(call, function, buffer, types, caller).unwrap_or_default() {
            all.push(Use { range, writes, buffer: number });
        }
    }
    all
}

/// The value of a parameter before the call.
fn input<'c>(call: &'c Call, function: &Function, param: usize) -> Option<&'c Value> {
    call.input(function.params.get(param)?.name)
}

fn ranges(
    call: &Call,
    function: &Function,
    buffer: &Buffer,
    types: &mut Types,
    caller: Caller,
) -> Option<Vec<Range>> {
    let address = input(call, function, buffer.address)?;
    let extent = match buffer.datatype {
        Some(datatype) => {
            let Value::Word(handle) = input(call, function, datatype)? else { return None };
            let (datatype, _) = types.get(call, *handle)?;
            datatype.extent.filter(|_| datatype.is_dense)?
        }
        None => 1,
    };
    let count = |param: usize| counts(input(call, function, param)?)?.first().copied();
    let elements = match buffer.amount {
        Amount::Unknown | Amount::OwnCount(_) => return None,
        Amount::Constant(n) => u64::from(n),
        Amount::Count(param) => count(param)?,
        Amount::Counts(param) => counts(input(call, function, param)?)?.iter().sum(),
        Amount::Each(param, Blocks::Peers | Blocks::Size) => {
            count(param)?.checked_mul(caller.peers?)?
        }
        Amount::Each(param, Blocks::Partitions(partitions)) => {
            count(param)?.checked_mul(count(partitions)?)?
        }
        Amount::Each(..) => return None,
        Amount::Displaced { counts: numbers, displacements } => {
            let numbers = counts(input(call, function, numbers)?)?;
            let Value::List(at) = input(call, function, displacements)? else { return None };
            let block = |(count, at): (&u64, &Value)| {
                let Value::Int(at) = at else { return None };
                let bytes = extent.checked_mul(i64::try_from(*count).ok()?)?;
                let mut range = Range::at(address, caller.thread, bytes)?;
                let by = extent.checked_mul(*at)?;
                (range.start, range.end) =
                    (range.start.checked_add(by)?, range.end.checked_add(by)?);
                Some(range)
            };
            return Some(numbers.iter().zip(at).filter_map(block).collect());
        }
    };
    let bytes = extent.checked_mul(i64::try_from(elements).ok()?)?;
    Some(Range::at(address, caller.thread, bytes).into_iter().collect())
}

/// What memory is in flight for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A request.
    Request(u64),
    /// Accesses to a rank of a window.
    Window(u64, i64),
}

#[derive(Debug)]
struct Flight {
    range: Range,
    writes: bool,
    place: Arc<Place>,
}

/// Where a range begins, and its number: the segment, the first byte, how many were in flight before it.
type Key = ((u32, u32), i64, u64);

/// The memory of a process that is in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    all: BTreeMap<Key, Flight>,
    /// The longest range of each segment so far: no other one can reach further.
    longest: Map<(u32, u32), i64>,
    requests: Map<u64, Vec<Key>>,
    windows: BTreeMap<(u64, i64), Vec<Key>>,
    begun: u64,
}

impl InFlight {
    /// Compares a call's memory with that in flight, and the parts of the call with each other.
    pub fn check(&self, uses: &[Use], place: &Arc<Place>, findings: &mut Findings) {
        for used in uses {
            if let Some(flight) = self.conflict(used) {
                let (now, then) = (verb(used.writes), verb(flight.writes));
                let message = format!(
                    "{} {now} memory that {} still {then}: that operation is not complete.",
                    place.function, flight.place.function
                );
                findings.add(
                    Class::BufferOverlap,
                    message,
                    vec![(**place).clone(), (*flight.place).clone()],
                );
            }
        }
        let others = |one: &Use| {
            let other = |other: &&Use| {
                other.buffer > one.buffer
                    && (one.writes || other.writes)
                    && one.range.meets(&other.range)
            };
            uses.iter().any(|u| other(&u))
        };
        if uses.iter().any(others) {
            let message =
                format!("The buffers of {} overlap, and it writes to one of them.", place.function);
            findings.add(Class::BufferOverlap, message, vec![(**place).clone()]);
        }
    }

    /// The latest operation in flight that must not share memory with a call.
    fn conflict(&self, used: &Use) -> Option<&Flight> {
        let (segment, range) = (used.range.segment, used.range);
        let reach = self.longest.get(&segment)?;
        let from = (segment, range.start.saturating_sub(*reach), 0);
        let near = self.all.range(from..(segment, range.end, 0));
        let meets = |(_, flight): &(&Key, &Flight)| {
            (flight.writes || used.writes) && flight.range.meets(&range)
        };
        near.filter(meets).max_by_key(|((_, _, number), _)| *number).map(|(_, flight)| flight)
    }

    /// Adds memory that is in flight until its owner is done.
    pub fn add(&mut self, owner: Owner, uses: &[Use], place: &Arc<Place>) {
        if uses.is_empty() {
            return;
        }
        let of_owner = match owner {
            Owner::Request(request) => self.requests.entry(request).or_default(),
            Owner::Window(window, target) => self.windows.entry((window, target)).or_default(),
        };
        for used in uses {
            let range = used.range;
            let key = (range.segment, range.start, self.begun);
            let longest = self.longest.entry(range.segment).or_default();
            *longest = (*longest).max(range.end.saturating_sub(range.start));
            of_owner.push(key);
            self.all.insert(key, Flight { range, writes: used.writes, place: place.clone() });
            self.begun += 1;
        }
    }

    /// How many ranges are in flight.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A request is complete.
    pub fn request_done(&mut self, request: u64) {
        for key in self.requests.remove(&request).unwrap_or_default() {
            self.all.remove(&key);
        }
    }

    /// The accesses to a window are complete: those to one rank, or all.
    pub fn window_done(&mut self, window: u64, target: Option<i64>) {
        let ranks = target.map_or(i64::MIN..=i64::MAX, |target| target..=target);
        let of_window = (window, *ranks.start())..=(window, *ranks.end());
        let done: Vec<_> = self.windows.range(of_window).map(|(owner, _)| *owner).collect();
        for owner in done {
            for key in self.windows.remove(&owner).unwrap_or_default() {
                self.all.remove(&key);
            }
        }
    }
}

fn verb(writes: bool) -> &'static str {
    if writes { "writes to" } else { "reads" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(segment: u32, start: i64, end: i64) -> Range {
        Range { segment: (0, segment), start, end }
    }

    fn place(function: &'static str) -> Arc<Place> {
        Arc::new(Place { rank: 0, thread: 0, number: 0, function, site: None })
    }

    fn found(then: Use, now: Use) -> bool {
        let (mut flights, mut findings) = (InFlight::default(), Findings::default());
        flights.add(Owner::Request(1), &[then], &place("MPI_Irecv"));
        flights.check(&[now], &place("MPI_Send"), &mut findings);
        !findings.is_empty()
    }

    #[test]
    fn memory_conflicts_if_a_byte_is_shared_and_one_side_writes() {
        let of = |range, writes| Use { range, writes, buffer: 0 };
        assert!(found(of(range(1, 0, 8), true), of(range(1, 7, 9), false)));
        assert!(found(of(range(1, 0, 8), false), of(range(1, 7, 9), true)));
        assert!(!found(of(range(1, 0, 8), false), of(range(1, 7, 9), false)));
        assert!(!found(of(range(1, 0, 8), true), of(range(1, 8, 9), true)));
        assert!(!found(of(range(1, 0, 8), true), of(range(2, 0, 9), true)));
    }

    #[test]
    fn the_latest_operation_is_named_whatever_lies_between() {
        let (mut flights, mut findings) = (InFlight::default(), Findings::default());
        let of = |range| Use { range, writes: true, buffer: 0 };
        flights.add(Owner::Request(1), &[of(range(1, 0, 100))], &place("MPI_Irecv"));
        flights.add(Owner::Request(2), &[of(range(1, 20, 24))], &place("MPI_Recv_init"));
        flights.add(Owner::Request(3), &[of(range(1, 90, 99))], &place("MPI_Ibcast"));
        flights.check(&[of(range(1, 30, 40))], &place("MPI_Send"), &mut findings);
        flights.check(&[of(range(1, 98, 120))], &place("MPI_Recv"), &mut findings);
        flights.check(&[of(range(1, 100, 120))], &place("MPI_Bcast"), &mut findings);
        let all = findings.into_sorted();
        let others: Vec<&str> = all.iter().map(|finding| finding.places[1].function).collect();
        assert_eq!(others, ["MPI_Irecv", "MPI_Ibcast"]);
    }

    #[test]
    fn memory_of_a_complete_operation_may_be_used_again() {
        let (mut flights, mut findings) = (InFlight::default(), Findings::default());
        let used = Use { range: range(1, 0, 8), writes: true, buffer: 0 };
        flights.add(Owner::Request(1), &[used], &place("MPI_Irecv"));
        flights.request_done(1);
        flights.check(&[used], &place("MPI_Recv"), &mut findings);
        assert!(findings.is_empty());
    }

    #[test]
    fn the_buffers_of_one_call_must_not_overlap() {
        let mut findings = Findings::default();
        let sent = Use { range: range(1, 0, 8), writes: false, buffer: 0 };
        let received = Use { range: range(1, 4, 12), writes: true, buffer: 1 };
        InFlight::default().check(&[sent, received], &place("MPI_Sendrecv"), &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
