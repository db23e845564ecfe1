//! Where a list of keys has ended in the same way before.
//!
//! Short repetitions are looked for one length after the other. Two stretches of at least [`NEAR`] nodes that are alike end
//! with the same keys: so positions are indexed by the hash of so many keys that end there. In a sequence without structure
//! hardly one of these occurs twice, and a search for repetitions ends at once.

use crate::folded::mix;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// The base of the hash of stretches.
pub(crate) const BASE: u64 = 0x0100_0000_01b3_9e3d;
/// Shorter stretches are looked for one length after the other.
const NEAR: usize = 16;
/// Stretches are found again if they end at most so many ends before.
const FAR: usize = 1 << 16;
/// Powers of the base up to this one are kept.
const POWERS: usize = 1 << 12;

/// The keys of a list, hashed, and where so many keys in a row are.
#[derive(Debug)]
pub(crate) struct Stretches {
    keys: Vec<u64>,
    /// For each position, the hash of all keys before it.
    hashes: Vec<u64>,
    /// For each position: which of the loops it is, plus one.
    loops_at: Vec<u32>,
    /// Loops over several nodes, by ascending positions.
    loops: Vec<Body>,
    /// The powers of the base.
    powers: Vec<u64>,
    /// The ends of all stretches of [`NEAR`] keys, ascending. A loop may have two: that of its key, and that of its body.
    ends: Ends,
}

/// The body of a loop.
#[derive(Clone, Copy, Debug)]
struct Body {
    position: usize,
    nodes: usize,
    /// The hash of its keys.
    hash: u64,
}

/// A map from keys.
pub(crate) type KeyMap<T> = HashMap<u64, T, BuildHasherDefault<Mixed>>;
/// A set of keys.
pub(crate) type Keys = HashSet<u64, BuildHasherDefault<Mixed>>;

/// Keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

impl Default for Stretches {
    fn default() -> Stretches {
        Stretches {
            keys: Vec::new(),
            hashes: vec![0],
            loops_at: Vec::new(),
            loops: Vec::new(),
            powers: vec![1],
            ends: Ends::default(),
        }
    }
}

impl Stretches {
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Appends a node with the keys of its body, if it is a loop over several nodes.
    pub(crate) fn push(&mut self, key: u64, body: &[u64]) {
        let position = self.keys.len();
        let hash = self.hashes.last().copied().unwrap_or(0);
        self.hashes.push(next_hash(hash, key));
        self.keys.push(key);
        if self.powers.len() <= self.keys.len().min(POWERS) {
            let last = self.powers.last().copied().unwrap_or(1);
            self.powers.push(last.wrapping_mul(BASE));
        }
        self.loops_at.push(0);
        if self.keys.len() >= NEAR {
            self.ends.add(self.hash(self.keys.len() - NEAR, self.keys.len()), position);
        }
        if body.len() >= NEAR {
            self.ends.add(hash_of(&body[body.len() - NEAR..]), position);
        }
        self.set_last_body(body);
    }

    /// The last node has become a loop.
    pub(crate) fn set_last_body(&mut self, body: &[u64]) {
        let position = self.keys.len().wrapping_sub(1);
        let Some(at) = self.loops_at.last_mut() else { return };
        if *at > 0 {
            self.loops.pop();
        }
        *at = 0;
        if body.len() > 1 {
            self.loops.push(Body { position, nodes: body.len(), hash: hash_of(body) });
            *at = self.loops.len() as u32;
        }
    }

    /// Removes the nodes from a position on.
    pub(crate) fn cut(&mut self, from: usize) {
        self.ends.cut(from);
        while self.loops.last().is_some_and(|body| body.position >= from) {
            self.loops.pop();
        }
        self.keys.truncate(from);
        self.hashes.truncate(from + 1);
        self.loops_at.truncate(from);
    }

    /// The hash of the keys from a position to another.
    fn hash(&self, from: usize, to: usize) -> u64 {
        let length = to - from;
        let power = self.powers.get(length).copied();
        let power = power.unwrap_or_else(|| BASE.wrapping_pow(length as u32));
        self.hashes[to].wrapping_sub(self.hashes[from].wrapping_mul(power))
    }

