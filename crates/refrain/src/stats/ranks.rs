//! The table of ranks, and which of them computes longest.

use super::{aligned, site_text};
use crate::select::ranks_in_words;
use crate::summary::size;
use anyhow::Result;
use refrain_analysis::loads::{Loads, Longest, Point, Range, RankLoad};
use refrain_analysis::sites::{Frame, Sites};
use serde::Serialize;
use serde_json::Value as Json;

/// What `refrain stats --by rank --json` prints.
#[derive(Serialize)]
struct Whole {
    ranks: Vec<RankRow>,
    /// Null if no rank computes clearly longer than the others, or if the trace has no times.
    longest: Option<LongestRow>,
}

#[derive(Serialize)]
struct RankRow {
    rank: i32,
    calls: u64,
    bytes: u64,
    unsized_calls: u64,
    /// Time inside MPI, without `init_finalize_s`. This and all that follow are null without times of calls.
    mpi_s: Option<f64>,
    init_finalize_s: Option<f64>,
    /// Time between calls.
    computing_s: Option<f64>,
    /// The same, with every gap counted as the median of its pair of call sites.
    typical_computing_s: Option<f64>,
}

#[derive(Serialize)]
struct LongestRow {
    ranks: Vec<i32>,
    /// The calls around the gap that makes most of the difference.
    after: PointRow,
    before: PointRow,
    /// Least and greatest median of these ranks, and how often the gap occurs on each.
    median_us: [f64; 2],
    times: [u64; 2],
    /// The same of the other ranks; null if the gap does not occur there.
    others_median_us: Option<[f64; 2]>,
    others_times: Option<[u64; 2]>,
    /// How much longer the slowest of these ranks computes than any other, and the share of the run.
    excess_s: f64,
    share: f64,
}

#[derive(Serialize)]
struct PointRow {
    function: String,
    /// Innermost frame first; absent unless call sites were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Vec<Json>>,
}

/// One JSON object.
pub fn as_json(loads: &Loads, sites: &mut Sites) -> Result<String> {
    let seconds = |nanos: u64| loads.is_timed.then_some(nanos as f64 / 1e9);
    let row = |load: &RankLoad| RankRow {
        rank: load.rank,
        calls: load.calls,
        bytes: load.bytes,
        unsized_calls: load.unsized_calls,
        mpi_s: seconds(load.inside),
        init_finalize_s: seconds(load.startup),
        computing_s: seconds(load.computing),
        typical_computing_s: seconds(load.typical),
    };
    let longest = loads.longest().filter(|_| loads.is_timed).map(|found| {
        let mut point = |point: &Point| PointRow {
            function: point.function.to_string(),
            site: point.site.as_ref().map(|s| sites.frames(s).iter().map(Frame::json).collect()),
        };
        let micros = |(least, most): Range| [least as f64 / 1e3, most as f64 / 1e3];
        LongestRow {
            after: point(&found.between.0),
            before: point(&found.between.1),
            ranks: found.ranks,
            median_us: micros(found.medians),
            times: found.counts.into(),
            others_median_us: found.others.map(|(medians, _)| micros(medians)),
            others_times: found.others.map(|(_, counts)| counts.into()),
            excess_s: found.excess as f64 / 1e9,
            share: found.share,
        }
    });
    let whole = Whole { ranks: loads.ranks.iter().map(row).collect(), longest };
    Ok(serde_json::to_string(&whole)?)
}

/// The table, and the rank that computes longest if there is one.
pub fn as_text(loads: &Loads, sites: &mut Sites) -> String {
    let heads = ["rank", "calls", "bytes", "MPI s", "computing s", "~computing s"];
    let mut lines = vec![heads.map(str::to_owned)];
    let seconds = |nanos: u64| match loads.is_timed {
        true => format!("{:.6}", nanos as f64 / 1e9),
        false => "-".to_owned(),
    };
    let mut row = |rank: String, load: &RankLoad| {
        lines.push([
            rank,
            load.calls.to_string(),
            if load.bytes > 0 { size(load.bytes) } else { "-".to_owned() },
            seconds(load.inside),
            seconds(load.computing),
            seconds(load.typical),
        ]);
    };
    loads.ranks.iter().for_each(|load| row(load.rank.to_string(), load));
    let sum = |of: fn(&RankLoad) -> u64| loads.ranks.iter().map(of).fold(0, u64::saturating_add);
    let total = RankLoad {
        calls: sum(|load| load.calls),
        bytes: sum(|load| load.bytes),
        inside: sum(|load| load.inside),
        computing: sum(|load| load.computing),
        typical: sum(|load| load.typical),
        ..RankLoad::default()
    };
    row("total".to_owned(), &total);
    let mut text = aligned(&lines);
    let unsized_calls = sum(|load| load.unsized_calls);
    if unsized_calls > 0 {
        text += &format!(
            "{unsized_calls} have a payload of unknown size, which is not included in the bytes\n"
        );
    }
    if !loads.is_timed {
        return text
            + "no times of single calls were recorded: `refrain trace --timing loop` records how long \
               each rank computes\n";
    }
    let startup = seconds(sum(|load| load.startup));
    text += &format!("MPI_Init and MPI_Finalize took another {startup} s in all\n");
    match loads.longest() {
        Some(found) => text + &format!("{}\n", longest(&found, sites)),
        None if loads.ranks.len() < 2 => text,
        None => text + "no rank computes clearly longer than the others\n",
    }
}

