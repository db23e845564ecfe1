//! `refrain cache` and `refrain sharing` on recorded programs.

use crate::memory_recorded::FrontEnd::{self, Compiled};
use crate::memory_recorded::{Recorded, build, record, succeed};
use naive::Naive;
use refrain_cache::{Counts, Geometry, Options, Policy, simulate};
use refrain_memory::Turns;
use refrain_memtrace::MemoryTrace;
use refrain_testing::{require, require_program, workspace};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[path = "../../../refrain-cache/tests/it/naive.rs"]
mod naive;

fn json(recorded: &Recorded, words: &[&str]) -> Json {
    let (is_right, text) = recorded.refrain(words);
    assert!(is_right, "{words:?}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
}

fn count(value: &Json) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The lines of a source that end with a comment.
fn marked(source: &str, mark: &str) -> Vec<String> {
    let text = std::fs::read_to_string(workspace().join("tests/memory").join(source)).unwrap();
    let comment = format!("/* {mark} */");
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.ends_with(&comment));
    lines.map(|(number, _)| format!("{source}:{number}")).collect()
}

const KINDS: [&str; 8] =
    ["counters", "fields", "arrays", "reduction", "tasks", "edges", "neighbours", "ring"];

#[test]
fn false_sharing_is_found_and_padding_has_none() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sharing.c", Some(Compiled));
    for kind in KINDS {
        let recorded = record(&program, &[kind], Compiled, 4, &[]);
        let found = json(&recorded, &["sharing", "--json"]);
        let lines = marked("sharing.c", kind);
        let rows = found.as_array().expect("an array");
        assert!(!rows.is_empty(), "{kind}: nothing found");
        for row in rows {
            assert_eq!(row["false"], true, "{kind}: {row}");
            assert!(row["remedy"].is_string(), "{kind}: {row}");
            for side in ["writer", "other"] {
                let site = row[side]["site"].as_str().expect("a site");
                // In the ring, the other index may also be read.
                let is_right = lines.iter().any(|line| line == site);
                let is_ring = kind == "ring" && side == "other";
                assert!(is_right || is_ring, "{kind}: {side} at {site}, not {lines:?}");
            }
            assert_ne!(row["writer"]["thread"], row["other"]["thread"], "{kind}");
        }
        let recorded = record(&program, &[kind, "padded"], Compiled, 4, &[]);
        let found = json(&recorded, &["sharing", "--json"]);
        assert_eq!(found, Json::Array(Vec::new()), "{kind}, padded");
        assert_eq!(recorded.refrain(&["sharing"]).1, "no false sharing\n");
    }
}

#[test]
fn remedies_fit() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sharing.c", Some(Compiled));
    for (kind, words) in [
        ("counters", "pad what each thread has from 8 bytes to 64"),
        ("edges", "chunks of a multiple of 8 elements of 8 bytes"),
        ("neighbours", "align both to 64 bytes"),
    ] {
        let recorded = record(&program, &[kind], Compiled, 4, &[]);
        let text = recorded.refrain(&["sharing"]).1;
        assert!(text.contains(words), "{kind}: {text}");
    }
}

#[test]
fn misses_are_counted_by_level_line_section_and_loop() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", Some(Compiled));
    let recorded = record(&program, &["96"], Compiled, 1, &[]);
    let caches = ["--l1", "4k:4", "--l2", "32k:8", "--l3", "1m:16:shared"];
    let of = |more: &[&str]| json(&recorded, &[&["cache", "--json"], &caches[..], more].concat());
    let (warped, every) = (of(&[]), of(&["--every"]));
    let (warped, every) = (&warped[0], &every[0]);
    assert_eq!(warped["levels"], every["levels"]);
    assert_eq!(warped["sites"], every["sites"]);
    assert_eq!(every["simulated"], every["accesses"]);
    assert!(4 * count(&warped["simulated"]) < 3 * count(&every["simulated"]), "{warped}");
    let sites = warped["sites"].as_array().expect("sites");
    let sum: u64 = sites.iter().map(|site| count(&site["levels"][0]["misses"])).sum();
    assert_eq!(sum, count(&warped["levels"][0]["misses"]));
    // The column of `b` misses the first level each time.
    let most = sites.iter().max_by_key(|site| count(&site["levels"][0]["misses"])).unwrap();
    assert!(count(&most["levels"][0]["misses"]) > 800_000, "{most}");
    assert_eq!(most["site"], "matmul.c:20");
    assert!(most["in_loop"].as_str().is_some_and(|line| line.starts_with("matmul.c:")), "{most}");
    assert!(most["section"].as_str().is_some_and(|s| s.contains("73,728 bytes")), "{most}");
    for by in ["line", "function", "section", "loop"] {
        let (is_right, text) = recorded.refrain(&["cache", "--l1", "4k:4", "--by", by]);
        assert!(is_right && text.contains(by) && text.contains("L1"), "{text}");
    }
    let reuse = of(&["--reuse"]);
    let distances = reuse[0]["reuse"]["distances"].as_array().expect("distances");
    let repeated: u64 = distances.iter().map(|pair| count(&pair[1])).sum();
    assert_eq!(repeated + count(&reuse[0]["reuse"]["first"]), count(&reuse[0]["accesses"]));
}

