//! Findings as text, JSON and annotations.

use super::prove::Proof;
use super::suppressions::Suppressions;
use crate::select::ranks_in_words;
use crate::summary::counted;
use anyhow::Result;
use refrain_analysis::sites::Sites;
use refrain_check::{Finding, Place, Severity};
use refrain_reader::CallTrace;
use serde::Serialize;

/// A call that a finding names.
#[derive(Serialize)]
pub struct PlaceRow {
    pub rank: i32,
    pub thread: u32,
    pub call: u64,
    pub function: String,
    /// The function of the program that makes the call.
    #[serde(rename = "in")]
    pub within: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The call site in words, if call sites were recorded.
    #[serde(skip)]
    pub site: Option<String>,
}

/// A finding.
#[derive(Serialize)]
pub struct Row {
    pub class: &'static str,
    pub severity: &'static str,
    pub message: String,
    pub remedy: &'static str,
    pub ranks: Vec<i32>,
    pub times: u64,
    pub places: Vec<PlaceRow>,
    /// What came of forcing it (`--prove`).
    pub proof: Option<Proof>,
}

/// What was found.
#[derive(Serialize)]
pub struct Outcome {
    pub findings: Vec<Row>,
    pub suppressed: usize,
    /// Why the job was ended, if it hung.
    pub hung: Option<String>,
    /// What could not be checked, and why.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Symbolizes findings and leaves out suppressed ones.
    pub fn of(
        trace: &CallTrace,
        (found, proofs): (Vec<Finding>, Vec<Option<Proof>>),
        suppressions: &Suppressions,
        hung: Option<String>,
    ) -> Outcome {
        let mut sites = Sites::recorded_at(trace.meta().time.0);
        let rows = found.into_iter().zip(proofs);
        let all: Vec<Row> =
            rows.map(|(finding, proof)| Row { proof, ..row(finding, &mut sites) }).collect();
        let total = all.len();
        let findings: Vec<Row> = all.into_iter().filter(|row| !suppressions.cover(row)).collect();
        let mut notes = Vec::new();
        if findings.iter().any(|row| row.places.iter().all(|place| place.site.is_none())) {
            notes.push(
                "call sites were not recorded: trace with --callsite return to see lines"
                    .to_owned(),
            );
        }
        let left_out = trace.meta().left_out();
        if !left_out.is_empty() {
            let why = left_out.join(", ");
            notes.push(format!("not all calls are recorded ({why}): only arguments were checked"));
        }
        let has_threads = trace.processes().any(|process| process.tasks().len() > 1);
        if has_threads {
            notes.push(
                "several threads of a rank call MPI: what depends on the order of their calls was not checked"
                    .to_owned(),
            );
        }
        Outcome { suppressed: total - findings.len(), findings, hung, notes }
    }
}

fn row(finding: Finding, sites: &mut Sites) -> Row {
    Row {
        class: finding.class.name(),
        severity: finding.class.severity().name(),
        remedy: finding.class.remedy(),
        message: finding.message,
        ranks: finding.ranks.into_iter().collect(),
        times: finding.times,
        places: finding.places.iter().map(|place| place_row(place, sites)).collect(),
        proof: None,
    }
}

fn place_row(place: &Place, sites: &mut Sites) -> PlaceRow {
    let frames = place.site.as_ref().map(|site| sites.frames(site));
    // The innermost frame with a line: an MPI wrapper of the program's libraries may have none.
    let frame = frames.as_ref().and_then(|frames| {
        frames.iter().find(|frame| frame.line.is_some()).or_else(|| frames.first())
    });
    PlaceRow {
        rank: place.rank,
        thread: place.thread,
        call: place.number,
        function: place.function.to_string(),
        within: frame.and_then(|frame| frame.function.clone()),
        file: frame.and_then(|frame| frame.file.clone()),
        line: frame.and_then(|frame| frame.line),
        site: frame.map(|frame| frame.text()),
    }
}

/// The findings as text.
pub fn as_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for row in &outcome.findings {
        text += &format!("{}: {}: {}\n", row.severity, row.class, row.message);
        for place in &row.places {
            let site = place.site.as_ref().map_or(String::new(), |site| format!("  at {site}"));
            text += &format!("  rank {}  #{} {}{site}\n", place.rank, place.call, place.function);
        }
        if row.times > 1 {
            text += &format!(
                "  found {}, on {}\n",
                counted(row.times, "time"),
                ranks_in_words(&row.ranks)
            );
        }
        if let Some(Proof { proven, what }) = &row.proof {
            text += &format!("  {}: {what}\n", if *proven { "proven" } else { "not proven" });
        }
        text += &format!("  {}\n\n", row.remedy);
    }
    for note in &outcome.notes {
        text += &format!("note: {note}\n");
    }
    if let Some(why) = &outcome.hung {
        text += &format!("note: the job was ended: {why}\n");
    }
    let count = |severity: Severity| {
        outcome.findings.iter().filter(|row| row.severity == severity.name()).count() as u64
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let suppressed = match outcome.suppressed {
        0 => String::new(),
        n => format!(", {n} suppressed"),
    };
    text += &match (errors, warnings) {
        (0, 0) => format!("no findings{suppressed}\n"),
        _ => {
            format!("{}, {}{suppressed}\n", counted(errors, "error"), counted(warnings, "warning"))
        }
    };
    text
}

/// The findings as one JSON object.
pub fn as_json(outcome: &Outcome) -> Result<String> {
    Ok(serde_json::to_string_pretty(outcome)?)
}

/// The findings as workflow commands of GitHub Actions.
pub fn as_github(outcome: &Outcome) -> String {
    let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| escaped(text).replace(':', "%3A").replace(',', "%2C");
    let line = |row: &Row| {
        let place = row.places.iter().find(|place| place.file.is_some());
        let place = place.and_then(|place| Some((place.file.as_ref()?, place.line?)));
        let at = place
            .map_or(String::new(), |(file, line)| format!("file={},line={line},", property(file)));
        let ranks = ranks_in_words(&row.ranks);
        let text = escaped(&format!("{} ({ranks}) {}", row.message, row.remedy));
        format!("::{} {at}title={}::{text}\n", row.severity, property(row.class))
    };
    outcome.findings.iter().map(line).collect()
}
