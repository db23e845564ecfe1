//! `refrain diff`: where two records of receive orders differ.

use super::{Places, Sites, orders_in, print};
use crate::summary::{counted, grouped};
use anyhow::{Result, bail};
use refrain_order::Frames;
use refrain_order::causal::diff::{Difference, diff};
use refrain_order::causal::read::Which;
use refrain_trace::orders::Method;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is compared.
pub struct Args {
    /// The record, or the trace, of one run.
    pub left: PathBuf,
    /// The record, or the trace, of the other run.
    pub right: PathBuf,
    /// Also compare the number of failed polls, which differs between almost any two runs.
    pub polls: bool,
    /// Print one JSON object.
    pub json: bool,
}

/// Compares.
pub fn run(args: Args) -> Result<ExitCode> {
    let [left, right] = [orders_in(&args.left, Sites::Kept)?, orders_in(&args.right, Sites::Kept)?];
    if left.size() != right.size() {
        bail!(
            "the runs have {} and {} ranks: compare runs of the same size",
            left.size(),
            right.size()
        );
    }
    let methods = [left.method(), right.method()];
    if methods[0] != methods[1] {
        let [left, right] = methods.map(Method::name);
        bail!(
            "they were recorded by different methods, {left} and {right}: record both by one method"
        );
    }
    let traced = [&left, &right].map(|orders| orders.ranks.iter().any(|rank| rank.traced));
    if traced[0] != traced[1] {
        bail!("one is a record and the other a trace of calls: compare two records, or two traces");
    }
    if methods[0] == Method::Clock {
        return super::clock::diff([&left, &right], [&args.left, &args.right], &args);
    }
    let frames = |orders: &refrain_trace::Orders| -> Vec<Frames> {
        orders.ranks.iter().map(|rank| rank.frames.clone()).collect()
    };
    let found = diff(&frames(&left), &frames(&right), args.polls)?;
    let names = [Places::of(&left), Places::of(&right)];
    let ranks: Vec<u32> = left.ranks.iter().map(|rank| rank.rank).collect();
    let rank = |found: &Difference| ranks.get(found.rank as usize).copied().unwrap_or(found.rank);
    let texts = |found: &Difference| {
        let moments = [&found.left, &found.right];
        let text = |side: usize| moments[side].text(|site| names[side].name(site));
        // If the texts are equal, the call sites are on one line, or in two builds: show offsets.
        let exact = |side: usize| moments[side].text(|site| names[side].exact(site));
        if text(0) == text(1) { [exact(0), exact(1)] } else { [text(0), text(1)] }
    };
    if args.json {
        let differences: Vec<Json> = found
            .iter()
            .map(|found| {
                let [left, right] = texts(found);
                json!({
                    "rank": rank(found),
                    "thread": found.stream,
                    "in": format!("{:?}", found.which).to_lowercase(),
                    "left": left,
                    "right": right,
                    "differing": found.differing,
                    "compared": found.compared,
                })
            })
            .collect();
        let ranks = differing_ranks(&found);
        print(&format!("{}\n", json!({ "differences": differences, "differing_ranks": ranks })))?;
    } else {
        let mut text = String::new();
        for found in &found {
            let [differing, compared] = [found.differing, found.compared].map(grouped);
            let what = sequence(found.which);
            let who = format!("rank {}, thread {}", rank(found), found.stream);
            text += &format!("{who}: {differing} of {compared} {what} differ; the first:\n");
            for (path, side) in [&args.left, &args.right].into_iter().zip(texts(found)) {
                text += &format!("  {}: {side}\n", path.display());
            }
        }
        text += &match found.is_empty() {
            true => "no difference\n".to_owned(),
            false => summary(&found, left.ranks.len() as u64),
        };
        print(&text)?;
    }
    Ok(ExitCode::from(u8::from(!found.is_empty())))
}

fn sequence(which: Which) -> &'static str {
    match which {
        Which::Receives => "receives",
        Which::Calls => "completing calls",
    }
}

fn differing_ranks(found: &[Difference]) -> u64 {
    found.iter().map(|found| found.rank).collect::<BTreeSet<u32>>().len() as u64
}

/// How many ranks differ, and in how many receives and calls.
fn summary(found: &[Difference], ranks: u64) -> String {
    let differing = |which: Which| -> u64 {
        found.iter().filter(|found| found.which == which).map(|found| found.differing).sum()
    };
    let receives = counted(differing(Which::Receives), "receive");
    let calls = counted(differing(Which::Calls), "completing call");
    let differing = differing_ranks(found);
    format!("{differing} of {} differ: {receives}, {calls}\n", counted(ranks, "rank"))
}