/// The naive simulator sees every reference of the recorded program.
#[test]
fn real_programs_have_the_misses_of_a_naive_simulator() {
    let folder = TempDir::new().expect("a folder");
    let levels = ["1k:4", "8k:8", "64k:16:shared"].map(|level| level.parse().expect("a level"));
    let geometry = Geometry::new(levels.to_vec(), 64, Policy::Lru).expect("a hierarchy");
    for (victim, args, all) in [
        ("vector_add.c", &["3000"][..], &[1, 5][..]),
        ("matmul.c", &["32"], &[1, 2, 8]),
        ("jacobi.c", &["40", "6"], &[1, 3, 8]),
        ("spmv.c", &["600", "2"], &[1, 4]),
        ("triangular.c", &[], &[1]),
        ("sorting.c", &[], &[1]),
        ("lists.c", &[], &[1]),
    ] {
        let program = build(folder.path(), victim, Some(Compiled));
        for &count in all {
            let recorded = record(&program, args, Compiled, count, &[]);
            let trace = MemoryTrace::open(&recorded.trace).expect("a trace");
            let process = trace.process(0).expect("a process");
            let (trace, threads) = (&process.trace, process.trace.threads());
            let turns = Turns::RoundRobin(3);
            let mut naive = Naive::new(&geometry, threads.len());
            for access in trace.interleaved(&threads, turns) {
                let (thread, access) = access.expect("a reference");
                let core = threads.iter().position(|other| *other == thread).expect("its thread");
                naive.reference(core, access);
            }
            let options = Options { turns, warp: true, reuse: false };
            let report = simulate(trace, &threads, &geometry, options).expect("a simulation");
            let mut ours: BTreeMap<u64, Counts> = BTreeMap::new();
            for (site, counts) in &report.sites {
                let references = trace.blocks.get(site.block).expect("a block");
                *ours.entry(references[site.reference as usize].pc).or_default() += *counts;
            }
            assert_eq!(ours, naive.counts, "{victim} with {count} threads");
        }
    }
}

#[test]
fn threads_that_share_lines_have_coherence_misses() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sharing.c", Some(Compiled));
    let misses = |args: &[&str]| {
        let recorded = record(&program, args, Compiled, 4, &[]);
        let of = json(&recorded, &["cache", "--json"]);
        count(&of[0]["levels"][0]["coherence"])
    };
    assert!(misses(&["counters"]) > 1_000);
    assert!(misses(&["counters", "padded"]) < 100);
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "vector_add.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 1, &[]);
    for words in [
        &["cache", "--l1", "33k:8"][..],
        &["cache", "--l1", "32k"],
        &["cache", "--turns", "0"],
        &["cache", "--line", "60"],
        &["sharing", "--line", "256"],
    ] {
        let mut command = Command::new(refrain_testing::refrain_binary());
        let output = command.arg(words[0]).arg(&recorded.trace).args(&words[1..]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    }
}

/// Misses of cachegrind: first level, last level (reads and writes of data).
fn cachegrind(folder: &Path, program: &Path, args: &[&str], from: &str) -> (f64, f64) {
    let file = folder.join("cachegrind.out");
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64"]);
    command.arg("--LL=1048576,16,64").arg(format!("--cachegrind-out-file={}", file.display()));
    succeed(command.arg(program).args(args).env("OMP_NUM_THREADS", "1"));
    let text = std::fs::read_to_string(&file).expect("cachegrind's file");
    let (mut names, mut first, mut last) = (Vec::new(), 0.0, 0.0);
    let mut is_ours = false;
    for line in text.lines() {
        if let Some(events) = line.strip_prefix("events: ") {
            names = events.split_whitespace().map(str::to_owned).collect();
        } else if let Some(name) = line.strip_prefix("fn=") {
            is_ours = name.contains(from);
        } else if is_ours && line.starts_with(|c: char| c.is_ascii_digit()) {
            for (name, value) in names.iter().zip(line.split_whitespace().skip(1)) {
                let value: f64 = value.parse().expect("a number");
                match name.as_str() {
                    "D1mr" | "D1mw" => first += value,
                    "DLmr" | "DLmw" => last += value,
                    _ => {}
                }
            }
        }
    }
    (first, last)
}

