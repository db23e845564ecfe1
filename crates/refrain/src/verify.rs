//! `refrain verify`: checks that a trace is intact, and compares it with its raw records.

mod times;

use crate::open::open_any;
use crate::stdout::{print, print_json};
use crate::summary::{self, counted};
use anyhow::Result;
use refrain_analysis::causality::{Messages, messages};
use refrain_analysis::verify::{
    Comparison, Difference, Structure, Survey, TimesCheck, check_structure, check_times, compare,
    survey,
};
use refrain_reader::{CallTrace, File};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code if a trace is damaged or not lossless.
const WRONG: u8 = 1;

/// Checks that a trace is intact and, if it has raw records, that it is lossless.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain verify app.refrain
  refrain trace --raw -- mpirun -n 4 ./app && refrain verify app.refrain
  refrain verify app.refrain --json | jq .differences

Always checked: the checksum of every section, the invariants of every grammar, and that every
call of every thread decodes.

With raw records (trace --raw): every value of every call is compared with the records. Function,
result, numbers, strings and arrays must be equal; handles and addresses must name the same
objects and the same memory for as long as these exist. Not compared: fields of a status that MPI
does not define, and the value of MPI_Wtime.

With times (trace --timing): every call must have its times; with raw records as well, they must
be within the requested error. A remark says how many messages were received before they were
sent: clocks of two ranks may be off by a little, and lossy times by more.

Memory traces (refrain mem): every reference of every thread must decode; with --raw each is
compared with what the program reported.

Records of receive orders (refrain record): every frame's checksum must be right, every event of
every thread must decode, no call may complete a request or a receive twice, and a rank that called
MPI_Finalize must have the end of every thread. A record holds no sends to compare receives with.

Exit codes: 0 if everything is right, 1 if not, 125 if the file cannot be read at all.

A trace with histograms (fold --histogram-above) is not lossless, and there is nothing to compare:
only its sections are checked.

