//! `refrain races`: receives and completing calls that could have had another outcome.

use super::{Places, Sites, orders_in, print, wildcards};
use crate::summary::{counted, grouped};
use anyhow::{Result, bail};
use refrain_order::causal::races::{HORIZON, Place, races};
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
could have completed other requests, or none. `surprises` counts how often the outcome differed
from what followed the last time: a call site without surprises may be deterministic.

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

/// A place on all ranks.
#[derive(Default)]
struct Found {
    place: Place,
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
        for (shape, place) in found.receives {
            let key = (places.name(shape.site), wildcards(&shape).to_owned());
            add(receives.entry(key).or_default(), rank.rank, &place);
        }
        for (shape, place) in found.calls {
            let key = (places.name(shape.site), shape.kind.to_string());
            add(calls.entry(key).or_default(), rank.rank, &place);
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

fn add(found: &mut Found, rank: u32, place: &Place) {
    found.ranks.push(rank);
    found.ranks.dedup();
    found.place.total += place.total;
    found.place.open += place.open;
    found.place.surprises += place.surprises;
    found.place.polls += place.polls;
    for (source, times) in &place.received {
        *found.place.received.entry(*source).or_default() += times;
    }
    for (source, times) in &place.competed {
        *found.place.competed.entry(*source).or_default() += times;
    }
}

fn list(all: &All) -> Vec<Json> {
    all.iter()
        .map(|((site, what), Found { place, ranks })| {
            json!({
                "site": site,
                "what": what,
                "ranks": ranks,
                "total": place.total,
                "open": place.open,
                "surprises": place.surprises,
                "failed_polls": place.polls,
                "received": place.received,
                "competed": place.competed,
            })
        })
        .collect()
}

fn text(receives: &All, calls: &All) -> String {
    let mut text = String::new();
    for ((site, what), Found { place, ranks }) in receives {
        let [open, total, surprises] = [place.open, place.total, place.surprises].map(grouped);
        let sources: Vec<String> =
            place.competed.iter().map(|(source, times)| format!("{source} ({times})")).collect();
        let ranks = counted(ranks.len() as u64, "rank");
        text += &format!("{site}: receives of {what} on {ranks}\n");
        text +=
            &format!("  {open} of {total} could have got another message; {surprises} surprises\n");
        text += &format!("  competing sources, how often: {}\n", sources.join(", "));
    }
    for ((site, kind), Found { place, ranks }) in calls {
        let [open, total, surprises, polls] =
            [place.open, place.total, place.surprises, place.polls].map(grouped);
        let ranks = counted(ranks.len() as u64, "rank");
        text += &format!("{site}: {kind} on {ranks}\n");
        text += &format!(
            "  {open} of {total} could have had another outcome; {surprises} surprises, {polls} failed \
             polls\n"
        );
    }
    if text.is_empty() {
        text += "no outcome could have been another\n";
    }
    text
}