#[test]
fn misses_are_those_of_cachegrind() {
    let Some(_) = require_program("valgrind") else { return };
    let folder = TempDir::new().expect("a folder");
    let front_ends = FrontEnd::all();
    let Some(front_end) = require("dynamorio", front_ends.last().filter(|f| **f != Compiled))
    else {
        return;
    };
    for (victim, args) in [
        ("matmul.c", &["150"][..]),
        ("jacobi.c", &["300", "4"]),
        ("spmv.c", &["20000", "2"]),
        ("fft.c", &["15"]),
    ] {
        let program = build(folder.path(), victim, None);
        let (first, last) = cachegrind(folder.path(), &program, args, "main");
        let recorded = record(&program, args, *front_end, 1, &[]);
        let of = json(&recorded, &["cache", "--json", "--l1", "32k:8", "--l2", "1m:16"]);
        let level = |level: usize| count(&of[0]["levels"][level]["misses"]) as f64;
        for (ours, theirs, what) in [(level(0), first, "L1"), (level(1), last, "LL")] {
            let off = (ours - theirs).abs() / theirs;
            println!("{victim} {what}: {ours} here, {theirs} by cachegrind, {:.2} %", 100.0 * off);
            assert!(off < 0.02, "{victim} {what}: {ours} here, {theirs} by cachegrind");
        }
    }
}

/// Dinero IV may not be distributed with Refrain: `REFRAIN_DINERO` names its program.
#[test]
fn misses_are_exactly_those_of_dinero() {
    let program = std::env::var_os("REFRAIN_DINERO").filter(|path| Path::new(path).exists());
    let Some(dinero) = require("dinero", program) else { return };
    let folder = TempDir::new().expect("a folder");
    for (victim, args) in [
        ("matmul.c", &["60"][..]),
        ("jacobi.c", &["100", "4"]),
        ("spmv.c", &["3000", "2"]),
        ("sorting.c", &[]),
        ("lists.c", &[]),
        ("fft.c", &["11"]),
    ] {
        let program = build(folder.path(), victim, Some(Compiled));
        let recorded = record(&program, args, Compiled, 1, &[]);
        let (is_right, din) = recorded.refrain(&["show", "--format", "din"]);
        assert!(is_right);
        let din = folded(&din);
        // Dinero's stores that miss write lines back, which Refrain does not count as accesses.
        let reads = din.replace("w ", "r ");
        let file = folder.path().join("references.din");
        for (text, levels) in [(din, &["4k:4"][..]), (reads, &["4k:4", "16k:8", "128k:16"])] {
            std::fs::write(&file, &text).expect("references");
            let mut words = vec!["cache", "--json"];
            let mut command = Command::new(&dinero);
            command.args(["-informat", "D"]);
            for (at, level) in levels.iter().enumerate() {
                let (size, ways) = level.split_once(':').expect("size and ways");
                words.extend([["--l1", "--l2", "--l3"][at], *level]);
                let kind = if at == 0 { "d" } else { "u" };
                let name = format!("-l{}-{kind}", at + 1);
                for (option, value) in [("size", size), ("assoc", ways), ("bsize", "64")] {
                    command.arg(format!("{name}{option}")).arg(value);
                }
                command.arg(format!("{name}ccc"));
            }
            let of = json(&recorded, &words);
            let output = succeed(command.stdin(std::fs::File::open(&file).expect("references")));
            let theirs = dinero_misses(&String::from_utf8_lossy(&output.stdout));
            assert_eq!(theirs.len(), levels.len(), "{victim}");
            for (level, theirs) in theirs.iter().enumerate() {
                let ours = &of[0]["levels"][level];
                let ours =
                    ["misses", "cold", "capacity", "conflict"].map(|name| count(&ours[name]));
                assert_eq!(&ours, theirs, "{victim}, level {}", level + 1);
            }
        }
    }
}

/// Dinero's addresses have 32 bits. So stretches of 2 MiB, more than a level's sets take, are numbered anew.
fn folded(din: &str) -> String {
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let mut text = String::with_capacity(din.len());
    for line in din.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, address, size] = words[..] else { panic!("{line}") };
        let address = u64::from_str_radix(address, 16).expect("an address");
        let next = numbers.len();
        let number = *numbers.entry(address >> 21).or_insert(next) as u64;
        text += &format!("{kind} {:x} {size}\n", (number << 21) | (address & 0x1f_ffff));
    }
    text
}

/// Of each cache: demand misses; of these compulsory, capacity and conflict misses.
fn dinero_misses(text: &str) -> Vec<[u64; 4]> {
    let total = |line: &str| -> u64 {
        let mut words = line.split_whitespace().skip_while(|word| word.parse::<f64>().is_err());
        words.next().and_then(|word| word.parse::<f64>().ok()).map_or(0, |value| value as u64)
    };
    let mut all = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Demand Misses") {
            all.push([total(line), 0, 0, 0]);
        }
        for (at, name) in [(1, "Compulsory misses"), (2, "Capacity misses"), (3, "Conflict misses")]
        {
            if let (true, Some(last)) = (line.starts_with(name), all.last_mut()) {
                last[at] = total(line);
            }
        }
    }
    all
}
