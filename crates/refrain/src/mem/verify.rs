//! `refrain verify` of a memory trace.

use crate::stdout::{print, print_json};
use crate::summary::{counted, grouped};
use anyhow::Result;
use refrain_memtrace::verify::{Comparison, compare};
use refrain_memtrace::{MemoryTrace, TraceError};
use serde_json::json;
use std::process::ExitCode;

/// Exit code if the trace is damaged or differs from the raw records.
const WRONG: u8 = 1;

#[derive(Default)]
struct Findings {
    sections: usize,
    decoded: u64,
    comparison: Option<Comparison>,
    problems: Vec<String>,
}

/// Checks a trace.
pub fn run(trace: &MemoryTrace, is_json: bool) -> Result<ExitCode> {
    let mut findings = Findings::default();
    findings.look_at(trace);
    match is_json {
        true => print_json(&findings.json(trace))?,
        false => print(&findings.text(trace))?,
    }
    Ok(if findings.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

impl Findings {
    fn look_at(&mut self, trace: &MemoryTrace) {
        let integrity = trace.container().verify();
        (self.sections, self.problems) = (integrity.intact, integrity.problems);
        if !self.problems.is_empty() {
            return;
        }
        let result = match trace.has_raw() {
            true => compare(trace).map(|comparison| self.compared(comparison)),
            false => self.decode(trace),
        };
        if let Err(error) = result {
            self.problems.push(error.to_string());
        }
        let promised = trace.facts().references();
        let in_trace = |c: &Comparison| c.equal + c.different + c.unmatched;
        let found = self.comparison.as_ref().map_or(self.decoded, in_trace);
        if found != promised {
            self.problems.push(format!(
                "{} promised, {} found",
                counted(promised, "reference"),
                grouped(found)
            ));
        }
    }

    fn compared(&mut self, comparison: Comparison) {
        if comparison.equal + comparison.different == 0 {
            self.problems.push("there are records, but no reference to compare in them".into());
        }
        if comparison.different > 0 {
            self.problems.push(format!("{} differ", counted(comparison.different, "reference")));
            self.problems.extend(comparison.differences.iter().cloned());
        }
        self.comparison = Some(comparison);
    }

    /// Without raw records: every reference of every thread must decode.
    fn decode(&mut self, trace: &MemoryTrace) -> Result<(), TraceError> {
        for number in 0..trace.facts().processes.len() as u32 {
            let process = trace.process(number)?;
            for thread in process.trace.threads() {
                for access in process.trace.references(thread) {
                    if let Err(error) = access {
                        let place = format!("process {number}, thread {thread}");
                        self.problems.push(format!("{place}: {error}"));
                        break;
                    }
                    self.decoded += 1;
                }
            }
        }
        Ok(())
    }

    fn json(&self, trace: &MemoryTrace) -> String {
        let comparison = self.comparison.as_ref();
        json!({
            "path": trace.container().path().display().to_string(),
            "ok": self.problems.is_empty(),
            "sections_checked": self.sections,
            "raw": comparison.is_some(),
            "references": comparison.map_or(self.decoded, |c| c.equal + c.different),
            "references_compared": comparison.map_or(0, |c| c.equal + c.different),
            "different": comparison.map_or(0, |c| c.different),
            "beyond": comparison.map_or(0, |c| c.beyond),
            "unmatched": comparison.map_or(0, |c| c.unmatched),
            "raw_bytes": comparison.map_or(0, |c| c.raw_bytes),
            "problems": self.problems,
        })
        .to_string()
    }

    fn text(&self, trace: &MemoryTrace) -> String {
        let mut text = format!("{} checked\n", counted(self.sections as u64, "section"));
        match &self.comparison {
            Some(c) => {
                text += &format!(
                    "{} compared with the raw records, {} different\n",
                    counted(c.equal + c.different, "reference"),
                    grouped(c.different)
                );
                if c.beyond > 0 {
                    let beyond = counted(c.beyond, "reference");
                    text +=
                        &format!("{beyond} more in the raw records, past the end of the trace\n");
                }
                if c.unmatched > 0 {
                    let unmatched = counted(c.unmatched, "reference");
                    text += &format!("{unmatched} not compared: the raw records are truncated\n");
                }
            }
            None => {
                text += &format!(
                    "{} decoded; there are no raw records to compare with (refrain mem --raw)\n",
                    counted(self.decoded, "reference")
                );
            }
        }
        for problem in &self.problems {
            text += &format!("wrong: {problem}\n");
        }
        if self.problems.is_empty() {
            text += &format!("{} is right\n", trace.container().path().display());
        }
        for remark in super::info::truncations(trace.facts()) {
            text += &format!("remark: {remark}\n");
        }
        text
    }
}
