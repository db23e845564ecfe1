//! `refrain info`: what was run, whether the file is complete, and how large it is.

use crate::open::open_any;
use crate::orders;
use crate::output;
use crate::stdout::{print, print_json};
use crate::summary::{counted, grouped, size};
use crate::timing::Bounds;
use anyhow::Result;
use refrain_analysis::figures::{Figures, GroupFigures, figures, of_histograms};
use refrain_mpi::abi::Family;
use refrain_reader::meta::REDACT;
use refrain_reader::timing::Wanted;
use refrain_reader::trace::StoredForm;
use refrain_reader::{CallTrace, Ended, File, Meta, Paused, Run, sections};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints what was run, whether the file is complete, and how large it is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain info app.refrain
  refrain info app.refrain --json | jq '.sections'

A group is a set of ranks that make the same calls in the same order, with values that may differ.
Ranks are listed as numbers, ranges, and ranges with a step: 0-12:4 is 0, 4, 8, 12; `x 3 by 16`
after a range repeats it three times, 16 apart.

A trace is complete if it has every rank, every rank ended by MPI_Finalize, and no call is
missing: neither because of --functions, --exclude or --ranks, nor because the program switched
recording off.

JSON of a trace: path, ranks, threads, calls, functions, signatures, grammars, rules, bytes,
sections (bytes by name; own and raw are sums), complete, selected (the selecting options and
their values), paused (ranks that switched recording off), redacted (true if --redact left things
out), raw_bytes (size of the records before compression), ratio (raw_bytes to bytes), mpi, family,
hosts, program, programs, command, exit_code (null if unknown), refrain (version that wrote the
file), ended (number of ranks by how they ended), started, duration_s,
groups (array: ranks, list, thread, signatures, calls), times (null without --timing: mode, error,
error_abs_ns, bytes, bytes_per_call, clock_uncertainty_ns: the largest possible offset of a rank's
clock from that of the first rank), stored (grammar, nest, coded or histograms), fuzzy_frames,
histograms (null unless fold --histogram-above made it: above, vectors, the number replaced).

JSON of receive orders (refrain record): path, refrain, command, exit_code, method, ranks, size,
complete, receives, wildcard_receives, calls (that completed something), failed_polls, values
(clock readings and random numbers), clock_values, value_bytes, bytes (of the file), order_bytes,
bytes_per_receive (order_bytes without value_bytes, to receives), unsupported (unsupported
operations that were used), by_rank, by_call_site, by_receive_site. With --method clock, instead of
receives: messages (whose order was not determined), permuted and permuted_percent (those not
received in clock order).

JSON of a memory trace (refrain mem): path, kind (memory), processes, threads, references, bytes
(without raw records), sections, complete, holds (which references are recorded), selected, lost,
raw (whether there are raw records), command, exit_code, refrain, groups (lists of processes with
threads of the same structure), process (array: rank, pid, image, host, program, frontend,
threads, references, ended, lost).")]
pub struct Args {
    /// The file to describe.
    trace: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let file = open_any(&args.trace)?;
    let run = file.run();
    let (code, missing) = match file {
        File::Calls(trace) => return calls(&trace, &run, &args),
        File::Orders(orders) => (
            orders::info::run(&orders, &args.trace, args.json)?,
            &["program", "hosts", "started"][..],
        ),
        File::Memory(trace) => {
            (crate::mem::info::run(&trace, args.json)?, &["hosts", "started"][..])
        }
    };
    if !args.json {
        let lines = run_lines(&run).into_iter().filter(|(name, _)| missing.contains(name));
        let line = |(name, what): (&str, String)| format!("{name:10} {}\n", output::line(&what));
        print(&lines.map(line).collect::<String>())?;
    }
    Ok(code)
}

