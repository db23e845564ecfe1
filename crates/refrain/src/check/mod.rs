//! `refrain check`: finds MPI errors in a trace, or in a program that it runs and traces.

mod prove;
mod report;
mod run;
mod sarif;
mod suppressions;

use self::report::{Outcome, as_github, as_json, as_text};
use self::run::Manner;
use self::suppressions::Suppressions;
use crate::Usage;
use crate::merge::{assembled, base_meta, parts_of};
use crate::open::open;
use crate::stdout::{print, print_json};
use anyhow::{Context, Result, bail};
use refrain_check::{Options, check};
use refrain_reader::CallTrace;
use refrain_trace::assemble::{Keep, assemble};
use refrain_trace::form::Structure;
use refrain_trace::parts::{holds_parts, noted_run};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Finds MPI errors: deadlocks, collectives and messages that do not fit, wrong arguments, leaks, races.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain check -- mpirun -n 4 ./app input.dat   traces the program, then checks the trace
  refrain check app.refrain                      a trace; with --callsite, findings name lines
  refrain check app.refrain.parts                what a job left that hung, crashed or was killed
  refrain check app.refrain --format github      annotations for GitHub Actions
  refrain check app.refrain --suppressions known.txt
  refrain check --prove -- mpirun -n 4 ./app     runs it again to see whether potential errors happen

A job that hangs is ended once every rank is in a call that waits for the others; --hang SECONDS
also ends a job in which no rank has made progress for so long.

A potential deadlock is one that MPI's buffering of messages, or a collective that returns early,
has prevented in this run. With --assume-buffering, programs may rely on the buffering of
standard sends. A message race is reported if another match leads to a deadlock. --prove runs the
command again: for potential deadlocks with synchronous sends, which wait for their receives; for
each race with the message late that came first. A finding is proven if the program then hangs in
these calls, or fails. Finding and exit code stay if it does not.

A line of a suppressions file is a class of findings, and optionally a pattern with * for the
function or file:line of one of its calls; # begins a comment:
  object-leak
  potential-deadlock exchange.c:*
  unmatched-send MPI_Bsend

Not found: what a trace of calls does not show, such as loads and stores of buffers that are in
flight. If calls are missing (trace --functions, --exclude, --ranks, MPI_Pcontrol), only wrong
arguments are reported.

Exit codes: 0 without findings, 1 with findings that are not suppressed, 2 for an invalid command
line, 125 if Refrain itself failed.")]
pub struct Args {
    /// A trace, or a folder of parts (NAME.refrain.parts).
    path: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, conflicts_with_all = ["sarif", "format"])]
    json: bool,
    /// Print SARIF 2.1.0, which code hosts and editors read.
    #[arg(long, conflicts_with = "format")]
    sarif: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Assume that MPI buffers standard sends.
    #[arg(long)]
    assume_buffering: bool,
    /// Do not report the findings that this file lists.
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
    /// End a traced job if no rank has made a call for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    hang: u64,
    /// Run the command again so that potential deadlocks and races happen, and say whether it fails.
    #[arg(long)]
    prove: bool,
    /// Keep the trace of the command under this name.
    #[arg(short, long, value_name = "NAME.refrain")]
    output: Option<PathBuf>,
    /// The command to run and trace.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Formats of the output.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
}

/// Checks.
pub fn run(args: Args) -> Result<ExitCode> {
    let suppressions = match &args.suppressions {
        Some(path) => Suppressions::read(path)?,
        None => Suppressions::default(),
    };
    let (trace, hung) = match (&args.path, args.command.is_empty()) {
        (_, true) if args.prove => {
            bail!(Usage("--prove runs the program again: name its command after `--`".to_owned()))
        }
        (Some(path), true) => (opened(path)?, None),
        (Some(path), false) if args.prove => (opened(path)?, None),
        (None, false) => {
            let (output, patience) = (args.output.as_deref(), args.hang);
            let run = run::traced(&args.command, Manner { output, patience, force: None })?;
            (run.opened, run.hung)
        }
        (None, true) => bail!(Usage("name a trace, or a command after `--`".to_owned())),
        (Some(_), false) => {
            bail!(Usage("name a trace or a command, not both".to_owned()))
        }
    };
    let options = Options { assume_buffering: args.assume_buffering };
    let found = check(&trace.trace, options)?;
    let proofs = match args.prove {
        true => prove::prove(&args.command, &trace.trace, &found, args.hang)?,
        false => vec![None; found.len()],
    };
    let outcome = Outcome::of(&trace.trace, (found, proofs), &suppressions, hung);
    let format = match (args.json, args.sarif) {
        (true, _) => Format::Json,
        (_, true) => Format::Sarif,
        _ => args.format,
    };
    match format {
        Format::Text => print(&as_text(&outcome))?,
        Format::Json => print_json(&as_json(&outcome)?)?,
        Format::Sarif => print_json(&sarif::as_sarif(&outcome)?)?,
        Format::Github => print(&as_github(&outcome))?,
    }
    Ok(ExitCode::from(u8::from(!outcome.findings.is_empty())))
}

/// An open trace, and the temporary folders that it needs.
struct Opened {
    trace: CallTrace,
    folders: Vec<run::TemporaryFolder>,
}

/// Opens a trace, or makes one of parts.
fn opened(path: &Path) -> Result<Opened> {
    if path.is_dir() && holds_parts(path) {
        return of_parts(path);
    }
    let parts = parts_of(path);
    match !path.exists() && holds_parts(&parts) {
        true => of_parts(&parts),
        false => Ok(Opened { trace: open(path)?, folders: Vec::new() }),
    }
}

/// A trace of a folder of parts, which stay as they are.
fn of_parts(parts: &Path) -> Result<Opened> {
    if refrain_trace::orders::are_in(parts) {
        bail!(
            "{} belongs to `refrain record`, which does not record all calls: use `refrain trace`",
            parts.display()
        );
    }
    let folder = run::temporary_folder()?;
    let file = folder.path().join("parts.refrain");
    let noted = noted_run(parts);
    let base = base_meta(noted.command, noted.selected);
    // Loop nests would be smaller, and take longer to find.
    let (meta, _) = assembled(|steps| {
        Ok(assemble(parts, &file, Keep::Trace, Structure::Grammar, base, steps)?)
    })
    .with_context(|| format!("cannot read {}", parts.display()))?;
    if meta.streams.is_empty() {
        bail!("{} holds no part with a call in it", parts.display());
    }
    Ok(Opened { trace: open(&file)?, folders: vec![folder] })
}
