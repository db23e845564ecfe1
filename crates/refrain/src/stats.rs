//! `refrain stats`: calls, time and bytes by function.

use crate::open::open;
use crate::select::parse_ranks;
use crate::stdout::{print, print_json};
use crate::summary::size;
use anyhow::{Result, bail};
use refrain_analysis::figures::{Figures, FunctionFigures, figures_of};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints calls, time and bytes by function, over all ranks or some.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain stats app.refrain
  refrain stats app.refrain --rank 0-3
  refrain stats app.refrain --json | jq '.[0]'
  refrain stats app.refrain --json | jq 'map(.bytes) | add'

The function that took longest comes first. Time is the time inside the calls, summed over all
ranks. Calls are counted in the compressed trace, so the length of the run does not matter.
Durations are kept per group of ranks (see refrain info), not per rank. With --rank, the times of
single ranks come from the times of every call, if the trace has these (trace --timing or --raw).
Otherwise a function has times only if the selected ranks include every rank of its groups.

Bytes are the size of the buffer that a call names with its first count and datatype:
  point-to-point   what is sent, or may be received; 0 for MPI_PROC_NULL
  one-sided        the origin buffer
  collective       what the rank itself contributes: the sum of its counts, one block per rank for
                   MPI_Alltoall, its own block for MPI_Scatter
  persistent       counted when the request is created, not when it is started
A call whose datatype has a size that the trace does not know counts as unsized.

JSON: an array of objects with function, calls, ranks (that called it), bytes, unsized_calls,
failed_polls (tests and probes that found nothing and were repeated at once; they are included in
calls), time_s, mean_us, min_us, max_us, deviation_us (null if no call returned), median_us and
p95_us (correct within a factor of two), gap_mean_us and gap_median_us (time since the rank's
previous call), histogram_us (pairs of an upper limit and the number of durations between the
previous limit and it).")]
pub struct Args {
    /// The trace to count.
    trace: PathBuf,
    /// Count only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Print a JSON array with one object per function.
    #[arg(long)]
    json: bool,
}

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let ranks = args.rank.as_deref().map(|list| parse_ranks("--rank", list)).transpose()?;
    let trace = open(&args.trace)?;
    let places = ranks.map(|ranks| {
        let wanted = trace.processes().filter(|process| ranks.contains(&process.rank()));
        wanted.map(|process| process.rank_index()).collect::<BTreeSet<u32>>()
    });
    if places.as_ref().is_some_and(BTreeSet::is_empty) {
        bail!("no rank {} in {}", args.rank.unwrap_or_default(), args.trace.display());
    }
    let figures = figures_of(&trace, places.as_ref())?;
    let tick = trace.meta().tick;
    match args.json {
        true => {
            let durations: Vec<Option<Durations>> =
                figures.functions.iter().map(|f| Durations::of(f, tick)).collect();
            let rows = figures.functions.iter().zip(&durations);
            let rows: Vec<FunctionRow<'_>> =
                rows.map(|(f, d)| FunctionRow::of(f, d.as_ref())).collect();
            print_json(&serde_json::to_string(&rows)?)?;
        }
        false => print(&table(&figures, tick))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Durations of a function's calls, in microseconds.
struct Durations {
    sum: f64,
    mean: f64,
    min: f64,
    max: f64,
    deviation: f64,
    median: f64,
    high: f64,
    gap_mean: f64,
    gap_median: f64,
    histogram: Vec<(f64, u32)>,
}

impl Durations {
    fn of(function: &FunctionFigures, tick: f64) -> Option<Durations> {
        let stats = &function.stats;
        let micros = |ticks: f64| ticks * tick / 1e3;
        let sum = micros(stats.sum as f64);
        let spread = stats.whole_spread();
        let quantile = |part: f64| {
            let ticks = spread.durations.quantile(part, stats.min, stats.max).unwrap_or(0);
            micros(ticks as f64)
        };
        let gap = spread.gaps.quantile(0.5, 0, u64::MAX).unwrap_or(0);
        let bucket = |(_, last, count): (u64, u64, u32)| (micros(last as f64), count);
        (stats.count > 0).then(|| Durations {
            sum,
            mean: sum / stats.count as f64,
            min: micros(stats.min as f64),
            max: micros(stats.max as f64),
            deviation: micros(stats.deviation()),
            median: quantile(0.5),
            high: quantile(0.95),
            gap_mean: micros(stats.gaps as f64) / stats.count as f64,
            gap_median: micros(gap as f64),
            histogram: spread.durations.buckets().map(bucket).collect(),
        })
    }
}

/// An object of `refrain stats --json`.
#[derive(Serialize)]
struct FunctionRow<'a> {
    function: &'a str,
    calls: u64,
    /// Ranks that called it.
    ranks: usize,
    bytes: u64,
    unsized_calls: u64,
    failed_polls: u64,
    /// This and all that follow are null if no call returned, or durations are not known.
    time_s: Option<f64>,
    mean_us: Option<f64>,
    min_us: Option<f64>,
    max_us: Option<f64>,
    deviation_us: Option<f64>,
    median_us: Option<f64>,
    p95_us: Option<f64>,
    /// Of the time since the rank's call before.
    gap_mean_us: Option<f64>,
    gap_median_us: Option<f64>,
    /// Pairs of an upper limit and the number of durations between the limit before and it.
    histogram_us: Option<&'a [(f64, u32)]>,
}

