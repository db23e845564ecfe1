//! `refrain record`: runs a program and records which message each receive got.

use crate::merge::{base_meta, parts_of};
use crate::mode::{Access, Redaction};
use crate::naming::name_of;
use crate::trace::{execute, exit_code, make_default, make_parts, understand, wrapper};
use crate::{NOT_FOUND, agent, summary, unloaded};
use anyhow::{Context, Result, bail};
use refrain_order::causal::summary::summary;
use refrain_order::{OrderError, Sums};
use refrain_reader::meta::REDACT;
use refrain_trace::orders::{Method, RankOrder};
use refrain_trace::parts::note_run;
use refrain_trace::{Meta, Orders};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a program and records which message each receive got, so that the run can be replayed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain record -- mpirun -n 4 ./app input.dat     writes app.refrain
  refrain replay app.refrain -- mpirun -n 4 ./app input.dat
  refrain info app.refrain
  refrain races app.refrain
  refrain record --method clock -- mpirun -n 4 ./app input.dat

Records MPI's nondeterministic choices: the matched source and tag of wildcard receives, the
indices of completed requests, the number of failed polls, and the values of MPI_Wtime. A replay
forces the same choices, and the program repeats its results bit for bit.

--method causal (default) records choices that cannot be predicted. It sends nothing.
--method clock is clock delta compression (Sato et al., SC '15). A small message with a Lamport
clock accompanies every message, and the record holds how the order of receives differs from the
order of the clocks. Collectives then wait for all ranks, which MPI allows.
docs/record-replay.md compares the two methods and lists what each does not support.

The program keeps its output and its exit code. If it is killed, the record is exact up to the
last call (--method clock: up to about a second before).")]
pub struct Args {
    /// The file to write; an existing file is overwritten [default: the program's name with
    /// .refrain].
    #[arg(short, long, value_name = "RUN.refrain")]
    output: Option<PathBuf>,
    /// Also record the system's clocks and random numbers after MPI_Init: gettimeofday, clock_gettime,
    /// time, rand, random, getrandom, getentropy, arc4random, std::random_device. Reads of
    /// /dev/urandom are not recorded.
    #[arg(long)]
    rand: bool,
    /// Leave MPI_Wtime out of the record; in a replay it then returns the present time. For programs that read
    /// it so often that its values are most of the record, and that decide nothing by it.
    #[arg(long)]
    no_clock: bool,
    /// The recording method.
    #[arg(long, value_enum, default_value = "causal")]
    method: MethodName,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    redaction: Redaction,
    /// The command to run, as without Refrain.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A recording method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MethodName {
    /// Record what MPI reported to receivers.
    Causal,
    /// Send Lamport clocks along with messages.
    Clock,
}

/// Runs the program; the exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    let plan = understand(args.command)?;
    if let Some(missing) = refrain_launch::missing_program(&plan) {
        say!("refrain: {missing}");
        return Ok(ExitCode::from(NOT_FOUND));
    }
    let agent = agent::find()?;
    let mode = args.access.apply();
    let (output, parts) = match args.output {
        Some(output) => {
            let parts = make_parts(&output)?;
            (output, parts)
        }
        None => make_default(&name_of(&plan.words[plan.programs[0].position..]))?,
    };
    let time = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let mut variables = vec!["REFRAIN_ORDER=record".to_owned(), mode.variable()];
    if args.rand {
        variables.push("REFRAIN_RAND=1".to_owned());
    }
    if args.no_clock {
        variables.push("REFRAIN_NO_CLOCK=1".to_owned());
    }
    if args.method == MethodName::Clock {
        variables.push("REFRAIN_ORDER_METHOD=clock".to_owned());
    }
    variables.extend(args.redaction.variable());
    let words = args.redaction.command(&plan.words);
    // Only `refrain merge` needs it.
    let selected = args.redaction.redact.then(|| REDACT.to_owned()).into_iter().collect();
    let noted = Meta { time: (time, time), ..base_meta(words.clone(), selected) };
    let _ = note_run(&parts, &noted);
    let command = plan.command_with(&wrapper(&plan, &agent, &parts, &variables)?);
    let status = execute(&command).inspect_err(|_| {
        // The command did not start, so the folder is empty.
        let _ = std::fs::remove_dir_all(&parts);
    })?;
    let run = Orders {
        refrain: env!("CARGO_PKG_VERSION").to_owned(),
        command: words,
        time,
        exit_code: status.code(),
        redacted: args.redaction.redact,
        ..Orders::default()
    };
    let written = write(run, &parts, &output, plan.ranks());
    if let Err(error) = written.and_then(|()| Ok(std::fs::remove_dir_all(&parts)?)) {
        // The program has run: return its exit code.
        let is_unseen = !refrain_trace::orders::are_in(&parts);
        let failure = unloaded::failure(&plan, status).filter(|_| is_unseen);
        failure.iter().for_each(|line| say!("refrain: {line}"));
        say!("refrain: {error:#}");
        if is_unseen {
            unloaded::hints(&plan, status).iter().for_each(|hint| say!("refrain: {hint}"));
            let _ = std::fs::remove_dir_all(&parts);
        }
    }
    Ok(ExitCode::from(exit_code(status)))
}

