//! `refrain mem`: runs a program and records every load and store.

pub mod compilers;
mod contexts;
pub mod formats;
mod hints;
pub mod info;
mod progress;
pub mod rank;
mod runtime;
pub mod show;
pub mod symbols;
pub mod verify;

use crate::merge::base_meta;
use crate::mode::{Access, Redaction};
use crate::naming::name_of;
use crate::path::locate;
use crate::stdout::print;
use crate::summary::{counted, grouped, size};
use crate::trace::{execute, exit_code, kept, make_default, make_parts, understand};
use crate::{NOT_FOUND, Usage};
use anyhow::{Context, Result, bail};
use refrain_launch::{Launcher, Plan};
use refrain_memrecord::assemble::assemble;
use refrain_memrecord::keeper::wait_for_all;
use refrain_memrecord::part::PartFiles;
use refrain_memtrace::MemoryTrace;
use refrain_memtrace::process::Ended;
use refrain_memtrace::trace::Facts;
use refrain_reader::meta::REDACT;
use refrain_trace::parts::note_run;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

/// How references are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FrontEnd {
    /// Unmodified programs, under DynamoRIO.
    Dynamorio,
    /// Programs that were compiled with `refrain cc` or `refrain fc`.
    Compiled,
}

/// Runs a program and records every load and store of every thread.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain mem -- ./app                         an unmodified program, under DynamoRIO
  refrain cc -O2 -g -fopenmp matmul.c -o matmul
  refrain mem -- ./matmul                      a recompiled program records itself
  refrain mem --raw -o run.refrain -- mpirun -n 4 ./app
  refrain show run.refrain --thread 2 --limit 20
  refrain show run.refrain --structure         loop nests, with strides and threads
  refrain mem --mode 640 --redact -- ./app     without command line, hosts and folders
  refrain mem --flags                          the options that `refrain cc` adds

Two front ends (--frontend; the default follows from how the program was built):
  dynamorio  unmodified programs: every load and store of the program's code; with --libs of its
             libraries too
  compiled   programs built by `refrain cc` or `refrain fc`: what the compiler instruments, that
             is, code compiled this way, without libraries and without values that never leave
             a register or the function's frame

The program keeps its output and its exit code. A compressor process runs beside each process and
writes to NAME.refrain.parts; when the program has ended, the parts become NAME.refrain. If the
program is killed, nothing is lost.

A program can switch recording off and on: MPI_Pcontrol(0) and MPI_Pcontrol(1).")]
pub struct Args {
    /// The trace to write; an existing file is overwritten [default: the program's name with
    /// .refrain].
    #[arg(short, long, value_name = "NAME.refrain")]
    output: Option<PathBuf>,
    /// How references are captured [default: compiled if the program was built for it, else
    /// dynamorio].
    #[arg(long, value_enum)]
    frontend: Option<FrontEnd>,
    /// Close a chunk when it holds this many numbers. A small window takes less memory and finds less
    /// structure in irregular programs.
    #[arg(long, value_name = "NUMBERS")]
    window: Option<usize>,
    /// Also keep the uncompressed references, so that `refrain verify` can compare every one.
    #[arg(long)]
    raw: bool,
    /// Start recording when this function is called.
    #[arg(long, value_name = "FUNCTION")]
    from: Option<String>,
    /// Stop recording when this function is called.
    #[arg(long, value_name = "FUNCTION")]
    until: Option<String>,
    /// Record libraries as well as the program (DynamoRIO only).
    #[arg(long)]
    libs: bool,
    /// Stack signatures: function (kept at function entry and exit, the default), instruction (walked
    /// at every memory reference, only to measure what that costs; DynamoRIO), or none.
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    stacks: Stacks,
    #[command(flatten)]
    access: Access,
    /// Leave out the command line, host names, and folders of files.
    #[arg(long)]
    redact: bool,
    /// Print the options that `refrain cc` passes to the compiler, and exit.
    #[arg(long)]
    flags: bool,
    /// The command to run, as without Refrain.
    #[arg(trailing_var_arg = true, required_unless_present = "flags", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// When stack signatures are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Stacks {
    /// At function entry and exit.
    #[default]
    Function,
    /// By a stack walk at every memory reference.
    Instruction,
    /// Never.
    None,
}

