//! Statistics of durations: how long calls take, and how long before them their rank computes, by time key
//! ([`refrain_signature::timekey`]) and over all ranks.
//!
//! While traces are merged, statistics are exact ([`Times`]). A file has a [`Summary`] of each key, rounded to what is
//! worth storing, all of them coded together ([`write`], [`read`]). It has no counts: how many calls a key has follows
//! from the structure ([`Uses`]).

mod code;
mod model;
mod summary;
mod uses;

pub use code::{read, write};
pub use summary::Summary;
pub use uses::{Calls, Ranks, Use, Uses};

use refrain_signature::cells::{Cells, put_bytes, put_list, put_unsigned};
use refrain_signature::stats::Stats;
use refrain_signature::tasktrace::TaskTrace;
use refrain_signature::timekey::{Detail, KeyHandle, TimeKey, TimeKeys};
use std::collections::BTreeMap;

/// Statistics by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    by_key: BTreeMap<TimeKey, Stats>,
}

impl Times {
    /// The statistics of a task.
    pub fn of(task: &TaskTrace) -> Times {
        let keys = TimeKeys::new(task.functions.iter().map(|(number, text)| (*number, &**text)));
        let mut times = Times::default();
        for signature in task.signatures.iter().filter(|signature| signature.stats.count > 0) {
            let site = |number: u32| Some(task.strings.get(number as usize)?.as_slice().into());
            if let Some(derived) = keys.of(&signature.cells, site, &task.predefined) {
                times.add(derived.key, &signature.stats);
            }
        }
        times
    }

    /// Adds calls of a key.
    pub fn add(&mut self, key: TimeKey, stats: &Stats) {
        self.by_key.entry(key).or_default().add(stats);
    }

    /// Adds the calls of other ranks.
    pub fn merge(&mut self, other: Times) {
        for (key, stats) in other.by_key {
            self.add(key, &stats);
        }
    }

    /// The statistics of keys with less detail.
    pub fn at(&self, detail: Detail) -> Times {
        let mut times = Times::default();
        for (key, stats) in &self.by_key {
            times.add(key.clone().at(detail), stats);
        }
        times
    }

    /// All keys with their statistics.
    pub fn iter(&self) -> impl Iterator<Item = (&TimeKey, &Stats)> {
        self.by_key.iter()
    }

    /// Writes them exactly, for other ranks.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.by_key.iter(), |out, (key, stats)| {
            put_unsigned(out, key.function.into());
            put_list(out, key.site.iter(), |out, site| put_bytes(out, site));
            put_list(out, key.handles.iter(), |out, handle| match handle {
                KeyHandle::Other => put_unsigned(out, 0),
                KeyHandle::Own(number) => put_unsigned(out, 2 + u64::from(*number)),
                KeyHandle::Predefined(name) => {
                    put_unsigned(out, 1);
                    put_bytes(out, name.as_bytes());
                }
            });
            put_unsigned(out, key.size.into());
            stats.put(out);
        });
    }

    /// Reads what [`Times::put`] wrote.
    pub fn get(cells: &mut Cells<'_>) -> Option<Times> {
        let all = cells.get_list(|cells| {
            let function = u16::try_from(cells.get_unsigned()?).ok()?;
            let site = cells.get_list(|cells| cells.get_bytes().map(Box::from))?;
            let handles = cells.get_list(|cells| {
                Some(match cells.get_unsigned()? {
                    0 => KeyHandle::Other,
                    1 => KeyHandle::Predefined(cells.get_text()?.into()),
                    own => KeyHandle::Own(u8::try_from(own - 2).ok()?),
                })
            })?;
            let size = u8::try_from(cells.get_unsigned()?).ok()?;
            let key = TimeKey { function, site: site.into_iter().next(), handles, size };
            Some((key, Stats::get(cells)?))
        })?;
        Some(Times { by_key: all.into_iter().collect() })
    }
}
