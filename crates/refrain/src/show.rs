//! `refrain show`: prints the calls of a trace, or hands over to the modules for records and memory traces.

use crate::mem::show::Wanted;
use crate::open::open;
use crate::orders;
use crate::output;
use crate::select::{Names, parse_ranks};
use anyhow::{Result, bail};
use refrain_analysis::objects::Objects;
use refrain_analysis::render::Renderer;
use refrain_analysis::sites::{Frame, Sites};
use refrain_mpi::abi::Family;
use refrain_mpi::names::version_of;
use refrain_reader::{CallTrace, Item, ProcessRef, Source};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Prints what was recorded: MPI calls, receive orders or memory references, rank by rank.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain show app.refrain --rank 0-3,7 --limit 20
  refrain show app.refrain --function Send,Irecv --times
  refrain show app.refrain --json | jq 'select(.function == \"MPI_Waitall\")'
  refrain show matmul.refrain --structure      the loop nests of a memory trace

MPI calls (refrain trace):
  rank 3  #17  MPI_Recv(buf=heap3+0x40, count=8, …, status={…}) = SUCCESS  at exchange stencil.c:42
  #17 is the number of the call in its thread. The rank is RANK.THREAD if there are several threads,
  RANK@PID if several processes have the same rank. A call that a callback made is indented.
  Arguments have their values after the call, or before→after if the call changed them. Objects get
  the smallest free number of their kind: comm1, type2, r3. An address is a piece of memory and an
  offset: heap3+0x40, stack-0x120, app+0x4060 (static data); with raw records, a plain number.
  Call sites (trace --callsite) come last, innermost first; without debug information as
  module+offset.
  undefined      MPI does not define this field of the status
  unset          MPI returned no value
  insignificant  MPI does not use this argument on this rank
  ignored=true   the program ignored the status; Refrain recorded it to know the match
  The order of calls is that of each thread. Only raw records (trace --raw) have the order between
  threads; without them threads are interleaved evenly, and --thread shows one alone.
  JSON: rank, thread, pid, call, depth, function, arguments, result (name), code; with --raw or
  --timing also start and end (nanoseconds since 1970) and duration (nanoseconds); with --callsite
  also site (array of module, offset, function, file, line, innermost first; offset is the return
  address). An argument that the call changed is {before, after}.

Receive orders (refrain record):
  For each rank, wildcard receives in posting order with the message that each matched, then the
  calls that completed something. --function selects among these calls and hides the receives. A call
  that posts and completes a receive itself (Recv, Sendrecv, probes) has the number of the receive, and
  the receive that of the call; of requests a record holds the index in the call alone.
  Communicators are numbered as the rank first receives on them (with threads: by size and rank).
  JSON: rank, thread, site; receive, communicator, any_source, any_tag, and source and tag or
  cancelled or never, completed_by (a call); or call, kind, requests, failed_polls, completed,
  completed_receive.

Memory references (refrain mem):
  T2 store 8 0x7f12a4c01040 matmul.c:14
  Thread, kind, bytes, address, call site; P and the rank come first if there are several processes.
  With --structure, sets of threads or processes are <first,count,stride>, and a reference has its
  stride for each enclosing loop in brackets, the outermost first.
  JSON: rank, thread, kind, size, address, place.")]
pub struct Args {
    /// The file to print.
    trace: PathBuf,
    /// Only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Only this thread of each rank.
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Only these functions; the prefix MPI_ is optional, `*` matches any characters.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    function: Vec<String>,
    /// Print at most this many calls or references.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Also print the notes between calls: memory that came into use, members of communicators.
    #[arg(long)]
    notes: bool,
    /// Print every element of long arrays.
    #[arg(long)]
    full: bool,
    /// Print when each call began, in seconds since the first rank was started, and its duration.
    #[arg(long)]
    times: bool,
    /// Print the loop nests of a memory trace, with strides and threads.
    #[arg(long)]
    structure: bool,
}

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let ranks = args.rank.as_deref().map(|list| parse_ranks("--rank", list)).transpose()?;
    let functions = Names::parse("--function", &args.function)?;
    if orders::are_in(&args.trace) {
        if args.times {
            bail!("{} is a record of receive orders, and has no times", args.trace.display());
        }
        let (thread, limit) = (args.thread, args.limit.unwrap_or(u64::MAX));
        let wanted = orders::show::Wanted { ranks, thread, functions, limit, json: args.json };
        return orders::show::run(&args.trace, wanted);
    }
    if let Some(trace) = crate::mem::memory_trace(&args.trace)? {
        let Args { thread, limit, json, structure, .. } = args;
        return crate::mem::show::run(&trace, &Wanted { ranks, thread, limit, json, structure });
    }
    let trace = open(&args.trace)?;
    let has_times = trace.has_raw() || trace.has_times();
    if args.times && !has_times {
        bail!(
            "{} has no times of single calls: record with --timing loop, or --raw",
            args.trace.display()
        );
    }
    if let Some(thread) = args.thread
        && trace.meta().streams.iter().all(|stream| stream.thread != thread)
    {
        bail!("no thread {thread} in {}", args.trace.display());
    }
    let mut printer = Printer {
        origin: origin(&trace),
        shared: shared_ranks(&trace),
        has_times,
        args: &args,
        functions,
        left: args.limit.unwrap_or(u64::MAX),
        sites: Sites::recorded_at(trace.meta().time.0),
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
    };
    let mut found = false;
    for process in trace.processes() {
        if ranks.as_ref().is_none_or(|ranks| ranks.contains(&process.rank())) {
            found = true;
            printer.process(process)?;
        }
    }
    if !found {
        bail!("no rank {} in {}", args.rank.unwrap_or_default(), args.trace.display());
    }
    printer.finish()?;
    for module in printer.sites.changed() {
        say!("refrain: {module} was changed after the recording: its call sites stay offsets");
    }
    Ok(ExitCode::SUCCESS)
}

