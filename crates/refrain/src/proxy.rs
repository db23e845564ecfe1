//! `refrain proxy`: a C program that makes the calls of a trace.

use crate::open::open;
use crate::summary::{counted, grouped};
use anyhow::{Context, Result, bail};
use refrain_analysis::sites::Sites;
use refrain_proxy::{Compute, Options, Proxy, Site, generate};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Writes a C program that makes the MPI calls of a trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain proxy app.refrain -o app-proxy
  cd app-proxy && make && mpirun -n 16 ./proxy
  refrain trace -- mpirun -n 16 ./proxy && refrain diff ../app.refrain proxy.refrain

The program has the loops of the trace, and one source for all ranks. Its trace is the trace that
it comes from: the same calls with the same arguments, objects, buffers and outcomes on each rank.
It has none of the data and none of the computation of the traced program; --compute makes it wait
or compute between calls as long as the program did on average.

A call that cannot be reproduced, such as one that never returned, is refused: nothing is written.
--force leaves such calls out, and README.md in the folder lists them.

Exit codes: 0 if the program is written, 1 if calls are refused, 125 if Refrain itself failed.")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// The folder for the program; it is made if it does not exist.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// What the program does between calls.
    #[arg(long, value_enum, default_value_t = Between::None)]
    compute: Between,
    /// Leave out what cannot be reproduced.
    #[arg(long)]
    force: bool,
}

/// What a program does between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Between {
    /// Nothing.
    None,
    /// It sleeps.
    Sleep,
    /// It computes.
    Spin,
}

/// Writes the program.
pub fn run(args: Args) -> Result<ExitCode> {
    let trace = open(&args.trace)?;
    let sites = RefCell::new(Sites::recorded_at(trace.meta().time.0));
    let site = |text: &str| {
        let mut sites = sites.borrow_mut();
        let frames = sites.frames(&Arc::from(text));
        let first = frames.first()?;
        Some(Site { function: first.function.clone(), place: first.text() })
    };
    let compute = match args.compute {
        Between::None => Compute::None,
        Between::Sleep => Compute::Sleep,
        Between::Spin => Compute::Spin,
    };
    let name = args.trace.file_name().unwrap_or(args.trace.as_os_str());
    let proxy =
        generate(&trace, Options::new(name.to_string_lossy().into_owned(), compute, &site))?;
    if !proxy.refused.is_empty() {
        refuse(&proxy, &args);
        if !args.force {
            return Ok(ExitCode::FAILURE);
        }
    }
    write(&proxy, &args.output)?;
    say!(
        "refrain: {}: {} of C for {} on {}",
        args.output.display(),
        counted(proxy.lines as u64, "line"),
        counted(proxy.calls, "call"),
        counted(proxy.ranks.into(), "rank"),
    );
    Ok(ExitCode::SUCCESS)
}

fn refuse(proxy: &Proxy, args: &Args) {
    let verb = if args.force { "leaves out" } else { "cannot reproduce" };
    say!("refrain: the program {verb}:");
    for (what, calls) in &proxy.refused.all {
        say!("refrain:   {what} ({} calls)", grouped(*calls));
    }
    if !args.force {
        say!("refrain: nothing is written; --force leaves these calls out");
    }
}

fn write(proxy: &Proxy, folder: &Path) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        bail!("{} exists and is not a folder: name another one with -o", folder.display());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in &proxy.files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