/// The lines about a run that all kinds of files have.
fn run_lines(run: &Run) -> Vec<(&'static str, String)> {
    let programs: BTreeSet<&str> = run.processes.iter().map(|p| p.program.as_str()).collect();
    let hosts: BTreeSet<&str> = run.processes.iter().map(|p| p.host.as_str()).collect();
    let mut lines = vec![
        ("program", few(programs.iter())),
        ("command", shortened(&run.command.join(" "))),
        ("hosts", few(hosts.iter())),
    ];
    let began = run.began.unwrap_or(0);
    if began > 0 {
        let duration = run.last_seen.map(|last| last.saturating_sub(began) as f64 / 1e9);
        let duration = duration.map_or(String::new(), |s| format!(", for {s:.3} s"));
        let code = run.exit_code.map_or(String::new(), |code| format!(", exit code {code}"));
        lines.push(("started", format!("{}{duration}{code}", utc(began))));
    }
    lines
}

/// Prints the facts of a trace of calls.
fn calls(trace: &CallTrace, run: &Run, args: &Args) -> Result<ExitCode> {
    let info = Info::of(trace)?;
    let path = args.trace.display().to_string();
    match args.json {
        true => print_json(&info.json(&path)?)?,
        false => print(&info.text(&path, run))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is missing in a redacted trace.
pub const REDACTED_TEXT: &str =
    "command line, host names, folders of files, arguments that name them";

/// `refrain info --json` of a trace of calls.
#[derive(Serialize)]
struct InfoRow<'a> {
    path: &'a str,
    /// Whether command line, host names and paths were omitted.
    redacted: bool,
    ranks: usize,
    threads: usize,
    calls: u64,
    /// Functions that were called.
    functions: usize,
    signatures: usize,
    grammars: usize,
    rules: usize,
    /// The size of the file.
    bytes: u64,
    /// Bytes by name; `own` and `raw` are sums.
    sections: &'a BTreeMap<&'a str, u64>,
    complete: bool,
    /// The options that select what is recorded, without `--`, with their values.
    selected: BTreeMap<&'a str, &'a str>,
    /// Ranks that switched recording off.
    paused: BTreeSet<i32>,
    /// Bytes of the records before compression.
    raw_bytes: u64,
    /// The ratio of `raw_bytes` to `bytes`.
    ratio: f64,
    mpi: Option<&'a str>,
    family: &'a str,
    hosts: &'a BTreeSet<&'a str>,
    program: Option<&'a str>,
    programs: &'a BTreeSet<&'a str>,
    command: &'a [String],
    /// Null if unknown.
    exit_code: Option<i32>,
    /// The version that wrote the file.
    refrain: &'a str,
    /// The number of ranks by how they ended.
    ended: &'a BTreeMap<String, usize>,
    started: String,
    duration_s: f64,
    groups: Vec<GroupRow<'a>>,
    /// Null without `--timing`.
    times: Option<TimesRow>,
    /// How the calls are stored: `grammar`, `nest`, `coded` or `histograms`.
    stored: &'static str,
    /// Frames of call stacks that may differ at one place of the loop nests.
    fuzzy_frames: usize,
    /// Null unless the trace has histograms.
    histograms: Option<HistogramsRow>,
}

#[derive(Serialize)]
struct HistogramsRow {
    /// Vectors of more numbers were replaced.
    above: u64,
    /// How many were replaced.
    vectors: u64,
}

#[derive(Serialize)]
struct GroupRow<'a> {
    /// The number of ranks.
    ranks: usize,
    /// The ranks.
    list: &'a str,
    thread: u32,
    signatures: usize,
    calls: u64,
}

impl<'a> GroupRow<'a> {
    fn of(group: &'a GroupFigures) -> GroupRow<'a> {
        GroupRow {
            ranks: group.ranks,
            list: &group.list,
            thread: group.thread,
            signatures: group.signatures,
            calls: group.calls,
        }
    }
}

#[derive(Serialize)]
struct TimesRow {
    mode: &'static str,
    /// Relative error bound.
    error: Option<f64>,
    /// Absolute error bound.
    error_abs_ns: Option<f64>,
    bytes: u64,
    bytes_per_call: f64,
    /// The largest possible offset of a rank's clock from that of the first rank.
    clock_uncertainty_ns: Option<u64>,
}

/// All facts that are printed about a trace.
struct Info<'t> {
    meta: &'t Meta,
    figures: Figures,
    ranks: usize,
    signatures: usize,
    grammars: usize,
    rules: usize,
    bytes: u64,
    sections: BTreeMap<&'t str, u64>,
    complete: bool,
    family: &'static str,
    hosts: BTreeSet<&'t str>,
    programs: BTreeSet<&'t str>,
    ended: BTreeMap<String, usize>,
    times: Option<Wanted>,
    form: StoredForm,
    /// How many frames of call stacks of one place differ in the loop nests.
    frames: usize,
    /// Where there are histograms: the numbers that a vector may have, and how many were replaced.
    histograms: Option<(u64, u64)>,
}

