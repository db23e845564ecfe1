//! `refrain diff`: where two files of the same kind differ.

use crate::open::open;
use crate::orders;
use crate::stdout::print;
use crate::summary::{counted, grouped};
use anyhow::{Result, bail};
use refrain_analysis::difference::{Comparison, Difference, Ignored, compare};
use refrain_reader::refrain_nest::{Options, common_subsequence};
use refrain_reader::{CallTrace, Event, File, Value};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longer listings of loops are not compared.
const LONGEST_LISTING: usize = 4000;
/// No more lines of loops are printed.
const MOST_LINES: usize = 40;

/// Finds where two recorded runs first differ.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain diff good.refrain bad.refrain
  refrain diff app.refrain proxy.refrain --ignore polls,stack-buffers
  refrain diff good.refrain bad.refrain --receives     which messages receives got
  refrain diff good.refrain bad.refrain --json

Two traces of calls: for each task, the first call that differs, then the functions that are
called more or less often, and the loops that differ. An object or a buffer of one trace stands
for that of the other which the same calls name; call sites and times are not compared.

Two records (refrain record), or two traces with --receives: for each rank, the first wildcard
receive that matched another message, and the first call that completed something else, each with
how many do, compared number by number; then a summary. Both must have the same number of ranks
and the same method. Records made with --method clock hold no sources: for each of their tables,
the first call is printed whose messages had another position in the order of the clocks.

Exit codes: 0 if the runs are equal, 1 if they differ, 125 if a file cannot be read.")]
pub struct Args {
    /// The record, or the trace, of one run.
    left: PathBuf,
    /// The record, or the trace, of the other run.
    right: PathBuf,
    /// Of two traces, compare only which messages receives got.
    #[arg(long)]
    receives: bool,
    /// With receives: also compare the number of failed polls, which differs between almost any two
    /// runs.
    #[arg(long)]
    polls: bool,
    /// Of two traces, what does not count: where on the stack buffers are, failed polls.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    ignore: Vec<Ignore>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What does not count as a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ignore {
    /// Where on the stack buffers are.
    StackBuffers,
    /// How many polls failed.
    Polls,
    /// When calls were made: never compared.
    Times,
}

/// Compares.
pub fn run(args: Args) -> Result<ExitCode> {
    let is_trace = |path: &Path| matches!(refrain_reader::open(path), Ok(File::Calls(_)));
    if !args.receives && is_trace(&args.left) && is_trace(&args.right) {
        return calls(&open(&args.left)?, &open(&args.right)?, &args);
    }
    let Args { left, right, polls, json, .. } = args;
    orders::diff::run(orders::diff::Args { left, right, polls, json })
}

fn calls(left: &CallTrace, right: &CallTrace, args: &Args) -> Result<ExitCode> {
    let sizes = [left, right].map(|trace| trace.processes().len());
    if sizes[0] != sizes[1] {
        bail!("the runs have {} and {} ranks: compare runs of the same size", sizes[0], sizes[1]);
    }
    let ignored = Ignored {
        polls: args.ignore.contains(&Ignore::Polls),
        stack_buffers: args.ignore.contains(&Ignore::StackBuffers),
    };
    let comparison = compare(left, right, ignored)?;
    let is_equal = comparison.differences.is_empty();
    let loops = if is_equal { Vec::new() } else { changed_loops(left, right)? };
    match args.json {
        true => {
            let json = serde_json::to_string(&Json::of(&comparison, loops))?;
            print(&format!("{json}\n"))?;
        }
        false => print(&text(&comparison, &loops, [&args.left, &args.right]))?,
    }
    Ok(ExitCode::from(u8::from(!is_equal)))
}