struct Printer<'t, W: Write> {
    has_times: bool,
    args: &'t Args,
    functions: Names,
    /// Nanoseconds since 1970 at the first call of all.
    origin: u64,
    /// Ranks of several processes.
    shared: BTreeSet<i32>,
    left: u64,
    sites: Sites,
    out: W,
}

impl<W: Write> Printer<'_, W> {
    fn process(&mut self, process: ProcessRef<'_>) -> Result<()> {
        let facts = process.facts();
        let family = Family::from_code(facts.family).unwrap_or(Family::Mpich);
        let mut items = process.items(Source::Records)?;
        let mut objects = Objects::new(family, items.names().entries().collect());
        let renderer = Renderer::new(family, version_of(&facts.library), self.args.full);
        let threaded = process.tasks().len() > 1;
        while self.left > 0 {
            let Some(item) = items.next() else { break };
            let (task, item) = match item {
                Ok(item) => item,
                Err(error) => {
                    self.finish()?;
                    return Err(error.into());
                }
            };
            let event = item.event();
            let names = objects.name_call(event);
            if matches!(item, Item::Note(_)) && !self.args.notes {
                continue;
            }
            let wanted = self.functions.is_empty() || self.functions.contain(&event.function.name);
            if !wanted {
                continue;
            }
            let stream = task.facts();
            if self.args.thread.is_some_and(|thread| thread != stream.thread) {
                continue;
            }
            let start = stream.nanos(event.start);
            let end = event.end.map(|ticks| stream.nanos(ticks));
            let line = if self.args.json {
                let mut line = json!({
                    "rank": stream.rank,
                    "thread": stream.thread,
                    "pid": stream.pid,
                    "call": event.number,
                    "depth": event.depth,
                    "function": event.function.name,
                    "arguments": renderer.arguments(event, &objects, &names),
                    "result": event.result.map(|_| renderer.result(event)),
                    "code": event.result,
                });
                if self.has_times {
                    line["start"] = start.into();
                    line["end"] = end.into();
                    line["duration"] = end.map(|end| end.saturating_sub(start)).into();
                }
                if let Some(site) = &event.site {
                    let frames = self.sites.frames(site);
                    line["site"] = frames.iter().map(Frame::json).collect();
                }
                line.to_string()
            } else {
                let mut who = stream.rank.to_string();
                if self.shared.contains(&stream.rank) {
                    who += &format!("@{}", stream.pid);
                }
                if threaded {
                    who += &format!(".{}", stream.thread);
                }
                let indent = "  ".repeat(event.depth.into());
                let text = renderer.text(event, &objects, &names);
                let times = self.times(start, end);
                let site = event.site.as_ref().map(|site| self.site(site)).unwrap_or_default();
                format!("rank {who}  #{}  {times}{indent}{text}{site}", event.number)
            };
            if !self.line(&line)? {
                self.left = 0;
                break;
            }
            self.left -= 1;
        }
        Ok(())
    }

    fn times(&self, start: u64, end: Option<u64>) -> String {
        if !self.args.times {
            return String::new();
        }
        let since = start.saturating_sub(self.origin) as f64 / 1e9;
        let took = end
            .map_or("?".to_owned(), |end| format!("{:.3}", end.saturating_sub(start) as f64 / 1e3));
        format!("{since:.6} s  {took} µs  ")
    }

    fn site(&mut self, site: &Arc<str>) -> String {
        let frames = self.sites.frames(site);
        let texts: Vec<String> = frames.iter().map(Frame::text).collect();
        format!("  at {}", texts.join(" < "))
    }

    /// Writes a line; false when nobody reads on.
    fn line(&mut self, line: &str) -> Result<bool> {
        still_read(writeln!(self.out, "{}", output::line(line)))
    }

    fn finish(&mut self) -> Result<bool> {
        still_read(self.out.flush())
    }
}

/// A reader that has seen enough (`| head`) is no error.
fn still_read(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Nanoseconds since 1970 when the first rank began.
fn origin(trace: &CallTrace) -> u64 {
    trace.tasks().map(|task| task.facts().clock[0].1).min().unwrap_or(0)
}

/// Ranks that several processes have: the trace holds several runs.
fn shared_ranks(trace: &CallTrace) -> BTreeSet<i32> {
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for process in trace.processes() {
        if !seen.insert(process.rank()) {
            shared.insert(process.rank());
        }
    }
    shared
}
