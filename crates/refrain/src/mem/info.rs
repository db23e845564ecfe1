//! `refrain info` of a memory trace.

use crate::output;
use crate::stdout::{print, print_json};
use crate::summary::{counted, grouped, size};
use anyhow::Result;
use refrain_memory::triples;
use refrain_memtrace::MemoryTrace;
use refrain_memtrace::process::{Ended, ProcessFacts};
use refrain_memtrace::trace::{Facts, Stages};
use refrain_reader::meta::REDACT;
use refrain_rings::layout::{COMPILED, DYNAMORIO};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// The option to record libraries.
pub const LIBRARIES: &str = "--libs";
/// What a redacted trace does not have.
const REDACTED_TEXT: &str = "command line, host names, folders of files";
/// Bytes of an uncompressed reference: a block's number and an address.
const RAW: u64 = 16;

/// Prints the facts about a trace.
pub fn run(trace: &MemoryTrace, is_json: bool) -> Result<ExitCode> {
    match is_json {
        true => print_json(&json(trace).to_string())?,
        false => print(&text(trace))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn sections(trace: &MemoryTrace) -> BTreeMap<String, u64> {
    let mut sections = BTreeMap::new();
    for section in trace.container().sections() {
        let name = section.name.split('/').next().unwrap_or_default();
        *sections.entry(name.to_owned()).or_default() += section.stored;
    }
    sections
}

/// The size without raw records.
fn bytes_of_trace(trace: &MemoryTrace) -> u64 {
    let raw = trace.container().sections().iter().filter(|s| s.name.starts_with("raw/"));
    trace.container().bytes() - raw.map(|section| section.stored).sum::<u64>()
}

fn front_end(process: &ProcessFacts) -> &'static str {
    match process.front_end {
        DYNAMORIO => "dynamorio",
        COMPILED => "compiled",
        _ => "unknown",
    }
}

fn ended(process: &ProcessFacts) -> &'static str {
    match process.ended {
        Ended::Running if !process.lost.is_empty() => "truncated",
        Ended::Running => "running",
        Ended::Exited => "exited",
        Ended::Died => "died",
        Ended::Replaced => "replaced",
    }
}

/// Whether the trace has every reference of the selected code, from the beginning to the end of every process.
fn is_complete(trace: &MemoryTrace) -> bool {
    let facts = trace.facts();
    let is_whole =
        |p: &ProcessFacts| p.lost.is_empty() && matches!(p.ended, Ended::Exited | Ended::Replaced);
    !trace.container().is_recovered()
        && facts.lost.is_empty()
        && selected(facts).all(|option| option == LIBRARIES)
        && facts.processes.iter().all(is_whole)
}

/// The options that selected what to record.
fn selected(facts: &Facts) -> impl Iterator<Item = &str> {
    facts.selected.iter().map(String::as_str).filter(|option| *option != REDACT)
}

fn is_redacted(facts: &Facts) -> bool {
    facts.selected.iter().any(|option| option == REDACT)
}

/// Where and why traces of processes end before the processes did.
pub fn truncations(facts: &Facts) -> Vec<String> {
    let truncated = |process: &ProcessFacts| {
        let (pid, references) = (process.pid, counted(process.references, "reference"));
        match process.lost.as_str() {
            "" if process.ended == Ended::Running => Some(format!(
                "the trace of process {pid} is a snapshot after {references}; the process went on"
            )),
            "" => None,
            why => {
                Some(format!("the trace of process {pid} is truncated after {references}: {why}"))
            }
        }
    };
    facts.processes.iter().filter_map(truncated).chain(facts.lost.iter().cloned()).collect()
}

