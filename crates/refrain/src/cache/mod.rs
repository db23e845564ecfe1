//! `refrain cache` and `refrain sharing`: caches simulated on memory traces.

mod report;
pub mod sharing;

use crate::Usage;
use crate::mem::symbols::Symbols;
use crate::open::open_any;
use crate::progress::Progress;
use crate::select::parse_ranks;
use crate::stdout::{print, print_json};
use anyhow::{Result, bail};
use refrain_cache::{Geometry, Level, Options, Policy, simulate};
use refrain_memory::Turns;
use refrain_memtrace::MemoryTrace;
use refrain_memtrace::trace::ProcessTrace;
use refrain_reader::File;
use report::Section;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Simulates caches on a memory trace: misses by level, kind, line, array and loop.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain cache app.refrain                           32k:8, 1m:16, and one 32m:16 for all threads
  refrain cache app.refrain --l1 48k:12 --l2 2m:16 --l3 36m:12:shared
  refrain cache app.refrain --l1 32k:8 --by section   which array misses
  refrain cache app.refrain --policy plru --l1 32k:8 --l2 1m:16
  refrain cache app.refrain --reuse --json | jq '.[0].reuse'

A level is SIZE:WAYS, or SIZE:WAYS:shared if all threads share one; otherwise each thread has its
own. Sizes are bytes, or end in k, m or g. Without --l1, --l2 and --l3 the levels are 32k:8, 1m:16
and 32m:16:shared. With --l1, only the levels that are named exist.

The result is exact: it is that of a simulation of every reference, one by one. With one thread,
loops that repeat themselves are not visited again, so the time depends on the program's structure
more than on its length (\"simulated\" says how many accesses were). The order between threads is
not in a trace; --turns states one.

A level is accessed if the level before it missed. There is no prefetching, and lines that are
written back are no accesses. A reference that spans two lines makes two accesses, an atomic
operation one. Kinds of misses:
  cold       this cache has never held the line
  capacity   a fully associative cache of the same size would miss, too
  conflict   it would hit
  coherence  another thread has written to the line since (MESI)

JSON: an array with an object for each process; see docs/json.md.")]
pub struct Args {
    /// The memory trace.
    trace: PathBuf,
    /// The first level.
    #[arg(long, value_name = "SIZE:WAYS")]
    l1: Option<String>,
    /// The second level.
    #[arg(long, value_name = "SIZE:WAYS", requires = "l1")]
    l2: Option<String>,
    /// The third level.
    #[arg(long, value_name = "SIZE:WAYS", requires = "l2")]
    l3: Option<String>,
    /// Bytes of a line.
    #[arg(long, default_value_t = 64)]
    line: u64,
    /// Which line of a set is replaced: the least recently used one, or the one that a tree of bits
    /// points to.
    #[arg(long, value_enum, default_value_t = Replaced::Lru)]
    policy: Replaced,
    /// How threads take turns: a number of references each, or `one` after the other.
    #[arg(long, value_name = "N|one", default_value = "1")]
    turns: String,
    /// What a line of the table is for.
    #[arg(long, value_enum, default_value_t = By::Line)]
    by: By,
    /// Print at most this many lines of the table.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Also count reuse distances: how many other lines were accessed since the last access to a line.
    #[arg(long)]
    reuse: bool,
    /// Only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Only this thread of each.
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Simulate every access, also of loops that repeat themselves. The result is the same.
    #[arg(long)]
    every: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which line is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Replaced {
    /// The least recently used.
    Lru,
    /// Tree pseudo-LRU.
    Plru,
}

/// What a line of the table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// A line of the program.
    Line,
    /// A function.
    Function,
    /// A piece of memory: an allocation, a static variable, a stack.
    Section,
    /// An innermost loop.
    Loop,
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode> {
    let geometry = geometry(&args)?;
    let turns = turns(&args.turns)?;
    let trace = open_memory(&args.trace)?;
    let options = Options { turns, warp: !args.every, reuse: args.reuse };
    let (mut objects, mut text) = (Vec::new(), String::new());
    let began = Instant::now();
    let seconds = move || Some(format!("simulating caches, {} s", began.elapsed().as_secs()));
    let progress = Progress::start(seconds);
    for part in selected(&trace, args.rank.as_deref(), args.thread)? {
        let report = simulate(&part.process.trace, &part.threads, &geometry, options)?;
        let section = Section { part: &part, geometry: &geometry, options: &options, report };
        match args.json {
            true => objects.push(section.json()),
            false => text += &section.text(args.by, args.limit),
        }
    }
    drop(progress);
    match args.json {
        true => print_json(&serde_json::to_string(&objects)?)?,
        false => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The hierarchy that the options describe.
fn geometry(args: &Args) -> Result<Geometry> {
    let texts: Vec<&str> = match &args.l1 {
        None => vec!["32k:8", "1m:16", "32m:16:shared"],
        Some(_) => [&args.l1, &args.l2, &args.l3].into_iter().flatten().map(|l| &**l).collect(),
    };
    let levels = texts.iter().map(|text| text.parse::<Level>()).collect::<Result<_, _>>();
    let policy = match args.policy {
        Replaced::Lru => Policy::Lru,
        Replaced::Plru => Policy::Plru,
    };
    let geometry = levels.and_then(|levels| Geometry::new(levels, args.line, policy));
    geometry.map_err(|error| Usage(error.to_string()).into())
}

fn turns(text: &str) -> Result<Turns> {
    match text.parse() {
        _ if text == "one" => Ok(Turns::OneAfterTheOther),
        Ok(references @ 1..) => Ok(Turns::RoundRobin(references)),
        _ => Err(Usage(format!("--turns {text}: give a number of references, or `one`")).into()),
    }
}

/// Opens a memory trace; other files are refused.
fn open_memory(path: &Path) -> Result<MemoryTrace> {
    match open_any(path)? {
        File::Memory(trace) => Ok(*trace),
        _ => bail!("{} holds no loads and stores: record them with `refrain mem`", path.display()),
    }
}

/// A process of a trace, and the threads that are looked at.
pub struct Part {
    /// Its rank, or its number.
    pub rank: u32,
    /// Whether the trace has other processes.
    pub is_one_of_several: bool,
    /// What it did.
    pub process: ProcessTrace,
    /// Its threads.
    pub threads: Vec<u32>,
    /// When it was recorded.
    began: u64,
}

impl Part {
    /// The names of its code and data.
    pub fn symbols(&self) -> Symbols {
        Symbols::new(self.process.code.clone(), self.began)
    }
}

/// The processes and threads that were asked for.
fn selected(trace: &MemoryTrace, ranks: Option<&str>, thread: Option<u32>) -> Result<Vec<Part>> {
    let ranks = ranks.map(|list| parse_ranks("--rank", list)).transpose()?;
    let all = &trace.facts().processes;
    let mut parts = Vec::new();
    for (number, facts) in (0u32..).zip(all) {
        let rank = facts.rank.unwrap_or(number);
        if ranks.as_ref().is_some_and(|ranks| !ranks.contains(&(rank as i32))) {
            continue;
        }
        let process = trace.process(number)?;
        let mut threads = process.trace.threads();
        threads.retain(|other| thread.is_none_or(|only| only == *other));
        if !threads.is_empty() {
            let (is_one_of_several, began) = (all.len() > 1, facts.time.0);
            parts.push(Part { rank, is_one_of_several, process, threads, began });
        }
    }
    if parts.is_empty() {
        bail!("no such rank or thread in {}", trace.container().path().display());
    }
    Ok(parts)
}