fn text(comparison: &Comparison, loops: &[String], paths: [&Path; 2]) -> String {
    if comparison.differences.is_empty() {
        return "no difference\n".to_owned();
    }
    let mut text = String::new();
    for found in &comparison.differences {
        let thread = match found.thread {
            0 => String::new(),
            thread => format!(", thread {thread}"),
        };
        text += &format!(
            "rank {}{thread}: {} equal, then {}\n",
            found.rank,
            counted(found.equal, "call"),
            found.what
        );
        for (path, call) in paths.iter().zip([&found.left, &found.right]) {
            let call = call.as_ref().map_or("no call".to_owned(), call_text);
            text += &format!("  {}: {call}\n", path.display());
        }
    }
    if !comparison.functions.is_empty() {
        text += "\ncalls of all ranks, where the number differs:\n";
        for (name, [left, right]) in &comparison.functions {
            text += &format!("  {name}: {} and {}\n", grouped(*left), grouped(*right));
        }
    }
    if !loops.is_empty() {
        text += "\nloops that differ (`refrain show --structure` prints all):\n";
        for line in loops.iter().take(MOST_LINES) {
            text += &format!("  {line}\n");
        }
        if loops.len() > MOST_LINES {
            text += &format!("  … {} more lines\n", grouped((loops.len() - MOST_LINES) as u64));
        }
    }
    let tasks = counted(comparison.tasks as u64, "task");
    text += &format!("\n{} of {tasks} differ\n", grouped(comparison.differences.len() as u64));
    text
}

/// A call with its arguments before it.
fn call_text(event: &Event) -> String {
    let argument = |(at, def): (usize, &refrain_format::define::ParamDef)| {
        let value = event.inputs.get(at)?.as_ref().or(event.outputs.get(at)?.as_ref())?;
        match value {
            Value::Status { .. } | Value::Ignored => None,
            Value::Word(_) if def.class == refrain_mpi::kind::Class::Handle => None,
            value => Some(format!("{}={value}", def.name)),
        }
    };
    let arguments: Vec<String> =
        event.function.params.iter().enumerate().filter_map(argument).collect();
    format!("{}({})", event.function.name, arguments.join(", "))
}

/// Lines of the loop nests that only one of the traces has: `-` of the left, `+` of the right.
fn changed_loops(left: &CallTrace, right: &CallTrace) -> Result<Vec<String>> {
    let lines = |trace: &CallTrace| -> Result<Vec<String>> {
        let options = Options::default();
        let programs = refrain_analysis::nest::programs(trace, None, options, &mut <[u8]>::to_vec)?;
        Ok(programs.iter().flat_map(crate::show::structure::outline).collect())
    };
    let (ours, theirs) = (lines(left)?, lines(right)?);
    if ours.len() > LONGEST_LISTING || theirs.len() > LONGEST_LISTING {
        return Ok(Vec::new());
    }
    let hash = |line: &String| {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(line)
    };
    let keys = |lines: &[String]| lines.iter().map(hash).collect::<Vec<u64>>();
    let pairs = common_subsequence(&keys(&ours), &keys(&theirs));
    let kept: [BTreeSet<usize>; 2] =
        [pairs.iter().map(|pair| pair.0).collect(), pairs.iter().map(|pair| pair.1).collect()];
    let only = |sign: char, lines: &[String], kept: &BTreeSet<usize>| -> Vec<(usize, String)> {
        let lines = lines.iter().enumerate().filter(|(at, _)| !kept.contains(at));
        lines.map(|(at, line)| (at, format!("{sign} {line}"))).collect()
    };
    let mut all = only('-', &ours, &kept[0]);
    all.extend(only('+', &theirs, &kept[1]));
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, line)| line).collect())
}

/// A comparison as JSON.
#[derive(Serialize)]
struct Json {
    /// The first difference of each task.
    differences: Vec<JsonDifference>,
    /// How many tasks were compared.
    tasks: usize,
    /// Calls of all ranks by function, on the left and on the right, where they differ.
    functions: std::collections::BTreeMap<String, [u64; 2]>,
    /// Lines of loop nests that only one trace has.
    loops: Vec<String>,
}

/// The first difference of a task.
#[derive(Serialize)]
struct JsonDifference {
    rank: i32,
    thread: u32,
    equal_calls: u64,
    what: String,
    left: Option<String>,
    right: Option<String>,
}

impl Json {
    fn of(comparison: &Comparison, loops: Vec<String>) -> Json {
        let one = |found: &Difference| JsonDifference {
            rank: found.rank,
            thread: found.thread,
            equal_calls: found.equal,
            what: found.what.clone(),
            left: found.left.as_ref().map(call_text),
            right: found.right.as_ref().map(call_text),
        };
        Json {
            differences: comparison.differences.iter().map(one).collect(),
            tasks: comparison.tasks,
            functions: comparison.functions.clone(),
            loops,
        }
    }
}
