//! The facts that commands print about golden traces stay the same, even if the wording changes.
//!
//! For each command and golden file, `tests/snapshots` has the output of the release that introduced the
//! snapshot: JSON completely, and of text only the *facts*: every word that has a digit or is the
//! name of an MPI function. A later release may change other words and may print more, but it must
//! print every fact at least as often. `REFRAIN_SNAPSHOT=new` writes missing snapshots and never
//! changes an existing one.

use refrain_testing::{refrain_binary, workspace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Golden files of call traces.
pub const CALLS: &[&str] = &["stencil", "sites-times", "raw", "threads-calls", "killed", "keyed"];
/// Golden files of receive orders.
const ORDERS: &[&str] = &["particles-v1", "particles-v2", "threads-v1", "clock-order"];
/// Golden files of memory references.
const MEMORY: &[&str] = &[
    "compiled-v1",
    "compiled-v2",
    "dynamorio-v1",
    "dynamorio-v2",
    "ranks-v1",
    "ranks-v2",
    "sealed-v1",
    "sealed-v2",
];

/// The path of a golden file, in whichever crate it is.
pub fn golden(file: &str) -> PathBuf {
    let crates = fs::read_dir(workspace().join("crates")).unwrap();
    crates
        .map(|entry| entry.unwrap().path().join("tests/golden").join(file))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no crate has tests/golden/{file}"))
}

/// The words of a text that are facts, with how often each occurs. Punctuation around a word is ignored.
fn facts(text: &str) -> BTreeMap<String, usize> {
    let mut facts = BTreeMap::new();
    for word in text.split_whitespace() {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-');
        if word.starts_with("MPI_") || word.contains(|c: char| c.is_ascii_digit()) {
            *facts.entry(word.to_owned()).or_default() += 1;
        }
    }
    facts
}

fn listed(facts: &BTreeMap<String, usize>) -> String {
    facts.iter().map(|(fact, count)| format!("{count} {fact}\n")).collect()
}

/// Runs commands in a folder with copies of golden files, and compares their output with snapshots.
struct Snapshots {
    folder: tempfile::TempDir,
    compared: usize,
    failures: Vec<String>,
}

impl Snapshots {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, compared: 0, failures: Vec::new() }
    }

    fn bring(&self, name: &str) -> String {
        let file = format!("{name}.refrain");
        fs::copy(golden(&file), self.folder.path().join(&file)).unwrap();
        file
    }

    fn compare(&mut self, args: &[&str]) {
        let output = Command::new(refrain_binary())
            .args(args)
            .current_dir(self.folder.path())
            // Symbols of this machine's libraries are not facts of the trace.
            .env("REFRAIN_DEBUG_DIRECTORIES", "/nowhere")
            .output()
            .expect("refrain runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let code = output.status.code();
        let is_json = args.contains(&"--json");
        let said = if is_json {
            stdout.to_string()
        } else {
            format!("exit {code:?}\n{}", listed(&facts(&stdout)))
        };
        let name = args.join("_").replace("--", "").replace(".refrain", "");
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/snapshots")
            .join(format!("{name}.{}", if is_json { "json" } else { "facts" }));
        if !file.exists() && env::var_os("REFRAIN_SNAPSHOT").is_some_and(|value| value == "new") {
            fs::write(&file, &said).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!("{}: {error}; REFRAIN_SNAPSHOT=new writes it", file.display())
        });
        self.compared += 1;
        let missing = if is_json {
            missing_lines(&expected, &said)
        } else {
            missing_facts(&expected, code, &stdout)
        };
        if !missing.is_empty() {
            self.failures.push(format!(
                "refrain {} no longer says:\n{}\nIt says:\n{}{}",
                args.join(" "),
                missing.join("\n"),
                stdout,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }

    fn check(self, least: usize) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n\n"));
        assert!(self.compared >= least, "only {} comparisons", self.compared);
    }
}

/// Lines of JSON that are expected at the same position, with at least the same keys and values.
fn missing_lines(expected: &str, said: &str) -> Vec<String> {
    if let (Ok(expected_value), Ok(said_value)) =
        (serde_json::from_str(expected), serde_json::from_str(said))
    {
        return if holds(&said_value, &expected_value) {
            Vec::new()
        } else {
            vec![expected.to_owned()]
        };
    }
    let mut said = said.lines();
    expected
        .lines()
        .filter(|line| {
            let value: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
            let now = said.next().map(|line| serde_json::from_str(line).expect("a line of JSON"));
            !now.is_some_and(|now| holds(&now, &value))
        })
        .map(str::to_owned)
        .collect()
}

/// Whether a value has everything that the expected one has: objects may have more keys, and sentences may have
/// other words.
fn holds(now: &serde_json::Value, expected: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Object, String};
    match (now, expected) {
        (Object(now), Object(expected)) => {
            expected.iter().all(|(key, value)| now.get(key).is_some_and(|now| holds(now, value)))
        }
        (Array(now), Array(expected)) => {
            now.len() == expected.len() && now.iter().zip(expected).all(|(a, b)| holds(a, b))
        }
        (String(now), String(expected)) if expected.contains(' ') => {
            let now = facts(now);
            facts(expected).iter().all(|(fact, count)| now.get(fact).is_some_and(|n| n >= count))
        }
        _ => now == expected,
    }
}

