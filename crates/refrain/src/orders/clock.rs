//! What there is to tell of orders that were recorded by clocks.
//!
//! They hold neither sources nor clocks. What can be told is how the order of messages differs from
//! that of their clocks, table by table: a table is a call's place, by its whole stack.

use super::diff::Args;
use super::info::values_text;
use super::show::Wanted;
use super::{Places, print};
use crate::summary::{grouped, size};
use anyhow::{Result, bail};
use refrain_order::Kind;
use refrain_order::clock::chunk::TableKey;
use refrain_order::clock::loaded::Row;
use refrain_order::clock::summary::{Counts, Found, Summary, each_call, summary};
use refrain_order::clock::table::Other;
use refrain_trace::Orders;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// What `refrain info` says.
pub fn info(orders: &Orders, path: &Path, as_json: bool) -> Result<ExitCode> {
    let ranks = orders.ranks.iter().map(|rank| summary(&rank.chunks));
    let ranks = ranks.collect::<Result<Vec<Summary>, _>>()?;
    let places = Places::of(orders);
    let mut all = Counts::default();
    let mut tables: BTreeMap<(String, String), (Counts, u64)> = BTreeMap::new();
    for rank in &ranks {
        all.add(&rank.all);
        for ((_, kind, site), counts) in &rank.tables {
            let (own, stacks) = tables.entry((places.name(*site), kind.to_string())).or_default();
            own.add(counts);
            *stacks += 1;
        }
    }
    let told = Told { orders, ranks, all, tables, bytes: std::fs::metadata(path)?.len() };
    let path = path.display().to_string();
    print(&if as_json { format!("{}\n", told.json(&path)) } else { told.text(&path) })?;
    Ok(ExitCode::SUCCESS)
}

/// All that is told.
struct Told<'o> {
    orders: &'o Orders,
    ranks: Vec<Summary>,
    all: Counts,
    /// By place and kind, with how many tables.
    tables: BTreeMap<(String, String), (Counts, u64)>,
    bytes: u64,
}

/// Messages that were not received in the order of their clocks, in percent.
fn percent(counts: &Counts) -> f64 {
    100.0 * counts.moved as f64 / counts.messages.max(1) as f64
}

impl Told<'_> {
    fn is_complete(&self) -> bool {
        let ranks = &self.orders.ranks;
        ranks.len() as u32 >= self.orders.size() && ranks.iter().all(|rank| rank.is_whole())
    }

    fn sum(&self, of: impl Fn(&Summary) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }

    fn json(&self, path: &str) -> Json {
        let table = |((site, kind), (counts, tables)): (&(String, String), &(Counts, u64))| {
            json!({
                "site": site,
                "what": kind,
                "tables": tables,
                "matched": counts.calls,
                "failed": counts.polls,
                "messages": counts.messages,
                "permuted": counts.moved,
            })
        };
        let rank = |(own, found): (&refrain_trace::orders::RankOrder, &Summary)| {
            json!({
                "rank": own.rank,
                "finalized": own.finalized,
                "cut": own.why_cut,
                "host": own.host,
                "pid": own.pid,
                "threads": found.threads,
                "messages": found.all.messages,
                "permuted": found.all.moved,
                "calls": found.all.calls,
                "failed_polls": found.all.polls,
                "values": found.values,
                "clock_values": found.clock_values,
                "value_bytes": found.value_bytes,
                "chunks": found.chunks,
                "bytes": found.bytes,
            })
        };
        json!({
            "path": path,
            "refrain": self.orders.refrain,
            "command": self.orders.command,
            "exit_code": self.orders.exit_code,
            "method": self.orders.method().name(),
            "ranks": self.orders.ranks.len(),
            "size": self.orders.size(),
            "complete": self.is_complete(),
            "messages": self.all.messages,
            "permuted": self.all.moved,
            "permuted_percent": percent(&self.all),
            "calls": self.all.calls,
            "failed_polls": self.all.polls,
            "values": self.sum(|rank| rank.values),
            "clock_values": self.sum(|rank| rank.clock_values),
            "value_bytes": self.sum(|rank| rank.value_bytes),
            "bytes": self.bytes,
            "order_bytes": self.sum(|rank| rank.bytes),
            "outside": super::record::unsupported(self.orders),
            "by_rank": self.orders.ranks.iter().zip(&self.ranks).map(rank).collect::<Vec<_>>(),
            "by_call_site": self.tables.iter().map(table).collect::<Vec<_>>(),
        })
    }

    fn text(&self, path: &str) -> String {
        let mut text = String::new();
        let mut line = |name: &str, what: String| text += &format!("{name:10} {what}\n");
        line("order", format!("{path}, written by Refrain {}", self.orders.refrain));
        line("command", self.orders.command.join(" "));
        line("method", self.orders.method().name().to_owned());
        line("ranks", format!("{} of {}", self.orders.ranks.len(), self.orders.size()));
        let (messages, moved) = (grouped(self.all.messages), grouped(self.all.moved));
        let percent = percent(&self.all);
        line(
            "messages",
            format!(
                "{messages} that could have come otherwise, {moved} ({percent:.1} %) not in the order of their clocks"
            ),
        );
        let (calls, polls) = (grouped(self.all.calls), grouped(self.all.polls));
        line("calls", format!("{calls} completed something, {polls} polls found nothing"));
        let clocks = self.sum(|rank| rank.clock_values);
        let others = self.sum(|rank| rank.values) - clocks;
        line("values", values_text(self.orders, clocks, others, self.sum(|rank| rank.value_bytes)));
        let bytes = self.sum(|rank| rank.bytes.saturating_sub(rank.value_bytes));
        let each = bytes as f64 / self.all.messages.max(1) as f64;
        line("size", format!("{}, {each:.3} bytes a message", size(self.bytes)));
        let why = self.orders.ranks.iter().find_map(|rank| rank.why_cut.as_deref());
        let why = format!("no: {}", why.unwrap_or("it is truncated"));
        line("complete", if self.is_complete() { "yes".to_owned() } else { why });
        for what in super::record::unsupported(self.orders) {
            line("unsupported", what.to_owned());
        }
        for ((place, kind), (counts, tables)) in &self.tables {
            let [calls, failed] = [counts.calls, counts.polls].map(grouped);
            let [messages, moved] = [counts.messages, counts.moved].map(grouped);
            line(
                "",
                format!(
                    "{place}: {kind}, {calls} succeeded, {failed} failed; {messages} messages, {moved} permuted; {tables} tables"
                ),
            );
        }
        text
    }
}

