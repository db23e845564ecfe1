//! `refrain show` of a trace with histograms: calls that are drawn from them.

use super::Args;
use super::structure::{argument, stack};
use crate::select::Names;
use crate::stdout::Lines;
use anyhow::{Result, bail};
use refrain_analysis::nest::histograms::Texts;
use refrain_analysis::sites::{Frame, Sites};
use refrain_reader::CallTrace;
use refrain_reader::refrain_fold::histograms::HistogramTrace;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

/// A line of `refrain show --json`.
#[derive(Serialize)]
struct DrawnRow<'a> {
    rank: i32,
    thread: u32,
    /// The number of the call in its thread.
    call: u64,
    function: &'a str,
    /// By name, as text.
    arguments: BTreeMap<&'a str, &'a str>,
    /// True: the call is not one of the run.
    drawn: bool,
    /// Innermost frame first; absent unless call sites were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Vec<Json>>,
}

/// Prints.
pub fn run(
    trace: &CallTrace,
    histograms: &HistogramTrace,
    args: &Args,
    ranks: Option<&BTreeSet<i32>>,
    functions: &Names,
) -> Result<ExitCode> {
    if args.times {
        bail!(
            "{} has histograms, and no times of single calls: leave --times out",
            args.trace.display()
        );
    }
    super::say_histograms(&args.trace, histograms);
    say!("refrain: these calls are drawn from histograms, they are not those of the run");
    let texts = Texts::of(trace, histograms);
    let mut sites = Sites::recorded_at(trace.meta().time.0);
    let mut out = Lines::new();
    let mut left = args.limit.unwrap_or(u64::MAX);
    let is_threaded = histograms.programs.len() > 1;
    let mut is_found = false;
    for process in trace.processes() {
        let rank = process.rank();
        let is_wanted = ranks.is_none_or(|ranks| ranks.contains(&rank));
        for program in histograms.programs.iter().filter(|_| is_wanted) {
            if args.thread.is_some_and(|thread| thread != program.thread) {
                continue;
            }
            is_found = true;
            let calls = program.calls(histograms.seed, process.rank_index());
            for (number, drawn) in (0..).zip(calls) {
                if left == 0 {
                    break;
                }
                let (function, arguments) = texts.call(&drawn);
                if !functions.is_empty() && !functions.contain(&function) {
                    continue;
                }
                left -= 1;
                let site = drawn.call.sites.first().map(|site| String::from_utf8_lossy(site));
                let frames = site.map(|site| sites.frames(&Arc::from(site)).to_vec());
                if args.json {
                    let row = DrawnRow {
                        rank,
                        thread: program.thread,
                        call: number,
                        function: &function,
                        arguments: arguments
                            .iter()
                            .map(|(n, v)| (n.as_str(), v.as_str()))
                            .collect(),
                        drawn: true,
                        site: frames.map(|frames| frames.iter().map(Frame::json).collect()),
                    };
                    out.json(&serde_json::to_string(&row)?)?;
                    continue;
                }
                let who = match is_threaded {
                    true => format!("{rank}.{}", program.thread),
                    false => rank.to_string(),
                };
                let arguments: Vec<String> = arguments.iter().map(argument).collect();
                let site =
                    frames.map_or(String::new(), |frames| format!("  at {}", stack(&frames)));
                let arguments = arguments.join(", ");
                out.line(&format!("rank {who}  #{number}  {function}({arguments}){site}"))?;
            }
        }
    }
    if !is_found {
        bail!("no such rank or thread in {}", args.trace.display());
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