    /// The end of the list as the second of two stretches that are alike, or as one more iteration of a loop: the position of
    /// the first stretch or loop, whether it is a loop, and where the end begins. Of `tries` long candidates the nearest that
    /// `is_wanted`, given where the end begins.
    pub(crate) fn repetition(
        &self,
        tries: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<(usize, bool)> {
        let end = self.keys.len();
        // From the last but two on: a stretch has at least two nodes.
        let last = *self.keys.last()?;
        let (from, to) = (end.saturating_sub(NEAR), end.saturating_sub(2));
        let before = self.keys[from..to].iter().zip(&self.loops_at[from..to]);
        let may_be = |(key, body): (&u64, &u32)| *key == last || *body > 0;
        let mut lengths = before.rev().zip(2..).filter(|(node, _)| may_be(*node));
        let near = lengths.find_map(|(_, length)| self.alike(length, &is_wanted));
        if near.is_some() || end < NEAR {
            return near;
        }
        let far = self.ends.before_last(end - 1);
        // A stretch may overlap an earlier one with its keys.
        let lengths = far.map(|position| end - 1 - position).filter(|length| *length >= NEAR);
        lengths.take(tries).find_map(|length| self.alike(length, &is_wanted))
    }

    /// The last nodes, so many, as one of two stretches or as an iteration.
    fn alike(&self, length: usize, is_wanted: &impl Fn(usize) -> bool) -> Option<(usize, bool)> {
        let end = self.keys.len();
        let at = end - 1 - length;
        let body = (self.loops_at[at] as usize).checked_sub(1).map(|body| &self.loops[body]);
        let body = body.filter(|body| body.nodes == length);
        let may_be_pair = self.keys[at] == self.keys[end - 1] && at + 1 >= length;
        if body.is_none() && !may_be_pair {
            return None;
        }
        let hash = self.hash(at + 1, end);
        let is_loop = body.is_some_and(|body| body.hash == hash);
        let is_pair = may_be_pair && self.hash(at + 1 - length, at + 1) == hash;
        ((is_loop || is_pair) && is_wanted(at + 1))
            .then(|| (if is_loop { at } else { at + 1 - length }, is_loop))
    }
}

/// Where stretches of [`NEAR`] keys end, by their hash. The table has room for [`FAR`] ends, so that it fits the
/// processor's cache: chains lead to all ends before, and are followed as far as that.
#[derive(Debug, Default)]
struct Ends {
    /// Ascending positions.
    all: Vec<End>,
    /// By the last bits of a hash: the last end with these bits, plus one.
    last: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    hash: u64,
    position: u32,
    /// The end before it with the same last bits, plus one.
    before: u32,
}

impl Ends {
    fn add(&mut self, hash: u64, position: usize) {
        if self.all.len() * 2 >= self.last.len() && self.last.len() < 2 * FAR {
            self.grow();
        }
        let this = self.all.len() as u32 + 1;
        let slot = self.slot(hash);
        let before = std::mem::replace(&mut self.last[slot], this);
        self.all.push(End { hash, position: position as u32, before });
    }

    fn slot(&self, hash: u64) -> usize {
        mix(hash) as usize & (self.last.len() - 1)
    }

    fn grow(&mut self) {
        self.last = vec![0; (self.last.len() * 2).max(64)];
        for at in 0..self.all.len() {
            let slot = self.slot(self.all[at].hash);
            self.all[at].before = std::mem::replace(&mut self.last[slot], at as u32 + 1);
        }
    }

    /// Removes the ends from a position on.
    fn cut(&mut self, from: usize) {
        while let Some(End { hash, before, .. }) =
            self.all.pop_if(|end| end.position as usize >= from)
        {
            let slot = self.slot(hash);
            self.last[slot] = before;
        }
    }

    /// Positions where the stretch ends that ends at `position`, which is the last one; nearest first.
    fn before_last(&self, position: usize) -> impl Iterator<Item = usize> {
        // The first of the ends at the last position is that of the list.
        let here = self.all.iter().rev().take_while(|end| end.position as usize == position);
        let own = here.last().copied();
        let hash = own.map_or(0, |end| end.hash);
        let least = self.all.len().saturating_sub(FAR);
        let next = move |end: &End| {
            let at = (end.before as usize).checked_sub(1)?;
            self.all.get(at).filter(|_| at >= least).copied()
        };
        std::iter::successors(own.and_then(|end| next(&end)), next)
            .filter(move |end| end.hash == hash)
            .map(|end| end.position as usize)
    }
}

fn next_hash(before: u64, key: u64) -> u64 {
    before.wrapping_mul(BASE).wrapping_add(mix(key))
}

fn hash_of(keys: &[u64]) -> u64 {
    keys.iter().fold(0, |hash, key| next_hash(hash, *key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A list, and what each node of it is a loop over.
    type List = Vec<(u64, Vec<u64>)>;

    /// The nearest repetition at the end, found by comparing keys.
    fn expected(list: &List) -> Option<(usize, bool)> {
        let keys: Vec<u64> = list.iter().map(|(key, _)| *key).collect();
        (2..keys.len()).find_map(|length| {
            let at = keys.len() - 1 - length;
            let last = &keys[at + 1..];
            if list[at].1 == last {
                return Some((at, true));
            }
            let from = (at + 1).checked_sub(length)?;
            (keys[from..=at] == *last).then_some((from, false))
        })
    }

    /// Nodes of few kinds, or many again that were there before.
    fn steps() -> impl Strategy<Value = Vec<(u8, u64, usize)>> {
        prop::collection::vec((0u8..12, 1u64..4, 2usize..40), 0..120)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn repetitions_are_those_that_a_comparison_of_keys_finds(steps in steps()) {
            let (mut stretches, mut list) = (Stretches::default(), List::new());
            for (what, key, length) in steps {
                let add = match what {
                    // The last nodes once more.
                    0 | 1 => list[list.len().saturating_sub(length)..].to_vec(),
                    // A loop over the last nodes, and one more iteration.
                    2 if list.len() >= length => {
                        let body: Vec<(u64, Vec<u64>)> = list[list.len() - length..].to_vec();
                        let keys = body.iter().map(|(key, _)| *key).collect();
                        std::iter::once((100 + length as u64, keys)).chain(body).collect()
                    }
                    3 => {
                        let from = list.len().saturating_sub(length);
                        list.truncate(from);
                        stretches.cut(from);
                        List::new()
                    }
                    _ => vec![(key, Vec::new())],
                };
                for (key, body) in add {
                    stretches.push(key, &body);
                    list.push((key, body));
                    prop_assert_eq!(stretches.repetition(usize::MAX, |_| true), expected(&list));
                }
            }
        }
    }
}
