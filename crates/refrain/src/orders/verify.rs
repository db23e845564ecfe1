//! `refrain verify` of a record of receive orders.

use super::truncations;
use crate::stdout::{print, print_json};
use crate::summary::{counted, grouped};
use anyhow::Result;
use refrain_order::causal::check::{Checked, check};
use refrain_order::clock::summary::{each_call, summary};
use refrain_order::frame::take_frame;
use refrain_order::turns::TurnReplayer;
use refrain_trace::Orders;
use refrain_trace::orders::{Method, RankOrder};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

/// Exit code if the record is damaged, or contradicts itself.
const WRONG: u8 = 1;

/// What was found.
#[derive(Default)]
struct Findings {
    sections: usize,
    all: Checked,
    problems: Vec<String>,
}

/// Checks a record. `orders` is what could be read of it.
pub fn run(path: &Path, orders: Option<&Orders>, as_json: bool) -> Result<ExitCode> {
    let integrity = refrain_reader::orders::integrity(path).unwrap_or_default();
    let (sections, problems) = (integrity.intact, integrity.problems);
    let mut findings = Findings { sections, problems, ..Findings::default() };
    if let Some(orders) = orders {
        findings.look_at(orders);
    }
    match as_json {
        true => print_json(&findings.json(path, orders)?)?,
        false => print(&findings.text(orders))?,
    }
    Ok(if findings.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

impl Findings {
    fn look_at(&mut self, orders: &Orders) {
        let mut seen = BTreeSet::new();
        for rank in &orders.ranks {
            if !seen.insert(rank.rank) {
                self.problems.push(format!("rank {} is there twice", rank.rank));
            }
            if rank.rank >= orders.size() {
                self.problems.push(format!("rank {} of {}", rank.rank, orders.size()));
            }
            let own = match rank.method {
                Method::Causal => check(&rank.frames, rank.is_whole()),
                Method::Clock => check_chunks(rank),
            };
            let named = own.problems.iter().map(|what| format!("rank {}: {what}", rank.rank));
            self.problems.extend(named);
            self.all.threads += own.threads;
            self.all.calls += own.calls;
            self.all.receives += own.receives;
            self.all.completions += own.completions;
            self.all.values += own.values;
        }
    }

    fn text(&self, orders: Option<&Orders>) -> String {
        let mut text = String::new();
        let mut line = |words: String| text += &format!("{words}\n");
        for problem in &self.problems {
            line(format!("wrong: {problem}"));
        }
        let Some(orders) = orders else { return text };
        if self.problems.is_empty() {
            line(format!("{}, every checksum right", counted(self.sections as u64, "section")));
            let Checked { threads, calls, receives, completions, values, .. } = &self.all;
            let ranks = format!("{} of {} ranks", orders.ranks.len(), orders.size());
            line(format!("{ranks}, {}: every frame reads", counted(*threads, "thread")));
            let what = match orders.method() {
                Method::Causal => "wildcard receive",
                Method::Clock => "message",
            };
            line(format!(
                "{}, {} and {} decoded",
                counted(*receives, what),
                counted(*calls, "completing call"),
                counted(*values, "value"),
            ));
            if *completions > 0 {
                let completions = grouped(*completions);
                line(format!("{completions} receives completed by a request of a recorded call"));
            }
        }
        truncations(orders).iter().for_each(|what| line(format!("remark: {what}")));
        line(
            "not checked: whether each message was sent; a record holds receives, no sends".into(),
        );
        text
    }

    fn json(&self, path: &Path, orders: Option<&Orders>) -> Result<String> {
        Ok(serde_json::to_string(&VerifyRow {
            path: path.display().to_string(),
            ok: self.problems.is_empty(),
            sections_checked: self.sections,
            method: orders.map(|orders| orders.method().name()),
            ranks: orders.map_or(0, |orders| orders.ranks.len()),
            size: orders.map_or(0, Orders::size),
            threads: self.all.threads,
            receives: self.all.receives,
            calls: self.all.calls,
            values: self.all.values,
            completions: self.all.completions,
            problems: &self.problems,
            remarks: orders.map(truncations).unwrap_or_default(),
        })?)
    }
}

/// `refrain verify --json` of a record.
#[derive(Serialize)]
struct VerifyRow<'a> {
    path: String,
    ok: bool,
    sections_checked: usize,
    /// Null if the record does not read.
    method: Option<&'static str>,
    ranks: usize,
    size: u32,
    threads: u64,
    /// Wildcard receives; by the clock method, messages that could have come in another order.
    receives: u64,
    calls: u64,
    values: u64,
    /// Receives whose completing call is recorded.
    completions: u64,
    problems: &'a [String],
    /// Why it is truncated.
    remarks: Vec<String>,
}

/// Checks a rank's record by the clock method.
fn check_chunks(rank: &RankOrder) -> Checked {
    let mut checked = Checked::default();
    match summary(&rank.chunks) {
        Ok(found) => {
            checked.problems.extend(found.truncated.map(|error| error.to_string()));
            if rank.is_whole() && !found.complete && found.truncated.is_none() {
                let missing = "the end is missing, though the rank called MPI_Finalize";
                checked.problems.push(missing.to_owned());
            }
            (checked.threads, checked.calls) = (found.threads, found.all.calls);
            (checked.receives, checked.values) = (found.all.messages, found.values);
        }
        Err(error) => checked.problems.push(error.to_string()),
    }
    if checked.problems.is_empty() {
        let calls = each_call(&rank.chunks, |_, _| {});
        let mut rest = &rank.chunks[..];
        let bodies = std::iter::from_fn(|| take_frame(&mut rest).ok());
        let turns = TurnReplayer::new(bodies).map(|_| ());
        let errors = [calls, turns].into_iter().filter_map(Result::err);
        checked.problems.extend(errors.map(|error| error.to_string()));
    }
    checked
}
