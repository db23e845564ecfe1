//! Receive orders on the command line: recorded, replayed, and looked at.
//!
//! * [`record`], [`replay`]: run a program
//! * [`watch`]: ends a replay in which nothing goes on any more
//! * [`info`], [`show`]: what `refrain info` and `refrain show` say of a file of orders
//! * [`clock`]: the same of orders that were recorded by clocks
//! * [`diff`]: where two runs part · [`races`]: what could have gone another way

mod clock;
pub mod diff;
pub mod info;
pub mod races;
pub mod record;
pub mod replay;
pub mod show;
mod watch;

use crate::output;
use anyhow::{Context, Result, bail};
use refrain_analysis::sites::{Frame, Sites as Modules};
use refrain_container::Container;
use refrain_order::causal::event::PostShape;
use refrain_trace::Orders;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Whether a file holds receive orders.
pub fn are_in(path: &Path) -> bool {
    path.is_file() && Container::open(path).is_ok_and(|container| Orders::are_in(&container))
}

pub use refrain_analysis::order::CallSites as Sites;

/// The receive orders of a record, or of a trace of calls.
pub fn orders_in(path: &Path, sites: Sites) -> Result<Orders> {
    if are_in(path) {
        return open(path);
    }
    if crate::mem::memory_trace(path)?.is_some() {
        bail!("{} is a memory trace; it has no receive orders", path.display());
    }
    let trace = crate::open::open(path)?;
    let orders = refrain_analysis::order::orders(&trace, sites).with_context(|| {
        format!(
            "{} does not hold the receive order; `refrain record` makes what does",
            path.display()
        )
    })?;
    let outside: Vec<&str> = record::outside(&orders).into_iter().collect();
    if !outside.is_empty() {
        let outside = outside.join(", ");
        say!("refrain: warning: unsupported in a replay, so results may differ: {outside}");
    }
    Ok(orders)
}

/// Opens a file of receive orders, and says on stderr what is wrong with it.
pub fn open(path: &Path) -> Result<Orders> {
    let container = Container::open(path)?;
    if !Orders::are_in(&container) {
        bail!("{} holds no receive orders: make them with `refrain record`", path.display());
    }
    let orders = Orders::read(&container)?;
    if container.is_recovered() {
        say!("refrain: warning: the end of {} is missing", path.display());
    }
    for rank in &orders.ranks {
        if let Some(why) = &rank.why_cut {
            say!("refrain: warning: not all of rank {} is recorded: {why}", rank.rank);
        }
        if let Some(error) = rank.cut() {
            say!("refrain: warning: rank {}: {error}; what comes before is used", rank.rank);
        }
    }
    Ok(orders)
}

/// Places in the program, in words: function, file and line where they are known; and offsets.
pub struct Places(BTreeMap<u64, [String; 2]>);

impl Places {
    /// Those of a run.
    pub fn of(orders: &Orders) -> Places {
        Places::at(&orders.sites, orders.time)
    }

    /// Those of files that were the program's at a time.
    pub fn at(places: &BTreeMap<u64, String>, time: u64) -> Places {
        let mut sites = Modules::recorded_at(time);
        let text = |(site, place): (&u64, &String)| {
            let frames = sites.frames(&Arc::from(place.as_str()));
            let words = frames.first().map_or_else(|| place.clone(), Frame::text);
            let offset = place.rsplit('/').next().unwrap_or(place);
            (*site, [words, offset.to_owned()])
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

/// Prints text, to somebody who may have stopped listening.
pub fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(output::lines(text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