/// `rank 5 computes longest: 273 µs (median) between MPI_Waitall (halo heat.c:13) and MPI_Irecv (halo heat.c:9);
/// the other ranks 122-150 µs; in all 25 ms more, 32.7 % of the run`.
fn longest(found: &Longest, sites: &mut Sites) -> String {
    let verb = if found.ranks.len() == 1 { "computes" } else { "compute" };
    let mut point = |point: &Point| match &point.site {
        Some(site) => format!("{} ({})", point.function, site_text(site, sites)),
        None => point.function.to_string(),
    };
    // How often the gap occurs matters where that differs between ranks.
    let is_even = found.others.is_none_or(|(_, counts)| counts == found.counts);
    let times = |counts: Range| match (is_even && found.counts.0 > 1, counts) {
        (true, _) => String::new(),
        (false, (1, 1)) => "once ".to_owned(),
        (false, (least, most)) if least == most => format!("{least} times "),
        (false, (least, most)) => format!("{least} to {most} times "),
    };
    let median = if found.counts.1 > 1 { " (median)" } else { "" };
    let others = match found.others {
        Some((medians, counts)) => format!("{}{}", times(counts), range(medians)),
        None => "make no such pair of calls".to_owned(),
    };
    format!(
        "{} {verb} longest: {}{}{median} between {} and {}; the other ranks {others}; in all {} more, \
         {:.1} % of the run",
        ranks_in_words(&found.ranks),
        times(found.counts),
        range(found.medians),
        point(&found.between.0),
        point(&found.between.1),
        range((found.excess, found.excess)),
        found.share * 100.0,
    )
}

/// `122-150 µs`, `9.0 µs to 12 ms`.
fn range((least, most): Range) -> String {
    let (unit, per_unit) = unit(most);
    match (digits(least, per_unit), digits(most, per_unit)) {
        (least, most) if least == most => format!("{most} {unit}"),
        (_, most) if self::unit(least).0 != unit => {
            let (unit_of_least, per_unit) = self::unit(least);
            format!("{} {unit_of_least} to {most} {unit}", digits(least, per_unit))
        }
        (least, most) => format!("{least}-{most} {unit}"),
    }
}

/// A unit that suits so many nanoseconds, and how many of them it is.
fn unit(nanos: u64) -> (&'static str, f64) {
    match nanos {
        0..10_000_000 => ("µs", 1e3),
        10_000_000..10_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

fn digits(nanos: u64, per_unit: f64) -> String {
    match nanos as f64 / per_unit {
        value if value < 10.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(function: &str) -> Point {
        Point { function: function.into(), site: None }
    }

    fn found() -> Longest {
        Longest {
            ranks: vec![5],
            between: (point("MPI_Waitall"), point("MPI_Irecv")),
            medians: (273_400, 273_400),
            counts: (200, 200),
            others: Some(((122_000, 150_400), (200, 200))),
            excess: 24_600_000,
            share: 0.327,
        }
    }

    #[test]
    fn the_rank_that_computes_longest_is_named_in_a_line() {
        let mut sites = Sites::default();
        assert_eq!(
            longest(&found(), &mut sites),
            "rank 5 computes longest: 273 µs (median) between MPI_Waitall and MPI_Irecv; \
             the other ranks 122-150 µs; in all 25 ms more, 32.7 % of the run"
        );
        let often = Longest {
            ranks: vec![0, 1, 2],
            medians: (9_000, 12_000_000),
            others: Some(((9_000, 9_000), (20, 50))),
            ..found()
        };
        assert_eq!(
            longest(&often, &mut sites),
            "ranks 0-2 compute longest: 200 times 9.0 µs to 12 ms (median) between MPI_Waitall and \
             MPI_Irecv; the other ranks 20 to 50 times 9.0 µs; in all 25 ms more, 32.7 % of the run"
        );
        let once = Longest { counts: (1, 1), others: None, ..found() };
        assert_eq!(
            longest(&once, &mut sites),
            "rank 5 computes longest: once 273 µs between MPI_Waitall and MPI_Irecv; \
             the other ranks make no such pair of calls; in all 25 ms more, 32.7 % of the run"
        );
    }
}
