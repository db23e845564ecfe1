//! `refrain stats`: calls, time and bytes by function, call site or rank.

mod functions;
mod ranks;

use crate::open::open;
use crate::select::parse_ranks;
use crate::stdout::{print, print_json};
use anyhow::{Result, bail};
use refrain_analysis::figures::{self, figures_of};
use refrain_analysis::loads::Loads;
use refrain_analysis::sites::{Frame, Sites};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Prints calls, time and bytes by function, call site or rank.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain stats app.refrain
  refrain stats app.refrain --rank 0-3
  refrain stats app.refrain --by rank          which rank the others wait for (needs trace --timing)
  refrain stats app.refrain --by site          by line of the program (needs trace --callsite)
  refrain stats app.refrain --json | jq '.[0]'
  refrain stats app.refrain --json | jq 'map(.bytes) | add'

By function or site: the one that took longest comes first. Time is the time inside the calls,
summed over all ranks. Calls are counted in the compressed trace, so the length of the run does
not matter. Durations are kept over all ranks, by function, call site and message size: means within
0.05 %, min at most 6 % too small, max at most 6 % too large. With --rank, the times of single
ranks come from the times of every call, if the trace has these (trace --timing or --raw).
Otherwise a function has times only if the selected ranks include every rank that calls it alike.

By rank: time inside MPI, and time computing, which is all time between calls. MPI_Init and
MPI_Finalize are not included. A rank whose processor was given to another process seems to
compute meanwhile. So `~computing` counts every gap between two calls as the median of the gaps
between the same two call sites (without --callsite: functions). If some ranks, at most half of
them, compute clearly longer by that measure (by a fifth, and by 0.1 % of the run), the last line
names them and the gap that makes most of the difference. Ranks wait inside MPI for such a rank.

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
previous limit and it); with --by site also site. With --by rank one object with ranks (array:
rank, calls, bytes, unsized_calls, mpi_s, init_finalize_s, computing_s, typical_computing_s) and
longest (null, or the ranks that compute longest).")]
pub struct Args {
    /// The trace to count.
    trace: PathBuf,
    /// Print a line for each function, each call site or each rank.
    #[arg(long, value_enum, default_value_t = By::Function)]
    by: By,
    /// Count only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Print JSON: an array, or with --by rank an object.
    #[arg(long)]
    json: bool,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// A function.
    Function,
    /// A function at a call site.
    Site,
    /// A rank.
    Rank,
}

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let ranks = args.rank.as_deref().map(|list| parse_ranks("--rank", list)).transpose()?;
    let trace = open(&args.trace)?;
    let wanted = ranks.map(|ranks| {
        let wanted = trace.processes().filter(|process| ranks.contains(&process.rank()));
        wanted.map(|process| process.rank_index()).collect::<BTreeSet<u32>>()
    });
    if wanted.as_ref().is_some_and(BTreeSet::is_empty) {
        bail!("no rank {} in {}", args.rank.unwrap_or_default(), args.trace.display());
    }
    let mut sites = Sites::recorded_at(trace.meta().time.0);
    if args.by == By::Rank {
        let loads = Loads::of(&trace, wanted.as_ref())?;
        match args.json {
            true => print_json(&ranks::as_json(&loads, &mut sites)?)?,
            false => print(&ranks::as_text(&loads, &mut sites))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let by = if args.by == By::Site { figures::By::Site } else { figures::By::Function };
    let figures = figures_of(&trace, wanted.as_ref(), by)?;
    if args.by == By::Site && figures.functions.iter().all(|function| function.site.is_none()) {
        bail!(
            "{} has no call sites: record them with `refrain trace --callsite return`",
            args.trace.display()
        );
    }
    let tick = trace.meta().tick;
    match args.json {
        true => print_json(&functions::as_json(&figures, tick, &mut sites)?)?,
        false => print(&functions::as_text(&figures, tick, &mut sites))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A call site as a word or a few: `exchange stencil.c:42 < main stencil.c:90`.
fn site_text(site: &Arc<str>, sites: &mut Sites) -> String {
    let frames: Vec<String> = sites.frames(site).iter().map(Frame::text).collect();
    frames.join(" < ")
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
