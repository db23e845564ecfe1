//! Folded nests: loops with variable trip counts over calls with variable values.
//!
//! A leaf stands for all calls with one *skeleton* (function, call site, kinds of objects) at one place of the
//! program. What differs between its visits is a value vector in generation order (ScalaTrace II §3.1), and so are
//! the trip counts of a loop. A loop whose trip counts are 0 or 1 is a condition.

use crate::Nest;
use crate::heads::Heads;
use crate::seq::Seq;

/// All visits of one place of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visits {
    /// The skeleton of its calls.
    pub skeleton: u32,
    /// The value of each visit, in order.
    pub values: Seq<u32>,
}

/// Something that stands for one place of the program.
pub trait Place {
    /// The skeleton of its calls.
    fn skeleton(&self) -> u32;
}

impl Place for Visits {
    fn skeleton(&self) -> u32 {
        self.skeleton
    }
}

/// A node of a folded nest. Trip counts are in the order of the loop's executions.
pub type Folded = Nest<Visits, Seq<u64>>;

impl<L: Place, C> Nest<L, C> {
    /// How many places of the program it has.
    pub fn places(&self) -> usize {
        match self {
            Nest::Leaf(_) => 1,
            Nest::Loop { body, .. } => body.iter().map(Nest::places).sum(),
            Nest::Block(_) => 0,
        }
    }

    /// A hash of its skeletons and loops, without trip counts and values. A loop over a single node has the key of that
    /// node: one visit of a call is a loop with one iteration (ScalaTrace II §3.2.1, rule 2).
    pub fn key(&self) -> u64 {
        match self {
            Nest::Leaf(leaf) => mix(u64::from(leaf.skeleton()) + 1),
            Nest::Loop { body, .. } => match body.as_slice() {
                [single] => single.key(),
                body => body.iter().fold(mix(u64::MAX), |key, node| mix(key ^ node.key())),
            },
            Nest::Block(_) => 0,
        }
    }

    /// The key of its first call.
    pub(crate) fn first_key(&self) -> u64 {
        match self {
            Nest::Loop { body, .. } => body.first().map_or(0, Nest::first_key),
            node => node.key(),
        }
    }

    /// The skeleton of its first call.
    pub(crate) fn first_skeleton(&self) -> Option<u32> {
        match self {
            Nest::Leaf(leaf) => Some(leaf.skeleton()),
            Nest::Loop { body, .. } => body.first()?.first_skeleton(),
            Nest::Block(_) => None,
        }
    }
}

impl Folded {
    /// A single call.
    pub fn call(skeleton: u32, value: u32) -> Folded {
        Nest::Leaf(Visits { skeleton, values: Seq::run(value, 1) })
    }

    /// How often it is visited: for a loop, how often it is entered, even if for no iteration.
    pub fn visits(&self) -> u64 {
        match self {
            Nest::Leaf(visits) => visits.values.len(),
            Nest::Loop { count, .. } => count.len(),
            Nest::Block(_) => 0,
        }
    }

    /// How many calls it executes.
    pub fn calls(&self) -> u64 {
        match self {
            Nest::Leaf(visits) => visits.values.len(),
            Nest::Loop { body, .. } => body.iter().map(Folded::calls).fold(0, u64::saturating_add),
            Nest::Block(_) => 0,
        }
    }

    /// Whether iterations begin with its first call.
    pub(crate) fn begins_in(&self, heads: &Heads) -> bool {
        self.first_skeleton().is_some_and(|skeleton| heads.contains_key(&skeleton))
    }

    /// The node, executed `count` times in a row by a loop around it.
    #[must_use]
    pub fn repeat(self, count: u64) -> Folded {
        match self {
            Nest::Leaf(Visits { skeleton, values }) => {
                Nest::Leaf(Visits { skeleton, values: values.repeat(count) })
            }
            Nest::Loop { count: trips, body } => Nest::Loop {
                count: trips.repeat(count),
                body: body.into_iter().map(|node| node.repeat(count)).collect(),
            },
            block => block,
        }
    }

    /// How often its visits repeat their beginning: all visits if they are alike.
    pub(crate) fn repeats(&self) -> u64 {
        match self {
            Nest::Leaf(visits) => visits.values.repeats(),
            Nest::Loop { count, body } => {
                // Its visits repeat so often as those of the body and the trip counts both do.
                let all = body.iter().map(Folded::repeats).chain([count.repeats()]);
                all.fold(0, |a, b| if a == 0 { b } else { gcd(a, b) })
            }
            Nest::Block(_) => 1,
        }
    }

    /// Appends the visits of a node with the same structure.
    pub(crate) fn append(&mut self, next: Folded) {
        match (self, next) {
            (Nest::Leaf(visits), Nest::Leaf(next)) => visits.values.append(next.values),
            (Nest::Loop { count, body }, Nest::Loop { count: more, body: next }) => {
                count.append(more);
                body.iter_mut().zip(next).for_each(|(node, next)| node.append(next));
            }
            _ => {}
        }
    }

    /// Removes the visits from the `at`-th on and returns them.
    #[must_use]
    pub fn split_off(&mut self, at: u64) -> Folded {
        match self {
            Nest::Leaf(Visits { skeleton, values }) => {
                Nest::Leaf(Visits { skeleton: *skeleton, values: values.split_off(at) })
            }
            Nest::Loop { count, body } => {
                let after = count.split_off(at);
                let iterations = match count.width() <= after.width() {
                    true => count.sum(),
                    false => body.first().map_or(0, Folded::visits) - after.sum(),
                };
                let body = body.iter_mut().map(|node| node.split_off(iterations)).collect();
                Nest::Loop { count: after, body }
            }
            Nest::Block(block) => Nest::Block(*block),
        }
    }

    /// The trip counts and the body of the node as a loop: a node that is no loop has one iteration per visit.
    pub(crate) fn into_loop(self) -> (Seq<u64>, Vec<Folded>) {
        match self {
            Nest::Loop { count, body } => (count, body),
            node => (Seq::run(1, node.visits()), vec![node]),
        }
    }

    /// The node without loops that always have one iteration, and without what is never executed.
    pub fn simplified(self, out: &mut Vec<Folded>) {
        let Nest::Loop { count, body } = self else {
            out.push(self);
            return;
        };
        let mut inner = Vec::new();
        body.into_iter().for_each(|node| node.simplified(&mut inner));
        if inner.is_empty() || count.sum() == 0 {
            return;
        }
        match (count.constant(), inner.as_mut_slice()) {
            (Some(1), _) => out.append(&mut inner),
            // A condition around a loop is a loop that may have no iteration.
            (_, [Nest::Loop { count: trips, .. }])
                if count.len() <= MOST_VISITS && is_condition(&count) =>
            {
                let mut trips = std::mem::take(trips);
                let mut all = Seq::default();
                for holds in count.iter() {
                    let rest = trips.split_off(holds);
                    all.append(if holds == 0 { Seq::run(0, 1) } else { trips });
                    trips = rest;
                }
                let Some(Nest::Loop { body, .. }) = inner.pop() else { return };
                out.push(Nest::Loop { count: all, body });
            }
            _ => out.push(Nest::Loop { count, body: inner }),
        }
    }
}

/// More visits are not looked at one by one.
const MOST_VISITS: u64 = 1 << 20;

/// The greatest common divisor.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether trip counts are 0 or 1.
pub(crate) fn is_condition(count: &Seq<u64>) -> bool {
    let mut is_condition = true;
    count.tally(&mut |trips, _| is_condition &= trips < 2);
    is_condition
}

/// One step of a hash.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (value ^ (value >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