impl<'t> Info<'t> {
    fn of(trace: &'t CallTrace) -> Result<Info<'t>> {
        let (meta, container) = (trace.meta(), trace.container());
        let histograms = trace.histograms()?;
        let groups = match histograms {
            Some(_) => &[][..],
            None => &trace.structure()?.groups,
        };
        let mut sections = BTreeMap::new();
        for section in container.sections() {
            let name = section.name.split('/').next().unwrap_or_default();
            *sections.entry(name).or_default() += section.stored;
        }
        let ranks = trace.processes().len();
        let mut ended = BTreeMap::new();
        for process in trace.processes() {
            *ended.entry(ending(&process.facts().ended)).or_default() += 1;
        }
        let streams = &meta.streams;
        let size = streams.iter().map(|s| s.size).max().unwrap_or(0);
        let complete = !container.is_recovered()
            && meta.lost.is_empty()
            && groups.iter().all(|g| g.lost == 0)
            && streams.iter().all(|s| s.ended == Ended::Finalized && s.unrecorded == 0)
            && meta.left_out().is_empty()
            && ranks as i64 >= i64::from(size);
        let family = streams.first().and_then(|s| Family::from_code(s.family));
        Ok(Info {
            meta,
            figures: match histograms {
                Some(histograms) => of_histograms(histograms),
                None => figures(trace)?,
            },
            ranks,
            signatures: groups.iter().map(|g| g.rows.len()).sum(),
            grammars: groups.iter().map(|g| g.grammars.len()).sum(),
            rules: groups.iter().flat_map(|g| &g.grammars).map(|g| g.rules().len()).sum(),
            bytes: container.bytes(),
            sections,
            complete,
            family: family.map_or("unknown", Family::name),
            hosts: streams.iter().map(|s| s.host.as_str()).collect(),
            programs: streams.iter().map(|s| s.program.as_str()).collect(),
            ended,
            times: trace.timing()?,
            form: trace.form()?,
            frames: trace.fuzzy_frames()?,
            histograms: histograms.map(|histograms| (histograms.above, histograms.replaced())),
        })
    }

    /// How the calls are stored, and why.
    fn form_text(&self) -> String {
        let taken = |section| size(self.sections.get(section).copied().unwrap_or(0));
        let (is_nest, instead) = match (self.form, self.histograms) {
            (StoredForm::Coded { is_nest, instead }, _) => (is_nest, size(instead)),
            (StoredForm::Histograms, Some((above, vectors))) => {
                return format!(
                    "as loop nests with histograms in place of {} of more than {}: not lossless",
                    counted(vectors, "vector"),
                    counted(above, "number")
                );
            }
            _ => return "as grammars: loop nests are stored where they take less".to_owned(),
        };
        let what = if is_nest { "loop nests" } else { "predicted signatures and calls" };
        let fuzzy = match self.frames {
            0 => String::new(),
            frames => format!(" (stacks may differ in {})", counted(frames as u64, "frame")),
        };
        format!("as {what}{fuzzy}: {} instead of {instead} as grammars", taken(sections::NEST))
    }

    fn ratio(&self) -> f64 {
        self.meta.raw_bytes as f64 / self.bytes.max(1) as f64
    }

    fn duration(&self) -> f64 {
        self.meta.time.1.saturating_sub(self.meta.time.0) as f64 / 1e9
    }

    /// What was selected, by option.
    fn selected(&self) -> BTreeMap<&str, &str> {
        let option = |text: &'t String| {
            text.strip_prefix("--")?.split_once(' ').filter(|_| text.as_str() != REDACT)
        };
        self.meta.selected.iter().filter_map(option).collect()
    }

