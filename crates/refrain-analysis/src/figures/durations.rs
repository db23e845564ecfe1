//! Durations by function and call site, from the statistics of a trace or from the times of every call.

use super::{By, Count, Key};
use refrain_reader::durations::{ByKey, Durations, Ranks};
use refrain_reader::trace::{Group, Stats};
use refrain_reader::{CallTrace, Item, Source, TraceError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Durations of some calls, by function and call site.
type SingleTimes = HashMap<String, HashMap<Option<Arc<str>>, Stats>>;

/// Durations of single ranks, of all threads or of one, from the times of every call; `None` if the trace has none.
fn single_times(
    trace: &CallTrace,
    ranks: &BTreeSet<u32>,
    thread: Option<u32>,
    by: By,
) -> Result<Option<SingleTimes>, TraceError> {
    if !trace.has_times() && !trace.has_raw() {
        return Ok(None);
    }
    let is_wanted = |found: u32| thread.is_none_or(|thread| thread == found);
    let mut all = SingleTimes::new();
    for process in trace.processes().filter(|p| ranks.contains(&p.rank_index())) {
        for task in process.tasks().filter(|task| is_wanted(task.thread())) {
            // When the last call returned at each depth: nested calls do not end the gap before the outer call.
            let mut returned: Option<u64> = None;
            for item in task.items(Source::RecordTimes)? {
                let Item::Call(call) = item? else { continue };
                let event = call.event();
                let gap = returned.map_or(0, |before| event.start.saturating_sub(before));
                let Some(end) = event.end else { continue };
                returned = Some(returned.map_or(end, |before| before.max(end)));
                let duration = end.saturating_sub(event.start);
                let site = call.site().filter(|_| by == By::Site).cloned();
                if !all.contains_key(call.name()) {
                    all.insert(call.name().to_owned(), HashMap::new());
                }
                if let Some(sites) = all.get_mut(call.name()) {
                    sites.entry(site).or_default().note(duration, gap);
                }
            }
        }
    }
    Ok(Some(all))
}

/// Whether some ranks are wanted, and whether some are not.
#[derive(Clone, Copy, Default)]
struct Wanted {
    some: bool,
    others: bool,
}

impl Count<'_> {
    /// Adds the durations of the calls that were counted.
    pub(super) fn durations(&mut self, durations: &Durations) -> Result<(), TraceError> {
        match durations {
            Durations::BySignature(rows) => self.by_signature(rows),
            Durations::ByKey(by) => self.by_key(by),
        }
    }

    fn wanted(&self, ranks: impl Iterator<Item = u32>) -> Wanted {
        let mut wanted = Wanted::default();
        for rank in ranks {
            match self.ranks.contains_key(&rank) {
                true => wanted.some = true,
                false => wanted.others = true,
            }
        }
        wanted
    }

    /// From statistics of each signature of each group.
    fn by_signature(&mut self, rows: &[Vec<Stats>]) -> Result<(), TraceError> {
        let mut untimed = BTreeSet::new();
        let trace = self.trace;
        for (number, (group, rows)) in trace.structure()?.groups.iter().zip(rows).enumerate() {
            let wanted = self.wanted(group.ranks.iter());
            if wanted.some && wanted.others {
                let ranks = self.ranks_of(group).into_iter().collect();
                match single_times(trace, &ranks, Some(group.thread), self.by)? {
                    Some(times) => self.add_single(&times, |_| true),
                    None => untimed.extend(self.known[number].called.iter().cloned()),
                }
            }
            if !wanted.some || wanted.others {
                continue;
            }
            for (row, (stats, key)) in rows.iter().zip(&self.known[number].keys).enumerate() {
                let figures = key.as_ref().and_then(|key| self.figures.get_mut(key));
                if let Some(figures) = figures.filter(|_| !never_returns(group, row)) {
                    figures.stats.add(stats);
                }
            }
        }
        self.without_times(&untimed);
        Ok(())
    }

    /// From statistics over all ranks.
    fn by_key(&mut self, by: &ByKey) -> Result<(), TraceError> {
        let trace = self.trace;
        let merged = trace.structure()?;
        // What each key counts for.
        let mut keys: Vec<Option<Key>> = vec![None; by.stats.len()];
        let mut wanted = vec![Wanted::default(); by.stats.len()];
        let mut of_group: BTreeMap<u32, Wanted> = BTreeMap::new();
        for one in &by.uses.all {
            let (group, key) = (one.group, one.key as usize);
            let Some(ranks) = one.ranks(merged) else { continue };
            let here = match one.ranks {
                Ranks::All => *of_group.entry(group).or_insert_with(|| self.wanted(ranks.iter())),
                Ranks::Some(_) => self.wanted(ranks.iter()),
            };
            wanted[key].some |= here.some;
            wanted[key].others |= here.others;
            if keys[key].is_none() {
                keys[key].clone_from(&self.known[group as usize].keys[one.row as usize]);
            }
        }
        let mut partial = BTreeSet::new();
        for ((stats, key), wanted) in by.stats.iter().zip(keys).zip(wanted) {
            let Some(key) = key.filter(|_| wanted.some) else { continue };
            if wanted.others {
                partial.insert(key);
            } else if let (Some(stats), Some(figures)) = (stats, self.figures.get_mut(&key)) {
                figures.stats.add(stats);
            }
        }
        if partial.is_empty() {
            return Ok(());
        }
        let ranks = self.ranks.keys().copied().collect();
        let single = single_times(trace, &ranks, None, self.by)?;
        let is_timed = single.is_some();
        self.without_times(&partial);
        if let Some(times) = single {
            self.add_single(&times, |key| partial.contains(key));
        }
        for key in partial.iter().filter(|_| is_timed) {
            if let Some(figures) = self.figures.get_mut(key) {
                figures.is_untimed = false;
            }
        }
        Ok(())
    }

    /// Adds the times of single calls.
    fn add_single(&mut self, times: &SingleTimes, is_wanted: impl Fn(&Key) -> bool) {
        for (function, sites) in times {
            let mut known = self.functions.iter();
            let number = known.find(|(_, form)| form.name == *function).map(|(number, _)| *number);
            for (site, stats) in sites {
                let key = number.map(|number| (number, site.clone())).filter(&is_wanted);
                if let Some(figures) = key.and_then(|key| self.figures.get_mut(&key)) {
                    figures.stats.add(stats);
                }
            }
        }
    }

    /// These have no known durations.
    fn without_times(&mut self, keys: &BTreeSet<Key>) {
        for key in keys {
            if let Some(figures) = self.figures.get_mut(key) {
                figures.stats = Stats::default();
                figures.is_untimed = true;
            }
        }
    }
}

/// Whether the calls of a signature never returned: they have no duration, and the trace has 0 instead.
fn never_returns(group: &Group, row: usize) -> bool {
    group.rows.get(row).and_then(|row| row.head()).is_some_and(|head| !head.returned)
}