JSON: path, ok, lossy (whether the trace has histograms), sections_checked, groups, grammars,
rules, signatures, calls, raw, events_compared, arguments_compared, different (number of
differences), differences (the first ones: rank, thread, call, function, parameter, expected,
got), problems, remarks, times (null if there are none: mode, error, error_abs_ns, calls,
compared, worst_duration_error and worst_interval_error as fractions, beyond: number of times
outside the bound), messages (null if there are no times: paired, unpaired, early: number
received before they were sent, worst_ns, beyond_clocks: number that clock uncertainty does not
explain). JSON of a memory trace: path, ok,
sections_checked, raw, references, references_compared, different, raw_bytes, problems. JSON of a
record: path, ok, sections_checked, method, ranks, size, threads, receives, calls, values,
completions (receives whose completing call is recorded), problems, remarks.")]
pub struct Args {
    /// The file to check.
    trace: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The results of all checks.
#[derive(Default)]
struct Findings {
    sections: usize,
    /// Where the trace has histograms: in place of how many vectors, and for how many calls.
    histograms: Option<(u64, u64)>,
    structure: Structure,
    survey: Survey,
    comparison: Option<Comparison>,
    times: Option<TimesCheck>,
    messages: Option<Messages>,
    problems: Vec<String>,
}

/// Checks.
pub fn run(args: Args) -> Result<ExitCode> {
    let trace = match open_any(&args.trace) {
        Ok(File::Calls(trace)) => trace,
        Ok(File::Memory(trace)) => return crate::mem::verify::run(&trace, args.json),
        Ok(File::Orders(orders)) => {
            return crate::orders::verify::run(&args.trace, Some(&orders), args.json);
        }
        // A record is read at once, so one damaged section keeps it from being opened.
        Err(_) if is_damaged_record(&args.trace) => {
            return crate::orders::verify::run(&args.trace, None, args.json);
        }
        Err(error) => return Err(error),
    };
    let mut findings = Findings::default();
    findings.look_at(&trace);
    match args.json {
        true => print_json(&findings.json(&args.trace.display().to_string())?)?,
        false => print(&findings.text(&trace))?,
    }
    Ok(if findings.is_right() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

/// Whether a file is a record of receive orders with damaged sections.
fn is_damaged_record(path: &Path) -> bool {
    let integrity = refrain_reader::orders::integrity(path);
    integrity.is_some_and(|integrity| !integrity.problems.is_empty())
}

impl Findings {
    fn look_at(&mut self, trace: &CallTrace) {
        let integrity = trace.container().verify();
        (self.sections, self.problems) = (integrity.intact, integrity.problems);
        if !self.problems.is_empty() {
            return;
        }
        match trace.histograms() {
            Ok(Some(histograms)) => {
                self.histograms = Some((histograms.replaced(), histograms.calls()));
                return;
            }
            Ok(None) => {}
            Err(error) => return self.problem(error.to_string()),
        }
        if let Err(error) = trace.durations() {
            return self.problem(error.to_string());
        }
        match check_structure(trace) {
            Ok(structure) => self.structure = structure,
            Err(error) => return self.problem(error.to_string()),
        }
        self.problems.append(&mut self.structure.problems);
        let found = match trace.has_raw() {
            true => {
                let mut survey = Survey::default();
                compare(trace, &mut survey).map(|comparison| (survey, Some(comparison)))
            }
            false => survey(trace).map(|survey| (survey, None)),
        };
        match found {
            Ok((survey, comparison)) => (self.survey, self.comparison) = (survey, comparison),
            Err(error) => self.problem(error.to_string()),
        }
        if self.comparison.as_ref().is_some_and(|c| c.events == 0) {
            self.problem("there are records, but no call to compare in them".into());
        }
        self.check_times(trace);
    }

    /// Checks times last, so that problems with times do not prevent the comparison of calls.
    fn check_times(&mut self, trace: &CallTrace) {
        match check_times(trace) {
            Ok(times) => self.times = times,
            Err(error) => self.problem(error.to_string()),
        }
        match &mut self.times {
            Some(times) => self.problems.append(&mut times.problems),
            None if trace.has_times() && self.problems.is_empty() => {
                self.problem("there are times, but no error bound for them".into());
            }
            None => {}
        }
        if !self.is_right() {
            return;
        }
        match messages(trace) {
            Ok(messages) => self.messages = messages,
            Err(error) => self.problem(error.to_string()),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let early = self.messages.as_ref().and_then(|m| times::early(m, self.times.as_ref()));
        self.survey.remarks().into_iter().chain(early).collect()
    }

    fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    fn is_right(&self) -> bool {
        self.problems.is_empty()
            && self.comparison.as_ref().is_none_or(|c| c.different == 0)
            && self.times.as_ref().is_none_or(|t| t.beyond == 0)
    }

    fn text(&self, trace: &CallTrace) -> String {
        let mut text = String::new();
        let mut line = |words: String| text += &format!("{words}\n");
        for problem in &self.problems {
            line(format!("wrong: {problem}"));
        }
        if let Some((replaced, calls)) = self.histograms {
            line(format!("{} sections, every checksum right", self.sections));
            line(format!(
                "not lossless: histograms in place of {}, for {}",
                counted(replaced, "vector"),
                counted(calls, "call")
            ));
            line("not compared: histograms have no single calls".into());
            return text;
        }
        if self.problems.is_empty() {
            let Structure { groups, grammars, rules, signatures, .. } = self.structure;
            line(format!("{} sections, every checksum right", self.sections));
            let counted = |n: usize, what: &str| counted(n as u64, what);
            line(format!(
                "{}, {}, {} of {}: every invariant holds",
                counted(groups, "group"),
                counted(signatures, "signature"),
                counted(grammars, "grammar"),
                counted(rules, "rule")
            ));
            line(format!(
                "{} of {} decoded",
                summary::counted(self.survey.calls, "call"),
                counted(trace.meta().streams.len(), "thread")
            ));
        }
        for remark in self.remarks() {
            line(format!("remark: {remark}"));
        }
        let left_out = trace.meta().left_out();
        if !left_out.is_empty() {
            line(format!("remark: not all calls were recorded: {}", left_out.join(", ")));
        }
        let lines = self.times.iter().map(times::times_text);
        lines.chain(self.messages.iter().map(times::messages_text)).for_each(&mut line);
        match &self.comparison {
            Some(comparison) => {
                for difference in &comparison.differences {
                    line(described(difference));
                }
                let Comparison { events, arguments, different, .. } = comparison;
                line(match different {
                    0 => format!("compared {events} events, {arguments} arguments: all equal"),
                    n => format!("compared {events} events, {arguments} arguments: {n} differ"),
                });
            }
            None if !trace.has_raw() => {
                line("not compared: there are no raw records (refrain trace --raw)".into());
            }
            None => {}
        }
        text
    }

    fn json(&self, path: &str) -> Result<String> {
        let comparison = self.comparison.as_ref();
        let differences = comparison.iter().flat_map(|c| &c.differences).map(difference_row);
        Ok(serde_json::to_string(&VerifyRow {
            path,
            ok: self.is_right(),
            lossy: self.histograms.is_some(),
            sections_checked: self.sections,
            groups: self.structure.groups,
            grammars: self.structure.grammars,
            rules: self.structure.rules,
            signatures: self.structure.signatures,
            calls: self.histograms.map_or(self.survey.calls, |(_, calls)| calls),
            raw: comparison.is_some(),
            events_compared: comparison.map_or(0, |c| c.events),
            arguments_compared: comparison.map_or(0, |c| c.arguments),
            different: comparison.map_or(0, |c| c.different),
            differences: differences.collect(),
            problems: &self.problems,
            remarks: self.remarks(),
            times: self.times.as_ref().map(times::TimesRow::of),
            messages: self.messages.as_ref().map(times::MessagesRow::of),
        })?)
    }
}

/// `refrain verify --json` of a trace of calls.
#[derive(Serialize)]
struct VerifyRow<'a> {
    path: &'a str,
    ok: bool,
    /// Whether the trace has histograms in place of calls.
    lossy: bool,
    sections_checked: usize,
    groups: usize,
    grammars: usize,
    rules: usize,
    signatures: usize,
    calls: u64,
    /// Whether there are raw records to compare with.
    raw: bool,
    events_compared: u64,
    arguments_compared: u64,
    /// The number of differences.
    different: u64,
    /// The first differences.
    differences: Vec<DifferenceRow<'a>>,
    problems: &'a [String],
    remarks: Vec<String>,
    /// Null if the trace does not have the times of every call.
    times: Option<times::TimesRow>,
    /// Null if the trace does not have the times of every call.
    messages: Option<times::MessagesRow>,
}

#[derive(Serialize)]
struct DifferenceRow<'a> {
    rank: i32,
    thread: u32,
    call: u64,
    function: &'a str,
    parameter: &'a str,
    expected: &'a str,
    got: &'a str,
}

fn difference_row(difference: &Difference) -> DifferenceRow<'_> {
    let Difference { rank, thread, call, function, parameter, expected, got } = difference;
    DifferenceRow { rank: *rank, thread: *thread, call: *call, function, parameter, expected, got }
}

fn described(difference: &Difference) -> String {
    let Difference { rank, thread, call, function, parameter, expected, got } = difference;
    format!("rank {rank}.{thread}  #{call}  {function}, {parameter}: {expected}; got {got}")
}
