//! The table of functions, or of functions at call sites.

use super::{aligned, site_text};
use crate::summary::size;
use anyhow::Result;
use refrain_analysis::figures::{Figures, FunctionFigures};
use refrain_analysis::loads::is_startup;
use refrain_analysis::sites::{Frame, Sites};
use serde::Serialize;
use serde_json::Value as Json;

/// A JSON array with an object per line of the table.
pub fn as_json(figures: &Figures, tick: f64, sites: &mut Sites) -> Result<String> {
    let durations: Vec<Option<Durations>> =
        figures.functions.iter().map(|f| Durations::of(f, tick)).collect();
    let rows = figures.functions.iter().zip(&durations);
    let rows: Vec<FunctionRow<'_>> = rows
        .map(|(f, d)| {
            let site = f.site.as_ref().map(|s| sites.frames(s).iter().map(Frame::json).collect());
            FunctionRow { site, ..FunctionRow::of(f, d.as_ref()) }
        })
        .collect();
    Ok(serde_json::to_string(&rows)?)
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
    /// Innermost frame first; absent unless the rows are by call site.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Vec<Json>>,
    calls: u64,
    /// The number of ranks that called it.
    ranks: usize,
    bytes: u64,
    unsized_calls: u64,
    failed_polls: u64,
    /// This and all following fields are null if no call returned or durations are unknown.
    time_s: Option<f64>,
    mean_us: Option<f64>,
    min_us: Option<f64>,
    max_us: Option<f64>,
    deviation_us: Option<f64>,
    median_us: Option<f64>,
    p95_us: Option<f64>,
    /// The time since the rank's previous call.
    gap_mean_us: Option<f64>,
    gap_median_us: Option<f64>,
    /// Pairs of an upper limit and the number of durations between the previous limit and it.
    histogram_us: Option<&'a [(f64, u32)]>,
}

impl<'a> FunctionRow<'a> {
    fn of(function: &'a FunctionFigures, durations: Option<&'a Durations>) -> FunctionRow<'a> {
        let of = |value: fn(&Durations) -> f64| durations.map(value);
        FunctionRow {
            function: &function.name,
            site: None,
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

/// The table, and what there is to say about it.
pub fn as_text(figures: &Figures, tick: f64, sites: &mut Sites) -> String {
    let mut lines = vec![HEADS.map(str::to_owned)];
    let (mut time, mut startup): (Option<f64>, f64) = (None, 0.0);
    for function in &figures.functions {
        let durations = Durations::of(function, tick);
        if let Some(durations) = &durations {
            time = Some(time.unwrap_or(0.0) + durations.sum);
            startup += if is_startup(&function.name) { durations.sum } else { 0.0 };
        }
        let of = |digits: usize, value: fn(&Durations) -> f64| {
            durations.as_ref().map_or("-".to_owned(), |d| format!("{:.digits$}", value(d)))
        };
        let site = function.site.as_ref().map(|site| format!("  {}", site_text(site, sites)));
        lines.push([
            format!("{}{}", function.name, site.unwrap_or_default()),
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
    if let Some(time) = time.filter(|_| startup > 0.0) {
        let mut line = std::array::from_fn(|_| blank());
        line[0] = "without MPI_Init, MPI_Finalize".to_owned();
        line[4] = format!("{:.6}", (time - startup) / 1e6);
        lines.push(line);
    }
    let mut text = aligned(&lines);
    for (count, what) in [
        (sum(|f| f.failed_polls), "of these calls are failed polls that were repeated at once"),
        (
            sum(|f| f.unsized_calls),
            "have a payload of unknown size, which is not included in the bytes",
        ),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    let untimed = figures.functions.iter().filter(|function| function.is_untimed).count();
    if untimed > 0 {
        let what = if untimed == 1 { "function has" } else { "functions have" };
        text += &format!(
            "{untimed} {what} no times: a trace keeps statistics over all ranks, and not all that make these calls \
             are selected. Record with `refrain trace --timing loop` for the times of single ranks\n"
        );
    }
    text
}
