//! `refrain merge`: makes a trace of the parts that a killed run left behind.

use crate::mode::Access;
use crate::progress::Progress;
use crate::{orders, summary};
use anyhow::{Context, Result, bail};
use refrain_reader::Meta;
use refrain_trace::assemble::{Keep, assemble};
use refrain_trace::form::Structure;
use refrain_trace::parts::noted_run;
use refrain_trace::steps::Steps;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes a trace of the parts that a killed run left behind.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain merge app.refrain.parts              writes app.refrain
  refrain merge app.refrain.parts -o killed.refrain

The parts stay where they are. They may come from trace, record or mem. The result has everything
up to the call that each rank was in; `refrain info` says that it is not complete.

The program may still run. A later merge of the same folder replaces the trace that an earlier
one made. A trace that was not made of this folder is never overwritten.")]
pub struct Args {
    /// The folder of parts: NAME.refrain.parts.
    parts: PathBuf,
    /// The trace to write [default: the folder's name without .parts].
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Also keep the uncompressed records that are still there.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    access: Access,
}

/// Makes the trace.
pub fn run(args: Args) -> Result<ExitCode> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None if args.parts.extension().is_some_and(|e| e == "parts") => {
            args.parts.with_extension("")
        }
        None => bail!("{} is not named NAME.parts: use -o NAME.refrain", args.parts.display()),
    };
    if output.exists() && !is_earlier_merge(&args.parts, &output) {
        bail!("{} exists: choose another name with -o, or remove it", output.display());
    }
    args.access.apply();
    let code = merge(&args, &output)?;
    note_merge(&args.parts, &output);
    Ok(code)
}

fn merge(args: &Args, output: &Path) -> Result<ExitCode> {
    let noted = noted_run(&args.parts);
    if refrain_trace::orders::are_in(&args.parts) {
        return orders::record::merge(noted, &args.parts, output);
    }
    if crate::mem::holds_parts(&args.parts) {
        return crate::mem::merge(&args.parts, output, noted.command, noted.selected);
    }
    let base = base_meta(noted.command, noted.selected);
    let (meta, bytes) = assembled(|steps| {
        let keep = keep(args.raw);
        Ok(assemble(&args.parts, output, keep, Structure::Auto, base, steps)?)
    })
    .with_context(|| format!("cannot make {}", output.display()))?;
    if meta.streams.is_empty() {
        std::fs::remove_file(output)?;
        for lost in &meta.lost {
            say!("refrain: cannot be read: {lost}");
        }
        bail!("{} holds no part with a call in it", args.parts.display());
    }
    summary::print(&meta, output, bytes, how(args.raw), None);
    Ok(ExitCode::SUCCESS)
}

/// Assembles a trace; on a terminal, a line says how far it is, if it takes long.
pub fn assembled<R>(work: impl FnOnce(&Steps) -> Result<R>) -> Result<R> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let (start, steps) = (Instant::now(), Arc::new(Steps::default()));
    let watched = steps.clone();
    let line = move || (start.elapsed() > PATIENCE).then(|| watched.text());
    let _progress = Progress::start(line);
    work(&steps)
}

/// The file in a folder of parts that identifies the trace that the folder was merged into last.
const LAST_MERGE: &str = "last-merge";

/// Identifies a file and its content: it differs for another file, and after a change.
fn identity(path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    let (size, time) = (file.len(), (file.mtime(), file.mtime_nsec()));
    Some(format!("{} {} {size} {}.{}", file.dev(), file.ino(), time.0, time.1))
}

/// Stores the identity of the trace that a folder was merged into, so that a later merge may overwrite
/// it.
fn note_merge(parts: &Path, output: &Path) {
    if let Some(identity) = identity(output) {
        let _ = std::fs::write(parts.join(LAST_MERGE), identity);
    }
}

/// Whether a trace was made by an earlier merge of this folder, and not changed since.
fn is_earlier_merge(parts: &Path, output: &Path) -> bool {
    let noted = std::fs::read_to_string(parts.join(LAST_MERGE)).ok();
    noted.is_some() && noted == identity(output)
}

/// What to keep.
pub fn keep(raw: bool) -> Keep {
    if raw { Keep::Raw } else { Keep::Trace }
}

/// The phrase for the summary.
pub fn how(raw: bool) -> &'static str {
    if raw { "with raw records" } else { "in all" }
}

/// Facts known before the parts are read.
pub fn base_meta(command: Vec<String>, selected: Vec<String>) -> Meta {
    Meta { refrain: env!("CARGO_PKG_VERSION").to_owned(), command, selected, ..Meta::default() }
}

/// The folder of parts that belongs to a trace.
pub fn parts_of(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".parts");
    PathBuf::from(name)
}