/// What a call found, in words.
fn found_text(found: &Found) -> String {
    let one = |row: &Row| match row {
        Row::Message(place, 0) => format!("message {place} by clock"),
        Row::Message(place, claim) => format!("message {place} by clock, by taker {claim}"),
        Row::Other(Other::Nothing) => "no message with a choice".to_owned(),
        Row::Other(Other::Undefined) => "no active request".to_owned(),
        Row::Other(Other::Cancelled) => "a cancelled receive".to_owned(),
        Row::Other(Other::Probed(sender, number)) => format!("message {number} of rank {sender}"),
        Row::Other(Other::Index(index)) => format!("request {index}"),
    };
    let rows: Vec<String> = found.rows.iter().map(one).collect();
    let polls = if found.polls > 0 {
        format!(", after {} failed polls", found.polls)
    } else {
        String::new()
    };
    format!("{}{polls}", rows.join("; "))
}

/// A line of `refrain show`.
fn line_of(rank: u32, key: &TableKey, found: &Found, places: &Places, as_json: bool) -> String {
    let TableKey { stream, kind, site } = key;
    let (place, position) = (places.name(*site), found.position);
    if as_json {
        let messages: Vec<usize> = found
            .rows
            .iter()
            .filter_map(|row| if let Row::Message(place, _) = row { Some(*place) } else { None })
            .collect();
        return json!({
            "rank": rank,
            "thread": stream,
            "call": position,
            "kind": kind.to_string(),
            "site": place,
            "stack": format!("{site:x}"),
            "failed_polls": found.polls,
            "by_clock": messages,
            "found": found_text(found),
        })
        .to_string();
    }
    let who = if *stream > 0 { format!("{rank}.{stream}") } else { rank.to_string() };
    format!("rank {who}  call {position}: {kind} at {place}: {}", found_text(found))
}

/// What `refrain show` prints.
pub fn show(orders: &Orders, path: &Path, wanted: &Wanted) -> Result<ExitCode> {
    let places = Places::of(orders);
    let mut left = wanted.limit;
    let mut any = false;
    for rank in &orders.ranks {
        if wanted.ranks.as_ref().is_some_and(|ranks| !ranks.contains(&(rank.rank as i32))) {
            continue;
        }
        any = true;
        let mut text = String::new();
        each_call(&rank.chunks, |key, found| {
            let is_wanted = wanted.thread.is_none_or(|thread| thread == key.stream);
            if left > 0 && is_wanted && wanted.has(key.kind) {
                left -= 1;
                let line = line_of(rank.rank, key, found, &places, wanted.json);
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{line}");
            }
        })?;
        print(&text)?;
    }
    if !any {
        bail!("no such rank in {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

type Calls = BTreeMap<(u32, Kind, u64), Vec<Found>>;

fn calls_of(chunks: &[u8], with_polls: bool) -> Result<Calls> {
    let mut calls = Calls::new();
    each_call(chunks, |key, found| {
        let polls = if with_polls { found.polls } else { 0 };
        let found = Found { polls, ..found.clone() };
        calls.entry((key.stream, key.kind, key.site)).or_default().push(found);
    })?;
    Ok(calls)
}

/// What `refrain diff` says of two of them.
pub fn diff(orders: [&Orders; 2], paths: [&Path; 2], args: &Args) -> Result<ExitCode> {
    let places = Places::of(orders[0]);
    let mut text = String::new();
    let mut differences = Vec::new();
    for (left, right) in orders[0].ranks.iter().zip(&orders[1].ranks) {
        let [left_calls, right_calls] =
            [calls_of(&left.chunks, args.polls)?, calls_of(&right.chunks, args.polls)?];
        let mut keys: Vec<_> = left_calls.keys().chain(right_calls.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let none = Vec::new();
            let [one, other] =
                [&left_calls, &right_calls].map(|calls| calls.get(&key).unwrap_or(&none));
            let longer = one.len().max(other.len());
            let Some(at) = (0..longer).find(|at| one.get(*at) != other.get(*at)) else { continue };
            let (stream, kind, site) = key;
            let words =
                |calls: &Vec<Found>| calls.get(at).map_or_else(|| "the end".to_owned(), found_text);
            let place = places.name(site);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "rank {}, thread {stream}: call {at}, {kind} at {place}:",
                left.rank
            );
            let _ = writeln!(text, "  {}: {}", paths[0].display(), words(one));
            let _ = writeln!(text, "  {}: {}", paths[1].display(), words(other));
            differences.push(json!({
                "rank": left.rank,
                "thread": stream,
                "call": at,
                "kind": kind.to_string(),
                "site": place,
                "left": words(one),
                "right": words(other),
            }));
        }
    }
    let differ = !differences.is_empty();
    match (args.json, differ) {
        (true, _) => print(&format!("{}\n", json!({ "differences": differences })))?,
        (false, true) => print(&text)?,
        (false, false) => print("no difference\n")?,
    }
    Ok(ExitCode::from(u8::from(differ)))
}
