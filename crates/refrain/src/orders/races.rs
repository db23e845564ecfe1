//! `refrain races`: receives and completing calls that could have had another outcome.

use super::{Places, Sites, orders_in, print, wildcards};
use crate::summary::{counted, grouped};
use anyhow::{Result, bail};
use refrain_order::causal::races::{HORIZON, SiteRaces, races};
use refrain_trace::orders::Method;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Lists the receives and completing calls of a record that could have had another outcome.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain races app.refrain
  refrain races app.refrain --horizon 1000 --json

By call site: wildcard receives that could have matched a message of another source, because a
later receive on the same communicator did match it, with the competing sources; and calls that
could have completed other requests, or none. Mispredictions count how often the outcome differed
from the one that followed the same outcome the last time: a call site without any may be
deterministic.

A record holds no sends, so it is not known whether a competing message was sent in time. The
result is an upper bound, within --horizon later receives.

Records made with --method clock hold no sources; `races` refuses them.")]
pub struct Args {
    /// The record, or a trace (refrain trace); with --callsite, a trace has call sites.
    record: PathBuf,
    /// Search this many later receives for competing messages.
    #[arg(long, value_name = "N", default_value_t = HORIZON)]
    horizon: usize,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A call site over all ranks.
#[derive(Default)]
struct Found {
    counts: SiteRaces,
    ranks: Vec<u32>,
}

type All = BTreeMap<(String, String), Found>;

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let orders = orders_in(&args.record, Sites::Kept)?;
    if orders.method() == Method::Clock {
        bail!("records by clocks hold no sources: record with --method causal for this");
    }
    let places = Places::of(&orders);
    let (mut receives, mut calls) = (All::new(), All::new());
    for rank in &orders.ranks {
        let found = races(&rank.frames, args.horizon)?;
        for (shape, counts) in found.receives {
            let key = (places.name(shape.site), wildcards(&shape).to_owned());
            add(receives.entry(key).or_default(), rank.rank, &counts);
        }
        for (shape, counts) in found.calls {
            let key = (places.name(shape.site), shape.kind.to_string());
            add(calls.entry(key).or_default(), rank.rank, &counts);
        }
    }
    match args.json {
        true => {
            print(&format!("{}\n", json!({ "receives": list(&receives), "calls": list(&calls) })))?
        }
        false => print(&text(&receives, &calls))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(found: &mut Found, rank: u32, counts: &SiteRaces) {
    found.ranks.push(rank);
    found.ranks.dedup();
    found.counts.total += counts.total;
    found.counts.open += counts.open;
    found.counts.compared += counts.compared;
    found.counts.surprises += counts.surprises;
    found.counts.polls += counts.polls;
    for (source, times) in &counts.received {
        *found.counts.received.entry(*source).or_default() += times;
    }
    for (source, times) in &counts.competed {
        *found.counts.competed.entry(*source).or_default() += times;
    }
}

fn list(all: &All) -> Vec<Json> {
    all.iter()
        .map(|((site, what), Found { counts, ranks })| {
            json!({
                "site": site,
                "what": what,
                "ranks": ranks,
                "total": counts.total,
                "open": counts.open,
                "predicted": counts.compared,
                "mispredictions": counts.surprises,
                "failed_polls": counts.polls,
                "received": counts.received,
                "competed": counts.competed,
            })
        })
        .collect()
}

fn text(receives: &All, calls: &All) -> String {
    let mut text = String::new();
    for ((site, what), Found { counts, ranks }) in receives {
        let [open, total] = [counts.open, counts.total].map(grouped);
        let mispredicted = mispredictions(counts, ranks.len());
        let sources: Vec<String> =
            counts.competed.iter().map(|(source, times)| format!("{source} ({times})")).collect();
        let ranks = counted(ranks.len() as u64, "rank");
        text += &format!("{site}: receives of {what} on {ranks}\n");
        text +=
            &format!("  {open} of {total} could have matched another message; {mispredicted}\n");
        text += &format!("  competing sources, how often: {}\n", sources.join(", "));
    }
    for ((site, kind), Found { counts, ranks }) in calls {
        let [open, total, polls] = [counts.open, counts.total, counts.polls].map(grouped);
        let mispredicted = mispredictions(counts, ranks.len());
        let ranks = counted(ranks.len() as u64, "rank");
        text += &format!("{site}: {kind} on {ranks}\n");
        text += &format!(
            "  {open} of {total} could have had another outcome; {mispredicted}, {polls} failed polls\n"
        );
    }
    if text.is_empty() {
        text += "no outcome could have been different\n";
    }
    text
}

/// How often outcomes differed from what was to be expected, and why the record cannot tell if it cannot.
fn mispredictions(counts: &SiteRaces, ranks: usize) -> String {
    let unknown = match counts.compared {
        0 if counts.total <= ranks as u64 => {
            " (passed once: one run cannot tell whether it varies)"
        }
        0 => " (no outcome came twice: one run cannot tell whether it varies)",
        _ => "",
    };
    format!("{} mispredictions{unknown}", grouped(counts.surprises))
}