fn missing_facts(expected: &str, code: Option<i32>, said: &str) -> Vec<String> {
    let said = facts(said);
    let mut lines = expected.lines();
    let mut missing = Vec::new();
    let exit = format!("exit {code:?}");
    if lines.next() != Some(&exit) {
        missing.push(format!("another exit code than {code:?}"));
    }
    for line in lines {
        let (count, fact) = line.split_once(' ').expect("a count and a fact");
        let count: usize = count.parse().expect("a count");
        if said.get(fact).is_none_or(|now| *now < count) {
            missing.push(line.to_owned());
        }
    }
    missing
}

#[test]
fn call_traces_show_the_same_facts_as_when_they_were_made() {
    let mut snapshots = Snapshots::new();
    for name in CALLS {
        let file = &snapshots.bring(name);
        snapshots.compare(&["info", file]);
        snapshots.compare(&["info", file, "--json"]);
        snapshots.compare(&["stats", file]);
        snapshots.compare(&["stats", file, "--json"]);
        snapshots.compare(&["verify", file]);
        snapshots.compare(&["show", file, "--limit", "400"]);
        snapshots.compare(&["show", file, "--rank", "1", "--notes", "--limit", "300", "--json"]);
    }
    snapshots.compare(&["show", "stencil.refrain", "--structure"]);
    snapshots.compare(&["show", "stencil.refrain", "--structure", "--json"]);
    snapshots.compare(&["show", "sites-times.refrain", "--times", "--limit", "200"]);
    snapshots.compare(&["show", "raw.refrain", "--times", "--limit", "200"]);
    snapshots.check(46);
}

#[test]
fn receive_orders_show_the_same_facts_as_when_they_were_made() {
    let mut snapshots = Snapshots::new();
    for name in ORDERS {
        let file = &snapshots.bring(name);
        snapshots.compare(&["info", file]);
        snapshots.compare(&["info", file, "--json"]);
        snapshots.compare(&["verify", file]);
        snapshots.compare(&["show", file, "--limit", "300"]);
        snapshots.compare(&["show", file, "--limit", "300", "--json"]);
        snapshots.compare(&["races", file]);
    }
    snapshots.compare(&["diff", "particles-v1.refrain", "particles-v2.refrain"]);
    snapshots.compare(&["diff", "particles-v2.refrain", "particles-v2.refrain"]);
    snapshots.check(26);
}

#[test]
fn memory_traces_show_the_same_facts_as_when_they_were_made() {
    let mut snapshots = Snapshots::new();
    for name in MEMORY {
        let file = &snapshots.bring(name);
        snapshots.compare(&["info", file]);
        snapshots.compare(&["info", file, "--json"]);
        snapshots.compare(&["verify", file]);
        snapshots.compare(&["show", file, "--limit", "200"]);
        snapshots.compare(&["show", file, "--limit", "200", "--json"]);
        // Structures of sealed traces were incomplete when the snapshots were made.
        if !name.starts_with("sealed") {
            snapshots.compare(&["show", file, "--structure"]);
        }
    }
    snapshots.check(46);
}

#[test]
fn a_hung_job_is_explained_with_the_same_facts_as_when_it_was_recorded() {
    let mut snapshots = Snapshots::new();
    let file = &snapshots.bring("hung");
    snapshots.compare(&["where", file]);
    snapshots.compare(&["where", file, "--json"]);
    snapshots.check(2);
}