    /// The ranks that switched recording off.
    fn paused(&self) -> BTreeSet<i32> {
        let paused = self.meta.streams.iter().filter(|s| s.paused != Paused::Never);
        paused.map(|s| s.rank).collect()
    }

    fn json(&self, path: &str) -> Result<String> {
        let first = self.meta.streams.first();
        Ok(serde_json::to_string(&InfoRow {
            path,
            redacted: self.meta.is_redacted(),
            ranks: self.ranks,
            threads: self.meta.streams.len(),
            calls: self.figures.calls(),
            functions: self.figures.functions.len(),
            signatures: self.signatures,
            grammars: self.grammars,
            rules: self.rules,
            bytes: self.bytes,
            sections: &self.sections,
            complete: self.complete,
            selected: self.selected(),
            paused: self.paused(),
            raw_bytes: self.meta.raw_bytes,
            ratio: self.ratio(),
            mpi: first.map(|s| s.library.as_str()),
            family: self.family,
            hosts: &self.hosts,
            program: first.map(|s| s.program.as_str()),
            programs: &self.programs,
            command: &self.meta.command,
            exit_code: self.meta.exit_code,
            refrain: &self.meta.refrain,
            ended: &self.ended,
            started: utc(self.meta.time.0),
            duration_s: self.duration(),
            groups: self.figures.groups.iter().map(GroupRow::of).collect(),
            times: self.times.as_ref().map(|wanted| self.times_row(wanted)),
            stored: match self.form {
                StoredForm::Grammar => "grammar",
                StoredForm::Coded { is_nest: true, .. } => "nest",
                StoredForm::Coded { is_nest: false, .. } => "coded",
                StoredForm::Histograms => "histograms",
            },
            fuzzy_frames: self.frames,
            histograms: self.histograms.map(|(above, vectors)| HistogramsRow { above, vectors }),
        })?)
    }

    /// Bytes of the times of calls.
    fn times_bytes(&self) -> u64 {
        self.sections.get("times").copied().unwrap_or(0)
    }

    fn times_row(&self, wanted: &Wanted) -> TimesRow {
        let bounds = Bounds::of(wanted);
        let bytes = self.times_bytes();
        TimesRow {
            mode: wanted.setting.mode.word(),
            error: bounds.relative,
            error_abs_ns: bounds.absolute,
            bytes,
            bytes_per_call: bytes as f64 / self.figures.calls().max(1) as f64,
            clock_uncertainty_ns: self.uncertainty(),
        }
    }

    /// The largest uncertainty of a rank's clock, in nanoseconds.
    fn uncertainty(&self) -> Option<u64> {
        self.meta.streams.iter().map(|stream| stream.uncertainty).max()
    }

    fn times_text(&self, wanted: &Wanted) -> String {
        let (bytes, calls) = (self.times_bytes(), self.figures.calls());
        // A start and an end of 8 bytes, as in records.
        const PLAIN: u64 = 16;
        let smaller = PLAIN.saturating_mul(calls) as f64 / bytes.max(1) as f64;
        let compared = match smaller >= 1.0 {
            true => format!(", {smaller:.1} times smaller than {PLAIN} bytes a call"),
            // With few calls, the fixed size of a block dominates.
            false => String::new(),
        };
        let clocks = match self.uncertainty() {
            Some(uncertainty) if uncertainty > 0 => {
                format!("; clocks agree within {:.1} µs", uncertainty as f64 / 1e3)
            }
            _ => String::new(),
        };
        format!(
            "{}, {}: {}, {:.2} bytes a call{compared}{clocks}",
            wanted.setting.mode,
            wanted.bound(),
            size(bytes),
            bytes as f64 / calls.max(1) as f64,
        )
    }