impl<'a> FunctionRow<'a> {
    fn of(function: &'a FunctionFigures, durations: Option<&'a Durations>) -> FunctionRow<'a> {
        let of = |value: fn(&Durations) -> f64| durations.map(value);
        FunctionRow {
            function: &function.name,
            calls: function.calls,
            ranks: function.ranks,
            bytes: function.bytes,
            unsized_calls: function.unsized_calls,
            failed_polls: function.failed_polls,
            time_s: of(|d| d.sum / 1e6),
            mean_us: of(|d| d.mean),
            min_us: of(|d| d.min),
            max_us: of(|d| d.max),
            deviation_us: of(|d| d.deviation),
            median_us: of(|d| d.median),
            p95_us: of(|d| d.high),
            gap_mean_us: of(|d| d.gap_mean),
            gap_median_us: of(|d| d.gap_median),
            histogram_us: durations.map(|d| d.histogram.as_slice()),
        }
    }
}

const HEADS: [&str; 10] = [
    "function", "calls", "ranks", "bytes", "time s", "mean µs", "min µs", "~p50 µs", "~p95 µs",
    "max µs",
];

fn table(figures: &Figures, tick: f64) -> String {
    let mut lines = vec![HEADS.map(str::to_owned)];
    let mut time: Option<f64> = None;
    for function in &figures.functions {
        let durations = Durations::of(function, tick);
        if let Some(durations) = &durations {
            time = Some(time.unwrap_or(0.0) + durations.sum);
        }
        let of = |digits: usize, value: fn(&Durations) -> f64| {
            durations.as_ref().map_or("-".to_owned(), |d| format!("{:.digits$}", value(d)))
        };
        lines.push([
            function.name.clone(),
            function.calls.to_string(),
            function.ranks.to_string(),
            if function.bytes > 0 { size(function.bytes) } else { "-".to_owned() },
            of(6, |d| d.sum / 1e6),
            of(3, |d| d.mean),
            of(3, |d| d.min),
            of(3, |d| d.median),
            of(3, |d| d.high),
            of(3, |d| d.max),
        ]);
    }
    let sum = |of: fn(&FunctionFigures) -> u64| {
        figures.functions.iter().map(of).fold(0, u64::saturating_add)
    };
    let blank = String::new;
    lines.push([
        "total".to_owned(),
        figures.calls().to_string(),
        blank(),
        size(sum(|f| f.bytes)),
        time.map_or("-".to_owned(), |time| format!("{:.6}", time / 1e6)),
        blank(),
        blank(),
        blank(),
        blank(),
        blank(),
    ]);
    let mut text = aligned(&lines);
    for (count, what) in [
        (sum(|f| f.failed_polls), "of these calls found nothing, and were made again at once"),
        (sum(|f| f.unsized_calls), "have a payload of unknown size, which is not among the bytes"),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    let untimed = figures.functions.iter().filter(|function| function.is_untimed).count();
    if untimed > 0 {
        let groups: Vec<&str> = figures.groups.iter().map(|group| group.list.as_str()).collect();
        let what = if untimed == 1 { "function has" } else { "functions have" };
        text += &format!(
            "{untimed} {what} no times: a trace keeps statistics per group of ranks ({}). Select \
             whole groups, or record with `refrain trace --timing lossy` for the times of single ranks\n",
            few_groups(&groups)
        );
    }
    text
}

/// The first of many groups.
fn few_groups(groups: &[&str]) -> String {
    const FEW: usize = 4;
    let mut shown: Vec<&str> = Vec::new();
    for group in groups {
        if !shown.contains(group) {
            shown.push(group);
        }
    }
    let more = shown.len().saturating_sub(FEW);
    shown.truncate(FEW);
    let text = shown.join("; ");
    if more > 0 { format!("{text}; {more} more") } else { text }
}

/// Lines of a table, the first column to the left and the others to the right.
fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let mut row = format!("{:1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(widths).skip(1) {
            row += &format!("  {cell:>width$}");
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let line = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let text = aligned(&[line("function", "µs"), line("f", "1234"), line("total", "")]);
        assert_eq!(text, "function    µs\nf         1234\ntotal\n");
    }
}