fn json(trace: &MemoryTrace) -> Json {
    let facts = trace.facts();
    let processes = facts.processes.iter().map(|process| {
        json!({
            "rank": process.rank,
            "pid": process.pid,
            "image": process.image,
            "host": process.host,
            "program": process.program,
            "frontend": front_end(process),
            "threads": process.threads,
            "references": process.references,
            "ended": ended(process),
            "lost": process.lost,
            "basic_blocks": { "recorded": process.basic_blocks.0, "other": process.basic_blocks.1 },
        })
    });
    let groups = trace.merged().groups().iter().map(|group| triples(&group.ranks));
    json!({
        "path": trace.container().path().display().to_string(),
        "kind": "memory",
        "processes": facts.processes.len(),
        "threads": facts.threads(),
        "references": facts.references(),
        "bytes": bytes_of_trace(trace),
        "sections": sections(trace),
        "complete": is_complete(trace),
        "holds": holds(trace),
        "selected": selected(facts).collect::<Vec<_>>(),
        "redacted": is_redacted(facts),
        "lost": facts.lost,
        "raw": trace.has_raw(),
        "command": facts.command,
        "exit_code": facts.exit_code,
        "refrain": facts.refrain,
        "stages": {
            "intra_thread": facts.stages().intra_thread,
            "inter_thread": facts.stages().inter_thread,
            "inter_process": facts.stages().inter_process,
        },
        "groups": groups.collect::<Vec<_>>(),
        "process": processes.collect::<Vec<_>>(),
    })
}

/// Which references the trace has, as text.
fn holds(trace: &MemoryTrace) -> &'static str {
    let ends: BTreeSet<u32> = trace.facts().processes.iter().map(|p| p.front_end).collect();
    let has_libraries = trace.facts().selected.iter().any(|option| option == LIBRARIES);
    match ends.iter().next() {
        Some(&COMPILED) => "what the compiler instruments in code built by refrain cc or fc",
        _ if has_libraries => "every load and store of the program and its libraries",
        _ => "every load and store of the program's own code, not of its libraries",
    }
}

fn text(trace: &MemoryTrace) -> String {
    let facts = trace.facts();
    let mut text = String::new();
    let mut line =
        |name: &str, what: String| text += &format!("{name:10} {}\n", output::line(&what));
    let path = trace.container().path().display();
    line("trace", format!("{path}, memory references, written by Refrain {}", facts.refrain));
    line("command", facts.command.join(" "));
    let programs: BTreeSet<&str> = facts.processes.iter().map(|p| p.program.as_str()).collect();
    line("program", programs.into_iter().collect::<Vec<_>>().join(", "));
    line("holds", holds(trace).to_owned());
    line("processes", facts.processes.len().to_string());
    line("threads", facts.threads().to_string());
    line("references", grouped(facts.references()));
    let selected: Vec<&str> = selected(facts).collect();
    if !selected.is_empty() {
        line("selected", selected.join(" "));
    }
    if is_redacted(facts) {
        line("redacted", REDACTED_TEXT.to_owned());
    }
    let ends = facts.processes.iter().map(ended).fold(BTreeMap::new(), |mut ends, end| {
        *ends.entry(end).or_insert(0u64) += 1;
        ends
    });
    line("ended", ends.iter().map(|(end, n)| format!("{n} {end}")).collect::<Vec<_>>().join(", "));
    line("complete", if is_complete(trace) { "yes" } else { "no" }.to_owned());
    for truncation in truncations(facts) {
        line("truncated", truncation);
    }
    for hint in super::hints::hints(facts) {
        line("warning", hint);
    }
    let groups = trace.merged().groups();
    let lists: Vec<String> = groups.iter().map(|group| triples(&group.ranks)).collect();
    line(
        "groups",
        format!(
            "{} of processes and threads: processes {}",
            counted(groups.len() as u64, "group"),
            lists.join("; ")
        ),
    );
    let stages = facts.stages();
    if stages != Stages::default() {
        line(
            "stages",
            format!(
                "{:.3} s within threads, {:.3} s to merge threads, {:.3} s to merge processes",
                stages.intra_thread, stages.inter_thread, stages.inter_process
            ),
        );
    }
    let bytes = bytes_of_trace(trace);
    let parts = sections(trace);
    let parts: Vec<_> =
        parts.iter().map(|(name, bytes)| format!("{name} {}", size(*bytes))).collect();
    line("size", format!("{}: {}", size(bytes), parts.join(", ")));
    let raw = facts.references() * RAW;
    let ratio = raw as f64 / bytes.max(1) as f64;
    line("raw", format!("{} at {RAW} bytes a reference, {ratio:.1} times as much", size(raw)));
    text
}