    fn text(&self, path: &str, run: &Run) -> String {
        let mut text = String::new();
        let mut line =
            |name: &str, what: String| text += &format!("{name:10} {}\n", output::line(&what));
        line("trace", format!("{path}, written by Refrain {}", self.meta.refrain));
        run_lines(run).into_iter().for_each(|(name, what)| line(name, what));
        let library = self.meta.streams.first().map_or("", |s| s.library.as_str());
        let library: Vec<&str> = library.split_whitespace().collect();
        line("MPI", format!("{} ({})", shortened(&library.join(" ")), self.family));
        line(
            "ranks",
            match self.meta.streams.len() {
                threads if threads > self.ranks => format!("{}, {threads} threads", self.ranks),
                _ => self.ranks.to_string(),
            },
        );
        line("ended", few(self.ended.iter().map(|(how, ranks)| format!("{ranks} {how}"))));
        let selected = self.meta.selected.iter().filter(|option| *option != REDACT);
        let selected: Vec<&str> = selected.map(String::as_str).collect();
        if !selected.is_empty() {
            line("selected", selected.join(" "));
        }
        if self.meta.is_redacted() {
            line("redacted", REDACTED_TEXT.to_owned());
        }
        let paused = self.paused();
        if !paused.is_empty() {
            line(
                "paused",
                format!("recording was switched off by {}", counted(paused.len() as u64, "rank")),
            );
        }
        line("complete", if self.complete { "yes" } else { "no" }.to_owned());
        let Figures { functions, groups } = &self.figures;
        line(
            "calls",
            format!(
                "{} of {}",
                grouped(self.figures.calls()),
                counted(functions.len() as u64, "function")
            ),
        );
        if self.histograms.is_none() {
            let signatures = counted(self.signatures as u64, "signature");
            let grammars = counted(self.grammars as u64, "grammar");
            let rules = counted(self.rules as u64, "rule");
            line("structure", format!("{signatures}, {grammars} of {rules} in all"));
        }
        line("stored", self.form_text());
        let group = |g: &GroupFigures| {
            let ranks = if g.ranks == 1 { "rank" } else { "ranks" };
            match g.thread {
                0 => format!("{ranks} {}", g.list),
                thread => format!("thread {thread} of {ranks} {}", g.list),
            }
        };
        line("groups", few(groups.iter().map(group)));
        let sections = self.sections.iter().map(|(name, bytes)| format!("{name} {}", size(*bytes)));
        let sections: Vec<_> = sections.collect();
        line("size", format!("{}: {}", size(self.bytes), sections.join(", ")));
        let raw = size(self.meta.raw_bytes);
        if let Some(wanted) = &self.times {
            line("times", self.times_text(wanted));
        }
        line("records", format!("{raw} before compression, {:.1} times as much", self.ratio()));
        text
    }
}

fn ending(ended: &Ended) -> String {
    match ended {
        Ended::Finalized => "by MPI_Finalize".to_owned(),
        Ended::Aborted(code) => format!("by MPI_Abort({code})"),
        Ended::Unfinalized => "without MPI_Finalize".to_owned(),
        Ended::LogStopped(_) => "after its log had stopped".to_owned(),
        Ended::Running => "not yet: a snapshot".to_owned(),
    }
}

/// The first few items, and the number of the others.
fn few(all: impl ExactSizeIterator<Item = impl ToString>) -> String {
    const FEW: usize = 4;
    let more = all.len().saturating_sub(FEW);
    let head: Vec<_> = all.take(FEW).map(|one| shortened(&one.to_string())).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    head.join(", ") + &more
}

/// A text, shortened if it is long.
fn shortened(text: &str) -> String {
    const LONG: usize = 80;
    match text.char_indices().nth(LONG) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Nanoseconds since 1970 as date and time in ISO 8601.
fn utc(nanos: u64) -> String {
    let (seconds, millis) = (nanos / 1_000_000_000, nanos / 1_000_000 % 1000);
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_iso_8601() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_827_696_789_000_000), "2000-02-29T12:34:56.789Z");
        assert_eq!(utc(1_735_689_599_999_999_999), "2024-12-31T23:59:59.999Z");
    }

    #[test]
    fn long_lists_are_shortened() {
        assert_eq!(few([1, 2, 3].iter()), "1, 2, 3");
        assert_eq!(few([1, 2, 3, 4, 5, 6].iter()), "1, 2, 3, 4 and 2 more");
    }
}