fn write(run: Orders, parts: &Path, output: &Path, asked: Option<u32>) -> Result<()> {
    let Orders { ranks, sites, .. } = Orders::gather(parts)?;
    let mut orders = Orders { ranks, sites, ..run };
    if orders.redacted {
        orders.redact();
    }
    if orders.ranks.is_empty() {
        bail!(
            "no rank has left a record: none called MPI_Init or opened a session (with --method clock, \
             sessions without MPI_Init are not recorded), or none could write to {}",
            parts.display()
        );
    }
    let bytes = orders
        .write(output)
        .with_context(|| format!("the recording is in {}", parts_of(output).display()))?;
    print(&orders, output, bytes, asked);
    Ok(())
}

/// Makes a file of the parts that a killed run left behind.
pub fn merge(noted: Meta, parts: &Path, output: &Path) -> Result<ExitCode> {
    let redacted = noted.is_redacted();
    let Meta { command, time: (time, _), .. } = noted;
    let refrain = env!("CARGO_PKG_VERSION").to_owned();
    write(Orders { refrain, command, time, redacted, ..Orders::default() }, parts, output, None)?;
    Ok(ExitCode::SUCCESS)
}

/// The number of receives, completing calls and failed polls of a record.
pub(super) fn sums(rank: &RankOrder) -> Result<Sums, OrderError> {
    if rank.method == Method::Clock {
        let found = refrain_order::clock::summary::summary(&rank.chunks)?;
        let (own, values, value_bytes) = (found.all, found.values, found.value_bytes);
        let (receives, calls, polls) = (own.messages, own.calls, own.polls);
        return Ok(Sums { receives, calls, polls, values, value_bytes });
    }
    let own = summary(&rank.frames)?;
    let (receives, calls, polls) = (own.receives.matched, own.calls.matched, own.calls.failed);
    Ok(Sums { receives, calls, polls, values: own.values, value_bytes: own.value_bytes })
}

/// The fewest values for which a warning is printed that they take most of a record.
const MANY_VALUES: u64 = 100_000;

/// Prints a summary of a record.
pub fn print(orders: &Orders, output: &Path, bytes: u64, asked: Option<u32>) {
    let (mut receives, mut calls, mut polls) = (0, 0, 0);
    let (mut values, mut value_bytes) = (0, 0);
    // If the process did not report the bytes of many values, the record is read to count them.
    let is_enough = |sums: &Sums| sums.values < MANY_VALUES || sums.value_bytes > 0;
    for rank in &orders.ranks {
        match rank.sums.filter(is_enough).map_or_else(|| sums(rank), Ok) {
            Ok(own) => {
                receives += own.receives;
                calls += own.calls;
                polls += own.polls;
                values += own.values;
                value_bytes += own.value_bytes;
            }
            Err(error) => say!("refrain: rank {}: {error}", rank.rank),
        }
    }
    say!(
        "refrain: {}, {} with a wildcard, {}, {}; {}",
        summary::counted(orders.ranks.len() as u64, "rank"),
        summary::counted(receives, "receive"),
        summary::counted(calls, "completing call"),
        summary::counted(polls, "failed poll"),
        summary::size(bytes),
    );
    if values >= MANY_VALUES && 2 * value_bytes > bytes {
        say!(
            "refrain: warning: {} of {} are {} of clocks and random numbers: the program reads MPI_Wtime \
             very often. If no decision depends on it, use --no-clock",
            summary::size(value_bytes),
            summary::size(bytes),
            summary::counted(values, "value"),
        );
    }
    let expected = asked.unwrap_or(0).max(orders.size());
    if (orders.ranks.len() as u32) < expected {
        say!("refrain: note: of {expected} ranks, only {} left a record", orders.ranks.len());
    }
    let truncated: Vec<String> = orders
        .ranks
        .iter()
        .filter(|rank| !rank.finalized && rank.why_cut.is_none())
        .map(|rank| rank.rank.to_string())
        .collect();
    if !truncated.is_empty() {
        say!(
            "refrain: note: truncated, because these ranks did not reach MPI_Finalize: {}",
            truncated.join(",")
        );
    }
    if !truncated.is_empty() && orders.method() == Method::Clock {
        say!("refrain: note: with --method clock, up to a second of calls before that is missing");
    }
    for rank in &orders.ranks {
        if let Some(why) = &rank.why_cut {
            say!("refrain: warning: not all of rank {} is recorded: {why}", rank.rank);
        }
    }
    for rank in orders.ranks.iter().filter(|rank| !rank.panics.is_empty()) {
        say!(
            "refrain: warning: Refrain's agent panicked in rank {}, a defect of Refrain: please report \
             {}; the program was not affected",
            rank.rank,
            rank.panics.join(", ")
        );
    }
    let unsupported: Vec<&str> = unsupported(orders).into_iter().collect();
    if !unsupported.is_empty() {
        let unsupported = unsupported.join(", ");
        say!("refrain: warning: unsupported in a replay, so results may differ: {unsupported}");
    }
    let path = output.display();
    say!("refrain: written to {path}; replay it with: refrain replay {path} -- COMMAND");
}

/// The unsupported operations that a program used.
pub fn unsupported(orders: &Orders) -> std::collections::BTreeSet<&str> {
    let all = orders.ranks.iter().flat_map(|rank| &rank.unsupported);
    all.map(|what| what.strip_suffix("_c").unwrap_or(what)).collect()
}
