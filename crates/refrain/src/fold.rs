//! `refrain fold`: stores a trace of calls as loop nests.

use crate::mode::Access;
use crate::open::open_any;
use crate::show::structure::lines;
use anyhow::{Context, Result, bail};
use refrain_analysis::nest::histograms::histograms;
use refrain_analysis::sites::Sites;
use refrain_reader::File;
use refrain_reader::refrain_nest::Options;
use refrain_trace::form::{self, Structure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes a trace again with its structure as loop nests.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain fold app.refrain -o small.refrain
  refrain fold app.refrain -o app.grammar.refrain --structure grammar
  refrain fold app.refrain -o tiny.refrain --histogram-above 16

A trace stores the sequence of calls as a grammar or as loop nests. A grammar is small where a
program repeats itself exactly; loop nests are small also where message sizes, neighbours or trip
counts change. All commands read both, and get the same calls from both.

--histogram-above makes a trace that is not lossless, whose size depends neither on the number
of steps nor on the number of ranks. Trip counts and arguments are vectors over the visits of a
place by all ranks. A vector that takes more than N numbers (formulas of the rank and of loop
indices take few) is replaced by a histogram with at most N bins: each value, or range of
values, and how often it occurs. A peer is counted as distance from the rank if that gives fewer
values. A place that occurs more than N times in the nest becomes one node; a list of ranks with
more than N ranges becomes a number of ranks. What MPI decided, failed polls, raw records, and
times of single calls are left out; the total time of each place is kept. `info`, `show` and
`verify` say that the trace has histograms. `show --structure` prints them, `show` prints calls
that are drawn from them, always the same ones; each value occurs about as often as it did in the
run. Commands that need the calls of the run refuse such a trace.")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// The trace to write; an existing file is overwritten.
    #[arg(short, long, value_name = "NAME.refrain")]
    output: PathBuf,
    /// The form.
    #[arg(long, value_enum, default_value_t = Wanted::Nest)]
    structure: Wanted,
    /// Replace vectors of more than N numbers by histograms. Not lossless.
    #[arg(long, value_name = "N", conflicts_with = "structure")]
    histogram_above: Option<u64>,
    /// Call stacks of which at most K frames differ are the same place of the loop nest.
    #[arg(long, value_name = "K")]
    fuzzy_frames: Option<usize>,
    #[command(flatten)]
    access: Access,
}

/// The form in which calls are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// The smallest of all forms.
    Auto,
    /// As a grammar.
    Grammar,
    /// As loop nests.
    Nest,
}

impl From<Wanted> for Structure {
    fn from(wanted: Wanted) -> Structure {
        match wanted {
            Wanted::Auto => Structure::Auto,
            Wanted::Grammar => Structure::Grammar,
            Wanted::Nest => Structure::Nest,
        }
    }
}

/// Writes the trace.
pub fn run(args: Args) -> Result<ExitCode> {
    let file = open_any(&args.trace)?;
    if file.is_recovered() {
        bail!(
            "the end of {} is missing, and what is made of it would look whole: fold an undamaged file",
            args.trace.display()
        );
    }
    let File::Calls(trace) = file else {
        bail!("{} is not a trace of MPI calls", args.trace.display());
    };
    if args.output.exists() && !refrain_reader::is_one(&args.output) {
        bail!(
            "{} exists and is not a trace: name another file with -o, or remove it",
            args.output.display()
        );
    }
    args.access.apply();
    let made = || format!("cannot make {}", args.output.display());
    let frames = args.fuzzy_frames.unwrap_or(trace.fuzzy_frames()?);
    let Some(above) = args.histogram_above else {
        form::fold(&trace, &args.output, args.structure.into(), frames).with_context(made)?;
        return Ok(ExitCode::SUCCESS);
    };
    let options = Options { frames, ..Options::default() };
    let mut sites = Sites::recorded_at(trace.meta().time.0);
    let lines = &mut |site: &[u8]| lines(&mut sites, site);
    let histograms = histograms(&trace, options, above, lines).with_context(made)?;
    form::write_histograms(&trace, &histograms, &args.output).with_context(made)?;
    Ok(ExitCode::SUCCESS)
}
