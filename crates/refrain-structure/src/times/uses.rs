//! Which signatures, on which ranks, belong to a key; and so how many calls it has.

use crate::elastic::Variant;
use crate::group::{Group, Residue, Row};
use crate::merged::Merged;
use refrain_elastic::RankList;
use refrain_signature::timekey::{Derived, Detail, TimeKey, TimeKeys};
use std::collections::HashMap;

/// Ranks of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// All.
    All,
    /// Only these.
    Some(RankList),
}

/// A signature belongs to a key on some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The key's index in [`Uses::keys`].
    pub key: u32,
    /// The group's index.
    pub group: u32,
    /// The signature's index in the group.
    pub row: u32,
    /// On which ranks of the group.
    pub ranks: Ranks,
}

impl Use {
    /// The ranks.
    pub fn ranks<'m>(&'m self, merged: &'m Merged) -> Option<&'m RankList> {
        match &self.ranks {
            Ranks::All => merged.groups.get(self.group as usize).map(|group| &group.ranks),
            Ranks::Some(ranks) => Some(ranks),
        }
    }

    fn has(&self, rank: u32) -> bool {
        match &self.ranks {
            Ranks::All => true,
            Ranks::Some(ranks) => ranks.contains(rank),
        }
    }
}

/// How many calls a key has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Occurrences in the sequences of all ranks.
    pub occurrences: u64,
    /// Failed polls that were repeated at once.
    pub polls: u64,
}

impl Calls {
    /// Both.
    pub fn all(&self) -> u64 {
        self.occurrences.saturating_add(self.polls)
    }
}

/// The keys of all signatures of a trace.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// The distinct keys, in the order of their first use.
    pub keys: Vec<TimeKey>,
    /// By group and signature.
    pub all: Vec<Use>,
}

impl Uses {
    /// Derives the keys. Ranks are looked at one by one only where what a key consists of differs between them.
    pub fn of(merged: &Merged, detail: Detail) -> Uses {
        let functions = merged.functions.iter();
        let keys = TimeKeys::new(functions.map(|(number, text)| (*number, text.as_str())));
        let (mut uses, mut numbers) = (Uses::default(), HashMap::new());
        for (group_number, group) in (0..).zip(&merged.groups) {
            for (row_number, row) in (0..).zip(&group.rows) {
                for (key, ranks) in of_row(&keys, group, row) {
                    let key = key.at(detail);
                    let next = numbers.len() as u32;
                    let number = *numbers.entry(key).or_insert_with_key(|key| {
                        uses.keys.push(key.clone());
                        next
                    });
                    uses.all.push(Use { key: number, group: group_number, row: row_number, ranks });
                }
            }
        }
        uses
    }

    /// The uses of a signature.
    pub fn of_signature(&self, group: usize, row: usize) -> &[Use] {
        let wanted = (group, row);
        let place = |one: &Use| (one.group as usize, one.row as usize);
        let begin = self.all.partition_point(|one| place(one) < wanted);
        let end = self.all.partition_point(|one| place(one) <= wanted);
        self.all.get(begin..end).unwrap_or_default()
    }

    /// How many calls each key has. `residues` are those of all ranks: rank, thread, residue.
    pub fn calls<'r>(
        &self,
        merged: &Merged,
        residues: impl IntoIterator<Item = (u32, u32, &'r Residue)>,
    ) -> Vec<Calls> {
        let mut calls = vec![Calls::default(); self.keys.len()];
        let occurrences: Vec<Vec<u64>> = merged.groups.iter().map(Group::occurrences).collect();
        for one in &self.all {
            let of_group = occurrences.get(one.group as usize);
            let occurrences = of_group.and_then(|of| of.get(one.row as usize)).copied();
            let ranks = one.ranks(merged).map_or(0, |ranks| ranks.len() as u64);
            if let Some(calls) = calls.get_mut(one.key as usize) {
                let more = occurrences.unwrap_or(0).saturating_mul(ranks);
                calls.occurrences = calls.occurrences.saturating_add(more);
            }
        }
        for (rank, thread, residue) in residues.into_iter().filter(|(.., r)| !r.polls.is_empty()) {
            let mut groups = merged.groups.iter();
            let group = groups.position(|g| g.thread == thread && g.ranks.contains(rank));
            let Some(group) = group else { continue };
            for (row, polls) in &residue.polls {
                let mut of = self.of_signature(group, *row as usize).iter();
                let key = of.find(|one| one.has(rank)).map(|one| one.key as usize);
                if let Some(calls) = key.and_then(|key| calls.get_mut(key)) {
                    calls.polls = calls.polls.saturating_add(polls.total());
                }
            }
        }
        calls
    }
}

/// The keys of a signature, each with its ranks.
fn of_row(keys: &TimeKeys, group: &Group, row: &Row) -> Vec<(TimeKey, Ranks)> {
    let mut all = Vec::new();
    for variant in &row.cells.variants {
        let ranks = variant.ranks.as_ref().unwrap_or(&group.ranks);
        let Some(first) = ranks.first() else { continue };
        let Some(derived) = derive(keys, group, row, first) else { continue };
        if is_same(&derived, group, variant) {
            let ranks = variant.ranks.clone().map_or(Ranks::All, Ranks::Some);
            all.push((derived.key, ranks));
            continue;
        }
        let mut by_key: HashMap<TimeKey, Vec<u32>> = HashMap::new();
        for rank in ranks.iter() {
            if let Some(derived) = derive(keys, group, row, rank) {
                by_key.entry(derived.key).or_default().push(rank);
            }
        }
        let mut by_key: Vec<_> = by_key.into_iter().collect();
        by_key.sort_unstable();
        all.extend(
            by_key
                .into_iter()
                .map(|(key, ranks)| (key, Ranks::Some(RankList::from_sorted(&ranks)))),
        );
    }
    all
}

/// The key on one rank.
fn derive(keys: &TimeKeys, group: &Group, row: &Row, rank: u32) -> Option<Derived> {
    let site = |number: u32| Some(group.strings.get(number as usize)?.eval(rank)?.into());
    keys.of(&row.cells.cells(rank)?, site, &group.predefined)
}

/// Whether the key is the same on all ranks of a variant.
fn is_same(derived: &Derived, group: &Group, variant: &Variant) -> bool {
    let text = derived.site.and_then(|site| group.strings.get(site as usize));
    text.is_none_or(|text| text.constant().is_some())
        && variant.columns.iter().all(|(index, _)| *index >= derived.cells)
}
