//! `refrain info` of a record of receive orders.

use super::{Places, completeness, print, wildcards};
use crate::output;
use crate::summary::{grouped, size};
use anyhow::Result;
use refrain_order::causal::summary::{Counts, Summary, summary};
use refrain_trace::Orders;
use refrain_trace::orders::Method;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Prints.
pub fn run(orders: &Orders, path: &Path, as_json: bool) -> Result<ExitCode> {
    if orders.method() == Method::Clock {
        return super::clock::info(orders, path, as_json);
    }
    let info = Info::of(orders, path)?;
    print(&if as_json { format!("{}\n", info.json()) } else { info.text() })?;
    Ok(ExitCode::SUCCESS)
}

/// The number of recorded values and their size, as text.
pub fn values_text(orders: &Orders, clocks: u64, others: u64, bytes: u64) -> String {
    let no_clock = orders.ranks.iter().any(|rank| rank.no_clock);
    let left_out = if no_clock { "; MPI_Wtime was not recorded (--no-clock)" } else { "" };
    let (clocks, others, took) = (grouped(clocks), grouped(others), size(bytes));
    format!("{clocks} of clocks, {others} of random numbers and locks tried, in {took}{left_out}")
}

/// All facts that are printed about a record.
struct Info<'o> {
    orders: &'o Orders,
    path: String,
    bytes: u64,
    ranks: Vec<Summary>,
    /// By call site and kind of call, over all ranks.
    calls: BTreeMap<(String, String), Counts>,
    receives: BTreeMap<(String, String), Counts>,
}

impl<'o> Info<'o> {
    fn of(orders: &'o Orders, path: &Path) -> Result<Info<'o>> {
        let places = Places::of(orders);
        let ranks = orders.ranks.iter().map(|rank| summary(&rank.frames));
        let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        let (mut calls, mut receives) = (BTreeMap::new(), BTreeMap::new());
        for rank in &ranks {
            for (shape, counts) in &rank.by_call {
                let key = (places.name(shape.site), shape.kind.to_string());
                add(calls.entry(key).or_default(), counts);
            }
            for (shape, counts) in &rank.by_post {
                let key = (places.name(shape.site), wildcards(shape).to_owned());
                add(receives.entry(key).or_default(), counts);
            }
        }
        let bytes = std::fs::metadata(path)?.len();
        let path = path.display().to_string();
        Ok(Info { orders, path, bytes, ranks, calls, receives })
    }

    fn sum(&self, of: impl Fn(&Summary) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }

    /// Receives with and without wildcards.
    fn received(rank: &Summary) -> u64 {
        rank.receives.matched + rank.named
    }

    /// Bytes per receive, without those of values; `None` if nothing was received.
    fn bytes_per_receive(&self) -> Option<f64> {
        let bytes = self.sum(|rank| rank.bytes.saturating_sub(rank.value_bytes));
        let receives = self.sum(Self::received);
        (receives > 0).then(|| bytes as f64 / receives as f64)
    }

    fn is_complete(&self) -> bool {
        let ranks = &self.orders.ranks;
        ranks.len() as u32 >= self.orders.size() && ranks.iter().all(|rank| rank.is_whole())
    }

    fn json(&self) -> Json {
        let ranks: Vec<Json> = self.orders.ranks.iter().zip(&self.ranks).map(rank_json).collect();
        let row = |((site, what), counts): (&(String, String), &Counts)| {
            json!({
                "site": site,
                "what": what,
                "matched": counts.matched,
                "failed": counts.failed,
                "picked": counts.picked,
                "unmatched": counts.unmatched,
            })
        };
        json!({
            "path": self.path,
            "refrain": self.orders.refrain,
            "command": self.orders.command,
            "exit_code": self.orders.exit_code,
            "method": self.orders.method().name(),
            "ranks": self.orders.ranks.len(),
            "size": self.orders.size(),
            "complete": self.is_complete(),
            "receives": self.sum(Self::received),
            "wildcard_receives": self.sum(|rank| rank.receives.matched),
            "calls": self.sum(|rank| rank.calls.matched),
            "failed_polls": self.sum(|rank| rank.calls.failed),
            "values": self.sum(|rank| rank.values),
            "clock_values": self.sum(|rank| rank.clock_values),
            "value_bytes": self.sum(|rank| rank.value_bytes),
            "bytes": self.bytes,
            "order_bytes": self.sum(|rank| rank.bytes),
            "bytes_per_receive": self.bytes_per_receive(),
            "unsupported": super::record::unsupported(self.orders),
            "by_rank": ranks,
            "by_call_site": self.calls.iter().map(row).collect::<Vec<_>>(),
            "by_receive_site": self.receives.iter().map(row).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line =
            |name: &str, what: String| text += &format!("{name:10} {}\n", output::line(&what));
        line("order", format!("{}, written by Refrain {}", self.path, self.orders.refrain));
        line("command", self.orders.command.join(" "));
        if self.orders.redacted {
            line("redacted", crate::info::REDACTED_TEXT.to_owned());
        }
        line("method", self.orders.method().name().to_owned());
        line("ranks", format!("{} of {}", self.orders.ranks.len(), self.orders.size()));
        let wild = grouped(self.sum(|rank| rank.receives.matched));
        line("receives", format!("{}, {wild} with a wildcard", grouped(self.sum(Self::received))));
        let polls = grouped(self.sum(|rank| rank.calls.failed));
        let calls = grouped(self.sum(|rank| rank.calls.matched));
        line("calls", format!("{calls} completed something, {polls} failed polls"));
        let clocks = self.sum(|rank| rank.clock_values);
        let others = self.sum(|rank| rank.values) - clocks;
        line("values", values_text(self.orders, clocks, others, self.sum(|rank| rank.value_bytes)));
        let each = self.bytes_per_receive();
        let each = each.map_or_else(String::new, |each| format!(", {each:.3} bytes a receive"));
        line("size", size(self.bytes) + &each);
        line("complete", completeness(self.orders));
        for what in super::record::unsupported(self.orders) {
            line("unsupported", what.to_owned());
        }
        for ((site, what), counts) in &self.receives {
            let (matched, unmatched) = (grouped(counts.matched), grouped(counts.unmatched));
            line("", format!("{site}: {what}, {matched} received, {unmatched} not"));
        }
        for ((site, kind), counts) in &self.calls {
            let (matched, failed) = (grouped(counts.matched), grouped(counts.failed));
            line("", format!("{site}: {kind}, {matched} succeeded, {failed} failed"));
        }
        text
    }
}

fn rank_json((own, rank): (&refrain_trace::orders::RankOrder, &Summary)) -> Json {
    json!({
        "rank": own.rank,
        "finalized": own.finalized,
        "truncated": own.why_cut,
        "host": own.host,
        "pid": own.pid,
        "threads": rank.streams,
        "receives": Info::received(rank),
        "wildcard_receives": rank.receives.matched,
        "calls": rank.calls.matched,
        "failed_polls": rank.calls.failed,
        "values": rank.values,
        "clock_values": rank.clock_values,
        "value_bytes": rank.value_bytes,
        "bytes": rank.bytes,
    })
}

fn add(sum: &mut Counts, counts: &Counts) {
    sum.matched += counts.matched;
    sum.failed += counts.failed;
    sum.picked += counts.picked;
    sum.unmatched += counts.unmatched;
}