/// Runs the program; the exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.flags {
        print(&format!("{}\n", compilers::flags()?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.window == Some(0) {
        return Err(Usage("--window: a chunk holds at least one number".into()).into());
    }
    let plan = understand(args.command.clone())?;
    if let Some(missing) = refrain_launch::missing_program(&plan) {
        say!("refrain: {missing}");
        return Ok(ExitCode::from(NOT_FOUND));
    }
    let front_end = args
        .frontend
        .unwrap_or_else(|| runtime::front_end_of(locate(plan.name(&plan.programs[0])).as_deref()));
    let mut words = wrapper(&plan, &args, front_end)?;
    args.access.apply();
    let (output, parts) = match &args.output {
        Some(output) => (output.clone(), make_parts(output)?),
        None => make_default(&name_of(&plan.words[plan.programs[0].position..]))?,
    };
    words.splice(2..2, ["--parts".into(), parts.clone().into()]);
    // Only `refrain merge` reads it.
    let _ = note_run(&parts, &base_meta(command(&plan, &args), selected(&args)));
    let progress = progress::start(&parts);
    let status = execute(&plan.command_with(&words)).inspect_err(|_| {
        let _ = std::fs::remove_dir_all(&parts);
    })?;
    wait_for_all(&parts, || {});
    drop(progress);
    if let Err(error) = write_trace(&plan, &args, front_end, &parts, &output, status) {
        say!("refrain: {error:#}");
    }
    Ok(ExitCode::from(exit_code(status)))
}

/// The words that go in front of each program.
fn wrapper(plan: &Plan, args: &Args, front_end: FrontEnd) -> Result<Vec<OsString>> {
    let own = std::env::current_exe().context("cannot find refrain's own executable")?;
    let mut words: Vec<OsString> = vec![own.into(), "__memory".into()];
    words.extend(["--mode".into(), args.access.text().into()]);
    if front_end == FrontEnd::Dynamorio {
        crate::dynamorio::find()?;
        words.push("--dynamorio".into());
    }
    if args.raw {
        words.push("--raw".into());
    }
    if args.redact {
        words.push("--redact".into());
    }
    if let Some(window) = args.window {
        words.extend(["--window".into(), window.to_string().into()]);
    }
    let mut set = |name: &str, value: &str| {
        words.extend(["--set".into(), format!("{name}={value}").into()]);
    };
    if let Some(from) = &args.from {
        set("REFRAIN_MEM_FROM", from);
    }
    if let Some(until) = &args.until {
        set("REFRAIN_MEM_UNTIL", until);
    }
    if args.libs {
        set("REFRAIN_MEM_LIBS", "1");
    }
    match args.stacks {
        Stacks::Function => {}
        Stacks::Instruction => set("REFRAIN_MEM_STACKS", "instruction"),
        Stacks::None => set("REFRAIN_MEM_STACKS", "none"),
    }
    if plan.launcher != Launcher::Bare && plan.launcher.looks_in_working_directory() {
        words.push("--here".into());
    }
    words.push("--".into());
    Ok(words)
}

fn selected(args: &Args) -> Vec<String> {
    let mut selected = Vec::new();
    let mut option = |name: &str, value: &Option<String>| {
        selected.extend(value.iter().map(|value| format!("--{name} {value}")));
    };
    option("from", &args.from);
    option("until", &args.until);
    if args.libs {
        selected.push(info::LIBRARIES.into());
    }
    if args.redact {
        selected.push(REDACT.into());
    }
    selected
}

/// The command line as the trace has it.
fn command(plan: &Plan, args: &Args) -> Vec<String> {
    Redaction { redact: args.redact }.command(&plan.words)
}

fn write_trace(
    plan: &Plan,
    args: &Args,
    front_end: FrontEnd,
    parts: &Path,
    output: &Path,
    status: ExitStatus,
) -> Result<()> {
    if !parts.exists() {
        bail!("{} was removed while the program ran, so the recording is lost", parts.display());
    }
    let facts = Facts {
        refrain: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(plan, args),
        exit_code: Some(i32::from(exit_code(status))),
        selected: selected(args),
        ..Facts::default()
    };
    let (facts, bytes) = assemble(parts, output, facts).with_context(|| kept(parts))?;
    if facts.processes.is_empty() {
        let _ = std::fs::remove_file(output);
        for lost in &facts.lost {
            say!("refrain: {lost}");
        }
        if facts.lost.is_empty() {
            let _ = std::fs::remove_dir_all(parts);
        }
        let program = plan.name(&plan.programs[0]).display();
        match front_end {
            _ if !facts.lost.is_empty() => bail!("nothing was recorded"),
            FrontEnd::Compiled => bail!(
                "nothing was recorded: was {program} compiled and linked by `refrain cc` or \
                 `refrain fc`?"
            ),
            FrontEnd::Dynamorio => bail!(
                "nothing was recorded: {program} did not run under DynamoRIO; recompile it with \
                 `refrain cc` or `refrain fc`"
            ),
        }
    }
    MemoryTrace::open(output)?;
    if facts.lost.is_empty() {
        std::fs::remove_dir_all(parts).with_context(|| format!("{}", parts.display()))?;
    }
    print_summary(&facts, output, bytes);
    Ok(())
}

fn print_summary(facts: &Facts, output: &Path, bytes: u64) {
    let references = facts.references();
    say!(
        "refrain: {}, {}, {}",
        counted_processes(facts.processes.len()),
        counted(facts.threads() as u64, "thread"),
        counted(references, "reference"),
    );
    match references {
        0 => say!("refrain: {}", size(bytes)),
        _ => {
            let each = significant(bytes as f64 / references as f64);
            say!("refrain: {}, {each} bytes a reference", size(bytes));
        }
    }
    for truncation in info::truncations(facts) {
        say!("refrain: note: {truncation}");
    }
    let died = facts.processes.iter().filter(|process| process.ended == Ended::Died).count();
    if died > 0 {
        say!(
            "refrain: note: {} died or ended by a direct system call; the trace holds every \
             reference up to there",
            counted_processes(died)
        );
    }
    for hint in hints::hints(facts) {
        say!("refrain: warning: {hint}");
    }
    say!(
        "refrain: written to {0}; see its loops with: refrain show --structure {0}",
        output.display()
    );
}

fn counted_processes(n: usize) -> String {
    format!("{} process{}", grouped(n as u64), if n == 1 { "" } else { "es" })
}

/// A number with two significant digits if it is below one.
fn significant(value: f64) -> String {
    if value >= 1.0 || value <= 0.0 {
        return format!("{value:.1}");
    }
    let digits = 1 - value.log10().floor() as i32;
    format!("{value:.*}", digits.clamp(1, 12) as usize)
}

/// Whether a folder holds parts of memory traces.
pub fn holds_parts(folder: &Path) -> bool {
    PartFiles::all(folder).is_ok_and(|all| !all.is_empty())
}

/// Makes a trace of what a run has left behind.
pub fn merge(
    parts: &Path,
    output: &Path,
    command: Vec<String>,
    selected: Vec<String>,
) -> Result<ExitCode> {
    let refrain = env!("CARGO_PKG_VERSION").to_owned();
    let facts = Facts { refrain, command, selected, ..Facts::default() };
    let (facts, bytes) = assemble(parts, output, facts)
        .with_context(|| format!("cannot make {}", output.display()))?;
    print_summary(&facts, output, bytes);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_two_digits() {
        assert_eq!(significant(0.000012345), "0.000012");
        assert_eq!(significant(0.5), "0.50");
        assert_eq!(significant(12.34), "12.3");
        assert_eq!(significant(0.0), "0.0");
    }
}
