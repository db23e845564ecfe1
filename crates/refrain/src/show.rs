//! `refrain show`: prints the calls of a trace.

use crate::mem::show::Wanted;
use crate::open::open;
use crate::orders;
use crate::select::{Names, parse_ranks};
use anyhow::{Result, bail};
use refrain_analysis::calls::{Calls, Process, processes};
use refrain_analysis::render::Renderer;
use refrain_analysis::sites::{Frame, Sites};
use refrain_reader::decoder::is_note;
use refrain_trace::{StreamMeta, Trace};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Prints the calls of a trace, rank by rank.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain show app.refrain --rank 0-3,7 --limit 20
  refrain show app.refrain --function Send,Irecv --times
  refrain show app.refrain --json | jq 'select(.function == \"MPI_Waitall\")'

A line is the rank (rank.thread where there are threads), the number of the call in its thread,
and the call. Values are those after the call; `a→b` where the call changed one. Objects have
names of their own, as small as possible: comm1, type2, r3. A call made inside another, by a
callback, is indented. Where several processes have the same rank, it is rank@pid.

Calls of different threads are in their true order only where the records were kept (trace --raw):
a trace without them knows the order in each thread alone, and threads are shown side by side as if
they went on evenly. --thread shows one by itself.

Of receive orders (refrain record) are printed, for each rank, receives with a wildcard in the order
they were posted, each with what it received, then calls that completed something, in their order;
with --function only the latter. Communicators are numbered as the rank first receives on them, or from
size and rank where threads share MPI. JSON: rank, thread, site; receive, communicator, any_source,
any_tag and source and tag (or cancelled, never); or call, kind, requests, failed_polls, completed.

`undefined`: a source or tag of a status that MPI does not define, as after access to a file.
`unset`: MPI gave no value. `insignificant`: not used on this rank. `ignored=true`: the program
asked for no status, and Refrain kept it to know what a wildcard matched.

Where call sites were recorded (trace --callsite) a line ends with the call's, innermost first:
`at exchange stencil.c:42 < main stencil.c:90`; without debug information, module and offset.

An address is a piece of memory and an offset: heap3+0x40, stack-0x120, app+0x4060 (static data).
Of a trace with records (trace --raw) these are shown, and addresses are plain numbers.

Of a memory trace (refrain mem) a line is `T2 store 8 0x7f12a4c01040 matmul.c:14`: thread, kind,
bytes, address, place; before it P and the rank where there are several. With --structure, threads
and processes are lists <first,count,stride>, and a reference has, in brackets, its step for each
loop around it. JSON: rank, thread, kind, size, address, place.

JSON: rank, thread, pid, call, depth, function, arguments, result (name), code; from raw records
and of traces with times (trace --timing) also start and end (nanoseconds since 1970) and duration (nanoseconds). A value the call changed is
{before, after}. With call sites, site: an array of {module, offset, function, file, line}, innermost
first, offset being where the call returns to.")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// Only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Only this thread of each rank.
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Only these functions, with or without MPI_; `*` stands for anything.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    function: Vec<String>,
    /// At most this many calls.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Also what stands between calls: memory that came into use, members of communicators.
    #[arg(long)]
    notes: bool,
    /// Every element of long arrays.
    #[arg(long)]
    full: bool,
    /// When each call began (seconds since the first rank was started) and how long it took.
    #[arg(long)]
    times: bool,
    /// Of a memory trace: the loops, with sections, strides and threads.
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
        trace: &trace,
        has_times,
        args: &args,
        functions,
        left: args.limit.unwrap_or(u64::MAX),
        sites: Sites::recorded_at(trace.meta().time.0),
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
    };
    let mut found = false;
    for process in processes(&trace) {
        if ranks.as_ref().is_none_or(|ranks| ranks.contains(&process.rank)) {
            found = true;
            printer.process(&process)?;
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
    trace: &'t Trace,
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
    fn process(&mut self, process: &Process) -> Result<()> {
        let mut calls = Calls::of(self.trace, process)?;
        let mut objects = calls.objects();
        let renderer = Renderer::new(calls.family(), calls.version(), self.args.full);
        let streams = &self.trace.meta().streams;
        let threaded = process.streams.len() > 1;
        while self.left > 0 {
            let Some(call) = calls.next() else { break };
            let call = match call {
                Ok(call) => call,
                Err(error) => {
                    self.finish()?;
                    return Err(error.into());
                }
            };
            let names = objects.name_call(&call.event);
            if is_note(&call.event) && !self.args.notes {
                continue;
            }
            let wanted =
                self.functions.is_empty() || self.functions.contain(&call.event.function.name);
            if !wanted {
                continue;
            }
            let stream = &streams[call.stream];
            if self.args.thread.is_some_and(|thread| thread != stream.thread) {
                continue;
            }
            let event = &call.event;
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
        still_read(writeln!(self.out, "{line}"))
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

fn origin(trace: &Trace) -> u64 {
    let first = |stream: &StreamMeta| stream.clock[0].1;
    trace.meta().streams.iter().map(first).min().unwrap_or(0)
}

/// Ranks that several processes have: the trace holds several runs.
fn shared_ranks(trace: &Trace) -> BTreeSet<i32> {
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for process in processes(trace) {
        if !seen.insert(process.rank) {
            shared.insert(process.rank);
        }
    }
    shared
}
