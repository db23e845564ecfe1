//! `refrain fold`: stores a trace of calls as loop nests.

use crate::mode::Access;
use anyhow::{Context, Result, bail};
use refrain_reader::File;
use refrain_trace::form::{self, Structure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes a trace again with its structure as loop nests.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain fold app.refrain -o small.refrain
  refrain fold app.refrain -o app.grammar.refrain --structure grammar

A trace stores the sequence of calls as a grammar or as loop nests. A grammar is small where a
program repeats itself exactly; loop nests are small also where message sizes, neighbours or trip
counts change. All commands read both, and get the same calls from both.")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// The trace to write; an existing file is overwritten.
    #[arg(short, long, value_name = "NAME.refrain")]
    output: PathBuf,
    /// The form.
    #[arg(long, value_enum, default_value_t = Wanted::Nest)]
    structure: Wanted,
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
    let file = refrain_reader::open(&args.trace)?;
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
    form::fold(&trace, &args.output, args.structure.into())
        .with_context(|| format!("cannot make {}", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}
