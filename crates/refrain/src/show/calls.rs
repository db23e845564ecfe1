//! `refrain show` of a trace of calls.

use super::Args;
use crate::select::Names;
use crate::stdout::Lines;
use crate::summary::grouped;
use anyhow::{Result, bail};
use refrain_analysis::objects::Objects;
use refrain_analysis::render::Renderer;
use refrain_analysis::sites::{Frame, Sites};
use refrain_mpi::abi::Family;
use refrain_mpi::names::version_of;
use refrain_reader::{CallTrace, Item, ProcessRef, Source};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

/// A line of `refrain show --json`.
#[derive(Serialize)]
struct CallRow<'a> {
    rank: i32,
    thread: u32,
    /// The process number.
    pid: i32,
    /// The number of the call in its thread.
    call: u64,
    /// The number of calls that contain it.
    depth: u8,
    function: &'a str,
    /// By name; a value that the call changed is an object with `before` and `after`.
    arguments: Json,
    /// The name of the error class, or the value of functions that return one; null if the call never returned.
    result: Option<String>,
    /// The value that the call returned.
    code: Option<i64>,
    /// Absent unless the trace has the times of every call.
    #[serde(flatten)]
    times: Option<TimesRow>,
    /// Absent unless it is a test or probe that found nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed_poll: bool,
    /// Innermost frame first; absent unless call sites were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Vec<Json>>,
}

#[derive(Serialize)]
struct TimesRow {
    /// Nanoseconds since 1970.
    start: u64,
    /// Nanoseconds since 1970; null if the call never returned.
    end: Option<u64>,
    /// Nanoseconds.
    duration: Option<u64>,
}

/// Prints.
pub fn run(
    trace: &CallTrace,
    args: &Args,
    ranks: Option<&BTreeSet<i32>>,
    functions: Names,
) -> Result<ExitCode> {
    let has_times = trace.has_raw() || trace.has_times();
    if args.times && !has_times {
        bail!(
            "{} does not have the times of every call: record with --timing loop, or --raw",
            args.trace.display()
        );
    }
    if let Some(thread) = args.thread
        && trace.tasks().all(|task| task.thread() != thread)
    {
        bail!("no thread {thread} in {}", args.trace.display());
    }
    let mut printer = Printer {
        origin: origin(trace),
        shared: shared_ranks(trace),
        has_times,
        args,
        functions,
        left: args.limit.unwrap_or(u64::MAX),
        sites: Sites::recorded_at(trace.meta().time.0),
        out: Lines::new(),
    };
    let mut found = false;
    for process in trace.processes() {
        if ranks.is_none_or(|ranks| ranks.contains(&process.rank())) {
            found = true;
            printer.process(process)?;
        }
    }
    if !found {
        let ranks = args.rank.as_deref().unwrap_or_default();
        bail!("no rank {ranks} in {}", args.trace.display());
    }
    printer.out.finish()?;
    super::warn_of_changed_modules(&printer.sites);
    Ok(ExitCode::SUCCESS)
}

struct Printer<'t> {
    has_times: bool,
    args: &'t Args,
    functions: Names,
    /// When the first rank began, in nanoseconds since 1970.
    origin: u64,
    /// Ranks that several processes have.
    shared: BTreeSet<i32>,
    left: u64,
    sites: Sites,
    out: Lines,
}

/// Calls in a row that asked the same and found nothing.
struct FailedPolls {
    who: String,
    text: String,
    /// The numbers of the first and the last call.
    numbers: (u64, u64),
    /// When the first began, and the last ended.
    start: u64,
    end: Option<u64>,
}

impl FailedPolls {
    /// Adds a call if it is the next and asks the same.
    fn goes_on(&mut self, who: &str, text: &str, number: u64, end: Option<u64>) -> bool {
        let goes_on = self.who == who && self.text == text && self.numbers.1 + 1 == number;
        if goes_on {
            (self.numbers.1, self.end) = (number, end);
        }
        goes_on
    }
}

impl Printer<'_> {
    fn process(&mut self, process: ProcessRef<'_>) -> Result<()> {
        let facts = process.facts();
        let family = Family::from_code(facts.family).unwrap_or(Family::Mpich);
        let mut items = process.items(Source::Records)?;
        let mut objects = Objects::new(family, items.names().entries().collect());
        let renderer = Renderer::new(family, version_of(&facts.library), self.args.full);
        let threaded = process.tasks().len() > 1;
        // Failed polls that may go on.
        let mut polls: Option<FailedPolls> = None;
        while self.left > 0 {
            let Some(item) = items.next() else { break };
            let (task, item) = match item {
                Ok(item) => item,
                Err(error) => {
                    self.polls(polls)?;
                    self.out.finish()?;
                    return Err(error.into());
                }
            };
            let event = item.event();
            let names = objects.name_call(event);
            let stream = task.facts();
            let is_hidden = matches!(item, Item::Note(_)) && !self.args.notes
                || !self.functions.is_empty() && !self.functions.contain(&event.function.name)
                || self.args.thread.is_some_and(|thread| thread != stream.thread);
            if is_hidden {
                continue;
            }
            let start = stream.nanos(event.start);
            let end = event.end.map(|ticks| stream.nanos(ticks));
            let is_failed_poll = matches!(&item, Item::Call(call) if call.is_failed_poll());
            let line = if self.args.json {
                let duration = end.map(|end| end.saturating_sub(start));
                let frames = |site| self.sites.frames(site).iter().map(Frame::json).collect();
                serde_json::to_string(&CallRow {
                    rank: stream.rank,
                    thread: stream.thread,
                    pid: stream.pid,
                    call: event.number,
                    depth: event.depth,
                    function: &event.function.name,
                    arguments: renderer.arguments(event, &objects, &names),
                    result: event.result.map(|_| renderer.result(event)),
                    code: event.result,
                    times: self.has_times.then_some(TimesRow { start, end, duration }),
                    failed_poll: is_failed_poll,
                    site: event.site.as_ref().map(frames),
                })?
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
                let site = event.site.as_ref().map(|site| self.site(site)).unwrap_or_default();
                let number = event.number;
                if is_failed_poll && !self.args.all {
                    let text = format!("{indent}{text}{site}");
                    if polls.as_mut().is_none_or(|polls| !polls.goes_on(&who, &text, number, end)) {
                        self.polls(polls.take())?;
                        let numbers = (number, number);
                        polls = Some(FailedPolls { who, text, numbers, start, end });
                    }
                    continue;
                }
                self.polls(polls.take())?;
                if self.left == 0 {
                    break;
                }
                let times = self.times(start, end);
                format!("rank {who}  #{number}  {times}{indent}{text}{site}")
            };
            match self.args.json {
                true => self.out.json(&line)?,
                false => self.out.line(&line)?,
            }
            self.left -= 1;
        }
        self.polls(polls)
    }

    /// Prints failed polls as a line.
    fn polls(&mut self, polls: Option<FailedPolls>) -> Result<()> {
        let Some(FailedPolls { who, text, numbers: (first, last), start, end }) =
            polls.filter(|_| self.left > 0)
        else {
            return Ok(());
        };
        let times = self.times(start, end);
        let line = match last - first + 1 {
            1 => format!("rank {who}  #{first}  {times}{text}"),
            n => format!("rank {who}  #{first}-{last}  {times}{text}  × {} failed", grouped(n)),
        };
        self.left -= 1;
        self.out.line(&line)
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
}

/// When the first rank began, in nanoseconds since 1970.
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
