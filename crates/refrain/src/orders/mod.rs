//! Receive orders on the command line: recorded, replayed, and looked at.
//!
//! * [`record`], [`replay`]: run a program
//! * [`watch`]: ends a replay in which nothing goes on any more
//! * [`info`], [`show`], [`verify`]: what the commands of these names say of a file of orders
//! * [`clock`]: the same of orders that were recorded by clocks
//! * [`diff`]: where two runs part · [`races`]: what could have gone another way

mod clock;
pub mod diff;
pub mod info;
pub mod races;
pub mod record;
pub mod replay;
pub mod show;
pub mod verify;
mod watch;

use crate::open::open_any;
use crate::stdout::print;
use anyhow::{Context, Result, bail};
use refrain_analysis::sites::Sites as Modules;
use refrain_order::causal::event::PostShape;
use refrain_reader::File;
use refrain_trace::Orders;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use refrain_analysis::order::CallSites as Sites;

/// The receive orders of a record, or of a trace of calls.
pub fn orders_in(path: &Path, sites: Sites) -> Result<Orders> {
    let trace = match open_any(path)? {
        File::Calls(trace) => trace,
        File::Orders(orders) => return Ok(*orders),
        File::Memory(_) => {
            bail!("{} is a memory trace; it has no receive orders", path.display());
        }
    };
    let orders = refrain_analysis::order::orders(&trace, sites).with_context(|| {
        format!(
            "{} does not hold the receive order; `refrain record` makes what does",
            path.display()
        )
    })?;
    let unsupported: Vec<&str> = record::unsupported(&orders).into_iter().collect();
    if !unsupported.is_empty() {
        let unsupported = unsupported.join(", ");
        say!("refrain: warning: unsupported in a replay, so results may differ: {unsupported}");
    }
    Ok(orders)
}

/// What is missing in a file of receive orders.
pub fn remarks(orders: &Orders) -> Vec<String> {
    let mut remarks = Vec::new();
    for rank in &orders.ranks {
        let number = rank.rank;
        if let Some(why) = &rank.why_cut {
            remarks.push(format!("warning: not all of rank {number} is recorded: {why}"));
        }
        if let Some(error) = rank.cut() {
            remarks.push(format!("warning: rank {number}: {error}; what comes before is used"));
        }
    }
    remarks
}

/// Why a record is truncated, for each rank of which that is so.
pub fn truncations(orders: &Orders) -> Vec<String> {
    let is_there = |number: &u32| orders.ranks.iter().any(|rank| rank.rank == *number);
    let absent = (0..orders.size()).filter(|number| !is_there(number));
    let absent: Vec<String> = absent.map(|number| number.to_string()).collect();
    let mut truncations = Vec::new();
    if !absent.is_empty() {
        truncations.push(format!("these ranks have left no record: {}", absent.join(",")));
    }
    for rank in orders.ranks.iter().filter(|rank| !rank.is_whole()) {
        let number = rank.rank;
        truncations.push(match (&rank.why_cut, rank.cut()) {
            (Some(why), _) => format!("not all of rank {number} is recorded: {why}"),
            (None, Some(error)) => format!("rank {number} does not read to its end: {error}"),
            (None, None) => format!("rank {number} did not reach MPI_Finalize"),
        });
    }
    truncations
}

/// Whether a record is complete, in words.
fn completeness(orders: &Orders) -> String {
    match &truncations(orders)[..] {
        [] => "yes".to_owned(),
        [only] => format!("no: {only}"),
        [first, others @ ..] => format!("no: {first}, and {} more such", others.len()),
    }
}

/// Places in the program, in words: function, file and line where they are known; and offsets.
pub struct Places(BTreeMap<u64, [String; 2]>);

impl Places {
    /// Those of a run. Warns about modules that are not those of the run any more.
    pub fn of(orders: &Orders) -> Places {
        let mut modules = Modules::recorded_at(orders.time);
        let places = Places::in_modules(&orders.sites, &mut modules);
        crate::show::warn_of_changed_modules(&modules);
        places
    }

    /// Those of a run that was recorded at a time.
    pub fn at(places: &BTreeMap<u64, String>, time: u64) -> Places {
        Places::in_modules(places, &mut Modules::recorded_at(time))
    }

    fn in_modules(places: &BTreeMap<u64, String>, modules: &mut Modules) -> Places {
        let text = |(site, place): (&u64, &String)| {
            let frames = modules.frames(&Arc::from(place.as_str()));
            let texts = frames.first().map(|frame| [frame.text(), frame.offset_text()]);
            (*site, texts.unwrap_or_else(|| [place.clone(), place.clone()]))
        };
        Places(places.iter().map(text).collect())
    }

    /// The words for one.
    pub fn name(&self, site: u64) -> String {
        self.0.get(&site).map_or_else(|| format!("{site:#x}"), |[words, _]| words.clone())
    }

    /// The words for one that no other has: with its offset.
    pub fn exact(&self, site: u64) -> String {
        match self.0.get(&site) {
            Some([words, offset]) if words.contains(' ') => format!("{words} ({offset})"),
            _ => self.name(site),
        }
    }
}

/// The wildcards of a receive.
fn wildcards(shape: &PostShape) -> &'static str {
    match (shape.any_source, shape.any_tag) {
        (true, true) => "any source, any tag",
        (true, false) => "any source",
        _ => "any tag",
    }
}
