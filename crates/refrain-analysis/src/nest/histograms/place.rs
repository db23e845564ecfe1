//! The loop nest of ranks while these are merged: every place has its visits by rank.

use super::gathered::Gathered;
use std::collections::{BTreeMap, BTreeSet};

/// How often each rank visits a place.
pub(super) type Visits = BTreeMap<u32, u64>;

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// How often each rank gets there.
    pub visits: Visits,
    /// What it is.
    pub what: What,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A call.
    Call(Box<Call>),
    /// A loop, or a condition: then trip counts are 0 or 1.
    Loop {
        /// Whether it is a condition.
        is_condition: bool,
        /// Trip counts.
        trips: Gathered,
        /// What is repeated.
        body: Vec<Place>,
    },
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub skeleton: u32,
    pub function: u16,
    pub returned: bool,
    pub sites: Vec<Vec<u8>>,
    pub arguments: Vec<Argument>,
    /// Skeletons of the calls whose requests it completes.
    pub requests: BTreeSet<u32>,
    pub calls: u64,
    pub nanoseconds: f64,
    pub gaps: f64,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub param: u16,
    pub parts: Vec<Part>,
}

/// A part of an argument.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Whether values are numbers of words.
    pub is_word: bool,
    pub values: Gathered,
}

impl Call {
    /// Adds the calls of another node of the same place; `add` adds values to values.
    pub fn absorb(&mut self, other: Call, add: &mut dyn FnMut(&mut Gathered, &Gathered)) {
        for site in other.sites {
            if !self.sites.contains(&site) {
                self.sites.push(site);
            }
        }
        for (ours, theirs) in self.arguments.iter_mut().zip(other.arguments) {
            let is_alike = ours.parts.len() == theirs.parts.len()
                && ours.parts.iter().zip(&theirs.parts).all(|(a, b)| a.is_word == b.is_word);
            if is_alike {
                for (part, other) in ours.parts.iter_mut().zip(&theirs.parts) {
                    add(&mut part.values, &other.values);
                }
                continue;
            }
            // An argument that has other parts elsewhere: what most calls have.
            ours.parts.iter_mut().for_each(|part| part.values.exact = None);
            if other.calls > self.calls {
                ours.parts = theirs.parts;
                ours.parts.iter_mut().for_each(|part| part.values.exact = None);
            }
        }
        self.requests.extend(other.requests);
        self.calls = self.calls.saturating_add(other.calls);
        self.nanoseconds += other.nanoseconds;
        self.gaps += other.gaps;
    }
}

impl Place {
    /// The skeletons in it.
    pub fn skeletons(&self) -> BTreeSet<u32> {
        let mut all = BTreeSet::new();
        self.each_skeleton(&mut |skeleton| {
            all.insert(skeleton);
        });
        all
    }

    /// Visits the skeleton of each call in it.
    pub fn each_skeleton(&self, visit: &mut impl FnMut(u32)) {
        match &self.what {
            What::Call(call) => visit(call.skeleton),
            What::Loop { body, .. } => body.iter().for_each(|node| node.each_skeleton(visit)),
        }
    }

    /// Forgets in which loops it is.
    pub fn forget_visits(&mut self) {
        match &mut self.what {
            What::Call(call) => {
                let parts = call.arguments.iter_mut().flat_map(|argument| &mut argument.parts);
                parts.for_each(|part| part.values.forget_visits());
            }
            What::Loop { trips, body, .. } => {
                trips.forget_visits();
                body.iter_mut().for_each(Place::forget_visits);
            }
        }
    }

    /// A condition that always holds around a node.
    pub fn once(self) -> Place {
        let visits = self.visits.clone();
        let trips = Gathered::constant(1, &visits);
        Place { visits, what: What::Loop { is_condition: true, trips, body: vec![self] } }
    }
}

/// The visits of both.
pub(super) fn sum(ours: &Visits, theirs: &Visits) -> Visits {
    let mut all = ours.clone();
    for (rank, visits) in theirs {
        let sum = all.entry(*rank).or_default();
        *sum = sum.saturating_add(*visits);
    }
    all
}
