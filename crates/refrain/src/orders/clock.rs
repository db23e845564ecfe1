//! `refrain info`, `show` and `diff` of records of the clock method.
//!
//! Such a record has neither sources nor clocks, but how the order of messages differs from the order of
//! their clocks, in one table per call stack.

use super::diff::Args;
use super::info::values_text;
use super::show::Wanted;
use super::{Places, completeness, print};
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

/// Prints the facts of a record.
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
    let info = Info { orders, ranks, all, tables, bytes: std::fs::metadata(path)?.len() };
    let path = path.display().to_string();
    print(&if as_json { format!("{}\n", info.json(&path)) } else { info.text(&path) })?;
    Ok(ExitCode::SUCCESS)
}

/// All facts that are printed about a record.
struct Info<'o> {
    orders: &'o Orders,
    ranks: Vec<Summary>,
    all: Counts,
    /// By call site and kind, with the number of tables.
    tables: BTreeMap<(String, String), (Counts, u64)>,
    bytes: u64,
}

/// Messages that were not received in the order of their clocks, in percent.
fn percent(counts: &Counts) -> f64 {
    100.0 * counts.moved as f64 / counts.messages.max(1) as f64
}

impl Info<'_> {
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
                "truncated": own.why_cut,
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
            "unsupported": super::record::unsupported(self.orders),
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
                "{messages} whose order was not determined, {moved} ({percent:.1} %) not received in the order of their clocks"
            ),
        );
        let (calls, polls) = (grouped(self.all.calls), grouped(self.all.polls));
        line("calls", format!("{calls} completed something, {polls} failed polls"));
        let clocks = self.sum(|rank| rank.clock_values);
        let others = self.sum(|rank| rank.values) - clocks;
        line("values", values_text(self.orders, clocks, others, self.sum(|rank| rank.value_bytes)));
        let bytes = self.sum(|rank| rank.bytes.saturating_sub(rank.value_bytes));
        let each = bytes as f64 / self.all.messages.max(1) as f64;
        line("size", format!("{}, {each:.3} bytes a message", size(self.bytes)));
        line("complete", completeness(self.orders));
        for what in super::record::unsupported(self.orders) {
            line("unsupported", what.to_owned());
        }
        for ((site, kind), (counts, tables)) in &self.tables {
            let [calls, failed] = [counts.calls, counts.polls].map(grouped);
            let [messages, moved] = [counts.messages, counts.moved].map(grouped);
            line(
                "",
                format!(
                    "{site}: {kind}, {calls} succeeded, {failed} failed; {messages} messages, {moved} permuted; {tables} tables"
                ),
            );
        }
        text
    }
}

/// What a call found, in words.
fn found_text(found: &Found) -> String {
    let one = |row: &Row| match row {
        Row::Message(position, 0) => format!("message {position} by clock"),
        Row::Message(position, claim) => format!("message {position} by clock, by taker {claim}"),
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
    let (name, position) = (places.name(*site), found.position);
    if as_json {
        let messages: Vec<usize> = found
            .rows
            .iter()
            .filter_map(|row| if let Row::Message(at, _) = row { Some(*at) } else { None })
            .collect();
        return json!({
            "rank": rank,
            "thread": stream,
            "call": position,
            "kind": kind.to_string(),
            "site": name,
            "stack": format!("{site:x}"),
            "failed_polls": found.polls,
            "by_clock": messages,
            "found": found_text(found),
        })
        .to_string();
    }
    let who = if *stream > 0 { format!("{rank}.{stream}") } else { rank.to_string() };
    format!("rank {who}  call {position}: {kind} at {name}: {}", found_text(found))
}

/// Prints the calls of a record.
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

/// Prints the differences between two records.
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
            let name = places.name(site);
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "rank {}, thread {stream}: call {at}, {kind} at {name}:", left.rank);
            let _ = writeln!(text, "  {}: {}", paths[0].display(), words(one));
            let _ = writeln!(text, "  {}: {}", paths[1].display(), words(other));
            differences.push(json!({
                "rank": left.rank,
                "thread": stream,
                "call": at,
                "kind": kind.to_string(),
                "site": name,
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
