//! The command line: one file per subcommand, glue only.

/// Says something on stderr; where that cannot be written to, the program's exit code still
/// counts, so nothing is made of it.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod agent;
mod control;
mod cuts;
mod descriptors;
mod dynamorio;
mod info;
mod launch;
mod mem;
mod merge;
mod naming;
mod open;
mod orders;
mod path;
mod rank;
mod select;
mod show;
mod stats;
mod summary;
mod timing;
mod trace;
mod verify;
mod where_;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Exit code when Refrain itself could not do what was asked, before or after the program.
pub const FAILED: u8 = 125;
/// Exit code for a command line that cannot be read.
const MISUSED: u8 = 2;
/// Exit code when the program to run is not there, as shells have it.
pub const NOT_FOUND: u8 = 127;

/// An option has a value that it cannot have.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Records what the ranks and threads of a parallel program do, and shows it.
#[derive(Parser)]
#[command(name = "refrain", version, about, max_term_width = 100)]
#[command(after_help = "Examples:
  refrain trace -- mpirun -n 4 ./app input.dat     writes app.refrain
  refrain show app.refrain --rank 3 --limit 20     the first calls of rank 3
  refrain show app.refrain --function MPI_Send --json | head
  refrain info app.refrain                         what was run, and how large the trace is
  refrain stats app.refrain                        calls, time and bytes by function
  refrain verify app.refrain                       is it whole, and what was recorded?
  refrain where app.refrain.parts                  where does the job hang?
  refrain record -- mpirun -n 4 ./app input.dat    keeps the order in which messages are received
  refrain replay app.refrain -- mpirun -n 4 ./app input.dat
                                                   forces that order
  refrain mem -- ./app                             every load and store of every thread

Exit codes: that of the program, once it has run, whatever became of the trace (trace); 1 if a
trace is not as it should be (verify); 125 if Refrain itself failed; 127 if the program is not
there; 2 for a command line that cannot be read.

The agent, librefrain_agent.so, is looked for beside this program and in ../lib; the environment
variable REFRAIN_AGENT names another.")]
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
    Diff(orders::diff::Args),
    Info(info::Args),
    Show(show::Args),
    Stats(stats::Args),
    Merge(merge::Args),
    Verify(verify::Args),
    Mem(mem::Args),
    Cc(mem::compilers::Args),
    Fc(mem::compilers::Args),
    Where(where_::Args),
    #[command(name = "__rank", hide = true)]
    Rank(rank::Args),
    #[command(name = "__memory", hide = true)]
    MemoryRank(mem::rank::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Trace(args) => trace::run(args),
        Command::Record(args) => orders::record::run(args),
        Command::Replay(args) => orders::replay::run(args),
        Command::Races(args) => orders::races::run(args),
        Command::Diff(args) => orders::diff::run(args),
        Command::Info(args) => info::run(args),
        Command::Show(args) => show::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Where(args) => where_::run(args),
        Command::Rank(args) => rank::run(args),
        Command::Mem(args) => mem::run(args),
        Command::Cc(args) => mem::compilers::run(mem::compilers::Language::C, args),
        Command::Fc(args) => mem::compilers::run(mem::compilers::Language::Fortran, args),
        Command::MemoryRank(args) => mem::rank::run(args),
    };
    result.unwrap_or_else(|error| {
        say!("refrain: {}", message(&error));
        ExitCode::from(if error.is::<Usage>() { MISUSED } else { FAILED })
    })
}

/// An error and its causes, each once: many name their cause themselves.
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
