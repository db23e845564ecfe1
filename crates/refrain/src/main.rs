//! The command line: one file per subcommand, glue only.

/// Prints a line to stderr. A failure to print is ignored: the program's exit code matters more.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = format!($($text)*);
        let _ = writeln!(std::io::stderr(), "{}", crate::output::lines(&text));
    }};
}

mod agent;
mod cache;
mod check;
mod control;

mod diff;
mod dynamorio;
mod fold;
mod info;
mod inherited;
mod mem;
mod merge;
mod mode;
mod naming;
mod open;
mod orders;
mod output;
mod path;
mod progress;
mod proxy;
mod rank;
mod select;
mod show;
mod stats;
mod stdout;
mod summary;
mod timing;
mod trace;
mod truncation;
mod unloaded;
mod verify;
mod where_;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Exit code if Refrain itself failed, before or after the program ran.
pub const FAILED: u8 = 125;
/// Exit code for an invalid command line.
const MISUSED: u8 = 2;
/// Exit code if the program to run does not exist, as in shells.
pub const NOT_FOUND: u8 = 127;

/// The commands, grouped by task. A test compares this list with the subcommands.
const HELP_TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Record a run:
  trace    Record every MPI call of every rank
  record   Record which message each receive got, so that the run can be replayed
  mem      Record every load and store of every thread
  merge    Make a trace of the parts that a killed run left behind
  fold     Store a trace as loop nests, which are smaller for irregular programs

Look at it:
  info     What was run, whether the file is complete, and its size
  show     The calls (or receives, or memory references), as text or JSON
  stats    Calls, time and bytes by function, call site or rank
  where    Why a job hangs: the call each rank is in, and which rank waits for which
  check    MPI errors: deadlocks, mismatches, wrong arguments, leaks, races

Make a program of it:
  proxy    Write a C program that makes the same calls

Replay and compare:
  replay   Run the program again with the recorded matches
  races    Which receives could have matched another message
  diff     Where two recorded runs differ
  verify   Check that a trace is intact and, with raw records, lossless

Caches, from memory traces:
  cache    Misses of a hierarchy of caches: by level, kind, line, array and loop
  sharing  Lines that threads share although their data are different

Memory traces, without DynamoRIO:
  cc       Compile C or C++ so that `refrain mem` can record it
  fc       Compile Fortran so that `refrain mem` can record it

`refrain help COMMAND` explains a command.

Options:
{options}{after-help}";

/// An option has an invalid value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Records what the ranks and threads of a parallel program do, and shows it.
#[derive(Parser)]
#[command(name = "refrain", version, about, max_term_width = 100)]
#[command(help_template = HELP_TEMPLATE)]
#[command(after_help = "Examples:
  refrain trace -- mpirun -n 4 ./app input.dat     writes app.refrain
  refrain show app.refrain --rank 3 --limit 20     the first calls of rank 3
  refrain show app.refrain --function MPI_Send --json | head
  refrain stats app.refrain                        calls, time and bytes by function
  refrain stats app.refrain --by rank              which rank computes longest?
  refrain where app.refrain.parts                  why does the job hang?
  refrain record -- mpirun -n 4 ./app input.dat    records which message each receive got
  refrain replay app.refrain -- mpirun -n 4 ./app input.dat
                                                   forces the same matches on another run
  refrain mem -- ./app                             every load and store of every thread
  refrain show --structure app.refrain             its loops, with the strides of their references
  refrain cache app.refrain                        misses of its caches, by level, kind and line

Exit codes: trace, record and mem exit with the program's own code once it has run, even if the
trace could not be written. Otherwise: 1 if a trace is damaged or not lossless (verify), 2 for an
invalid command line, 125 if Refrain itself failed, 127 if the program does not exist.

Refrain looks for its agent, librefrain_agent.so, beside this program and in ../lib; the
environment variable REFRAIN_AGENT names another.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Trace(trace::Args),
    Record(orders::record::Args),
    Replay(orders::replay::Args),
    Races(orders::races::Args),
    Diff(diff::Args),
    Proxy(proxy::Args),
    Info(info::Args),
    Show(show::Args),
    Stats(stats::Args),
    Merge(merge::Args),
    Fold(fold::Args),
    Verify(verify::Args),
    Mem(mem::Args),
    Cache(cache::Args),
    Sharing(cache::sharing::Args),
    Cc(mem::compilers::Args),
    Fc(mem::compilers::Args),
    Where(where_::Args),
    Check(check::Args),
    #[command(name = "__memory", hide = true)]
    MemoryRank(mem::rank::Args),
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let result = match words.next().is_some_and(|word| word == rank::WORD) {
        true => match rank::Args::read(words) {
            Some(args) => rank::run(args),
            None => Err(anyhow::anyhow!("{}: unknown arguments", rank::WORD)),
        },
        false => run(Cli::parse().command),
    };
    result.unwrap_or_else(|error| {
        if error.is::<stdout::Closed>() {
            return ExitCode::SUCCESS;
        }
        say!("refrain: {}", message(&error));
        ExitCode::from(if error.is::<Usage>() { MISUSED } else { FAILED })
    })
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Trace(args) => trace::run(args),
        Command::Record(args) => orders::record::run(args),
        Command::Replay(args) => orders::replay::run(args),
        Command::Races(args) => orders::races::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Proxy(args) => proxy::run(args),
        Command::Info(args) => info::run(args),
        Command::Show(args) => show::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Fold(args) => fold::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Where(args) => where_::run(args),
        Command::Check(args) => check::run(args),
        Command::Mem(args) => mem::run(args),
        Command::Cache(args) => cache::run(args),
        Command::Sharing(args) => cache::sharing::run(args),
        Command::Cc(args) => mem::compilers::run(mem::compilers::Language::C, args),
        Command::Fc(args) => mem::compilers::run(mem::compilers::Language::Fortran, args),
        Command::MemoryRank(args) => mem::rank::run(args),
    }
}

/// An error and its causes, each once: many errors include their cause in their message.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !message.contains(&cause) {
            message += if message.is_empty() { "" } else { ": " };
            message += &cause;
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_help_lists_every_command_once() {
        let listed: Vec<_> = HELP_TEMPLATE
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
            .collect();
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        let command = Cli::command();
        let mut commands: Vec<_> = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        commands.sort_unstable();
        assert_eq!(sorted, commands);
    }
}
