//! Accesses to windows that conflict (MPI 4.1 §12.7).
//!
//! Two accesses to the same bytes conflict if one of them changes these, both are not accumulates of one operation, and
//! neither is complete before the other begins. An access is complete when its epoch ends; whether another process knows
//! that is decided by vector clocks.

use crate::clock::Clock;
use crate::finding::{Class, Findings, Place};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Kinds of accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A remote write.
    Put,
    /// A remote read.
    Get,
    /// An atomic change, with its operation if that is predefined.
    Accumulate(Option<Arc<str>>),
    /// The owner's own call reads its memory.
    Load,
    /// The owner's own call writes to its memory.
    Store,
}

impl Kind {
    fn conflicts(&self, other: &Kind) -> bool {
        let reads = |kind: &Kind| matches!(kind, Kind::Get | Kind::Load);
        match (self, other) {
            (a, b) if reads(a) && reads(b) => false,
            // The owner's accesses among each other are in its own order.
            (Kind::Load | Kind::Store, Kind::Load | Kind::Store) => false,
            (Kind::Accumulate(a), Kind::Accumulate(b)) => {
                let atomic =
                    |op: &Option<Arc<str>>| op.is_none() || op.as_deref() == Some("MPI_NO_OP");
                a != b && !atomic(a) && !atomic(b)
            }
            _ => true,
        }
    }

    fn verb(&self) -> &'static str {
        match self {
            Kind::Put | Kind::Store => "writes to",
            Kind::Get | Kind::Load => "reads",
            Kind::Accumulate(_) => "updates",
        }
    }
}

/// Where in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// From that byte to before that.
    Bytes(i64, i64),
    /// From that displacement, in units of the target, so many bytes.
    Units(i64, i64),
}

/// An access.
#[derive(Clone, Debug)]
pub struct Access {
    /// The window.
    pub window: u64,
    /// The rank whose memory is accessed.
    pub target: i32,
    /// Which memory.
    pub at: At,
    /// What is done.
    pub kind: Kind,
    /// The call.
    pub place: Arc<Place>,
    /// Whether a lock excludes other origins.
    pub is_exclusive: bool,
    /// Whether it is complete when the call returns.
    pub ends_at_once: bool,
}

/// What a process gives to a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Bytes.
    pub size: Option<i64>,
    /// Bytes of a unit of displacements.
    pub unit: Option<i64>,
}

#[derive(Debug)]
struct Known {
    access: Access,
    bytes: (i64, i64),
    /// The rank that makes it, and its step that completes it.
    rank: usize,
    end: Option<u32>,
}

/// More accesses to one process's memory are not kept: older ones are forgotten.
const KEPT: usize = 512;

/// The accesses of all processes.
#[derive(Debug, Default)]
pub struct Windows {
    shapes: HashMap<(u64, i32), Shape>,
    known: HashMap<(u64, i32), Vec<Known>>,
    /// Windows, or all, whose accesses are put in order by means that are not followed.
    unordered: HashSet<u64>,
    all_unordered: bool,
}

impl Windows {
    /// A process gives memory to a window.
    pub fn add(&mut self, window: u64, rank: i32, shape: Shape) {
        self.shapes.insert((window, rank), shape);
    }

    /// Conflicts in a window, or in all, are not looked for from here on.
    pub fn ignore(&mut self, window: Option<u64>) {
        match window {
            Some(window) => drop(self.unordered.insert(window)),
            None => self.all_unordered = true,
        }
    }

    /// An access of a rank whose clock is given.
    pub fn access(&mut self, access: Access, rank: usize, clock: &Clock, findings: &mut Findings) {
        let shape = self.shapes.get(&(access.window, access.target)).copied().unwrap_or_default();
        let bytes = match access.at {
            At::Bytes(start, end) => Some((start, end)),
            At::Units(at, bytes) => shape.unit.and_then(|unit| {
                let start = at.checked_mul(unit)?;
                Some((start, start.checked_add(bytes)?))
            }),
        };
        let Some((start, end)) = bytes else { return };
        if let (At::Units(..), Some(size)) = (access.at, shape.size)
            && (start < 0 || end > size)
        {
            let message = format!(
                "{} accesses bytes {start} to {end} of a window that has {size} bytes there.",
                access.place.function
            );
            findings.add(Class::RmaRange, message, vec![(*access.place).clone()]);
        }
        if self.all_unordered || self.unordered.contains(&access.window) {
            return;
        }
        let known = self.known.entry((access.window, access.target)).or_default();
        let conflicts = |other: &&Known| {
            let is_over = other.end.is_some_and(|end| clock.of(other.rank) >= end);
            // An exclusive lock excludes the locks of all other origins.
            let is_remote = |kind: &Kind| !matches!(kind, Kind::Load | Kind::Store);
            let is_apart = other.rank != rank
                && (other.access.is_exclusive || access.is_exclusive)
                && is_remote(&other.access.kind)
                && is_remote(&access.kind);
            other.bytes.0 < end
                && start < other.bytes.1
                && !is_over
                && !is_apart
                && access.kind.conflicts(&other.access.kind)
        };
        if let Some(other) = known.iter().rev().find(conflicts) {
            let (now, then) = (access.kind.verb(), other.access.kind.verb());
            let (a, b) = (&access.place.function, &other.access.place.function);
            let message = format!(
                "{a} {now} memory of a window that {b} {then}, and no synchronization separates them."
            );
            let places = vec![(*access.place).clone(), (*other.access.place).clone()];
            findings.add(Class::RmaConflict, message, places);
        }
        if known.len() >= KEPT {
            known.drain(..KEPT / 2);
        }
        // A call that only touches the owner's memory is complete with the owner's next step.
        let done = access.ends_at_once.then(|| clock.of(rank).saturating_add(1));
        known.push(Known { access, bytes: (start, end), rank, end: done });
    }

    /// A rank's accesses to a window, or to the memory of one rank in it, are complete with that step.
    pub fn synchronize(&mut self, window: u64, target: Option<i32>, rank: usize, step: u32) {
        for ((of, to), known) in &mut self.known {
            if *of != window {
                continue;
            }
            for one in known.iter_mut().filter(|one| one.rank == rank && one.end.is_none()) {
                let is_own = matches!(one.access.kind, Kind::Load | Kind::Store);
                if target.is_none_or(|target| target == *to) || is_own {
                    one.end = Some(step);
                }
            }
        }
    }

    /// How many accesses are known.
    pub fn len(&self) -> usize {
        self.known.values().map(Vec::len).sum()
    }

    /// Forgets accesses that are complete, as all of these clocks know.
    pub fn forget(&mut self, clocks: &[Clock]) {
        for known in self.known.values_mut() {
            known.retain(|one| {
                one.end.is_none_or(|end| clocks.iter().any(|clock| clock.of(one.rank) < end))
            });
        }
    }
}
