//! `make bench`: measures Refrain on this machine, and stores the raw results in `bench/runs`.
//!
//! Machines are noisy, so plain and traced runs alternate, and the cost per call is the least of
//! all repeats. A figure that Refrain promises is printed with its bound. If a bound is missed, the
//! exit code is 1.
//!
//! Parts of it:
//!
//! - `refrain-bench calls`: cost of traced calls and of whole runs
//! - `refrain-bench coupled [PROGRAM]`: what jobs pay whose ranks wait for each other
//! - `refrain-bench encode TRACE…`: what it costs to encode the records of traces made with `--raw`
//! - `refrain-bench stalls [PROGRAM]`: how long the agent delays a program at a time
//! - `refrain-bench ends`: the start of ranks, the time after the program, `refrain verify`
//! - `refrain-bench sizes`: sizes of traces
//! - `refrain-bench nests`: sizes of traces of irregular programs
//! - `refrain-bench nas`: whether traces of the NAS Parallel Benchmarks are exact
//! - `refrain-bench histograms`: sizes of traces with histograms, by steps and ranks
//! - `refrain-bench nest-speed`: time and memory to fold grammars into loop nests
//! - `refrain-bench ablation`: what each step of folding is worth
//! - `refrain-bench times`: cost and size of the times of calls
//! - `refrain-bench order`: records of receive orders (causal method)
//! - `refrain-bench clock`: records of receive orders (clock method)
//! - `refrain-bench memory`: memory traces
//! - `refrain-bench cache [SIZES…]`: caches simulated on loop nests
//! - `refrain-bench check`: how fast errors are searched for in a long trace
//! - `refrain-bench scale [tasks…] [patterns…]`: the merge of simulated tasks
//! - `refrain-bench walk`: memory needed to read thousands of ranks

mod ablation;
mod cache;
mod checking;
mod clock;
mod coupled;
mod encode;
mod ends;
mod histograms;
mod irregular;
mod memory;
mod nas;
mod nest_speed;
mod nests;
mod order;
mod per_call;
mod runs;
mod scale;
mod simulated;
mod sizes;
mod stall_model;
mod stalls;
mod times;
mod walk;
mod whole;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A measured figure with its bound.
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The measurements behind it, in words.
    pub detail: String,
    /// The figure.
    pub value: f64,
    /// The most that it may be.
    pub bound: f64,
    /// Its unit.
    pub unit: &'static str,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        None => {
            let heading = machine();
            let mut figures = per_call::measure();
            figures.extend(times::measure());
            figures.extend(whole::measure());
            figures.extend(sizes::measure());
            figures.extend(order::measure());
            let (mut tables, clock) = clock::measure(true);
            figures.extend(clock);
            let (more, memory) = memory::measure();
            tables += &more;
            figures.extend(memory);
            print!("{heading}{tables}");
            report(heading + &tables, figures, "")
        }
        Some((word, [])) if word == "calls" => {
            let heading = machine();
            print!("{heading}");
            let mut figures = per_call::measure();
            figures.extend(whole::measure());
            report(heading, figures, "calls-")
        }
        Some((word, rest)) if word == "coupled" && rest.len() < 2 => {
            let heading = machine();
            print!("{heading}");
            report(heading, coupled::measure(rest.first().map_or("", String::as_str)), "coupled-")
        }
        Some((word, rest)) if word == "encode" => {
            let heading = machine();
            print!("{heading}");
            report(heading, encode::measure(rest), "encode-")
        }
        Some((word, rest)) if word == "stalls" && rest.len() < 2 => {
            let heading = machine();
            print!("{heading}");
            let (tables, figures) = stalls::measure(rest.first().map_or("", String::as_str));
            print!("{tables}");
            report(heading + &tables, figures, "stalls-")
        }
        Some((word, [])) if word == "ends" => {
            let heading = machine();
            print!("{heading}");
            report(heading, ends::measure(), "ends-")
        }
        Some((word, [])) if word == "sizes" => {
            let heading = machine();
            print!("{heading}");
            report(heading, sizes::measure(), "sizes-")
        }
        Some((word, [])) if word == "nests" => {
            let heading = machine();
            print!("{heading}");
            report(heading, nests::measure(), "nests-")
        }
        Some((word, [])) if word == "nas" => {
            let heading = machine();
            print!("{heading}");
            report(heading, nas::measure(), "nas-")
        }
        Some((word, [])) if word == "histograms" => {
            let heading = machine();
            print!("{heading}");
            report(heading, histograms::measure(), "histograms-")
        }
        // `histograms` starts itself in this way, once for each simulated job.
        Some((word, [name, tasks])) if word == "histogram-one" => {
            histograms::measure_one(name, tasks.parse().unwrap_or(0));
            ExitCode::SUCCESS
        }
        Some((word, [])) if word == "nest-speed" => {
            let heading = machine();
            print!("{heading}");
            report(heading, nest_speed::measure(), "nest-speed-")
        }
        // `nest-speed` starts itself in this way, once for each sequence.
        Some((word, [case])) if word == "nest-one" => {
            nest_speed::measure_one(case.parse().unwrap_or(0));
            ExitCode::SUCCESS
        }
        Some((word, [])) if word == "ablation" => {
            let heading = machine();
            print!("{heading}");
            let (table, figures) = ablation::measure();
            print!("{table}");
            report(heading + &table, figures, "ablation-")
        }
        Some((word, [])) if word == "memory" => {
            let heading = machine();
            print!("{heading}");
            let (tables, figures) = memory::measure();
            print!("{tables}");
            report(heading + &tables, figures, "memory-")
        }
        Some((word, rest)) if word == "scale" => {
            let (numbers, names): (Vec<String>, Vec<String>) =
                rest.iter().cloned().partition(|word| word.parse::<u32>().is_ok());
            let mut tasks: Vec<u32> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
            if tasks.is_empty() {
                tasks = scale::TASKS.to_vec();
            }
            let heading = machine();
            print!("{heading}");
            let (table, mut figures) = scale::measure(&tasks, &names);
            if names.is_empty() {
                figures.extend(walk::measure());
            }
            report(heading + &table, figures, "scale-")
        }
        Some((word, [])) if word == "order" => {
            let heading = machine();
            print!("{heading}");
            report(heading, order::measure(), "order-")
        }
        Some((word, rest)) if word == "clock" && rest.iter().all(|word| word == "sizes") => {
            let heading = machine();
            print!("{heading}");
            let (tables, figures) = clock::measure(rest.is_empty());
            print!("{tables}");
            report(heading + &tables, figures, "clock-")
        }
        Some((word, [])) if word == "times" => {
            let heading = machine();
            print!("{heading}");
            let (tables, mut figures) = times::tables();
            print!("{tables}");
            figures.extend(times::measure());
            report(heading + &tables, figures, "times-")
        }
        // `scale` starts itself in this way, once for each pattern.
        Some((word, [name, tasks])) if word == "scale-one" => {
            scale::measure_one(name, tasks.parse().unwrap_or(0));
            ExitCode::SUCCESS
        }
        Some((word, sizes))
            if word == "cache" && sizes.iter().all(|n| n.parse::<u64>().is_ok()) =>
        {
            let heading = machine();
            print!("{heading}");
            let sizes: Vec<u64> = sizes.iter().filter_map(|n| n.parse().ok()).collect();
            let sizes = if sizes.is_empty() { vec![100, 300, 1000, 2000] } else { sizes };
            let (table, figures) = cache::measure(&sizes);
            print!("{table}");
            report(heading + &table, figures, "cache-")
        }
        Some((word, [])) if word == "check" => {
            let heading = machine();
            print!("{heading}");
            report(heading, checking::measure(), "check-speed-")
        }
        Some((word, [case, part, path])) if word == "check-make" => {
            let number = |word: &String| word.parse().unwrap_or(0);
            checking::make_one(number(case), number(part) as u64, path.as_ref());
            ExitCode::SUCCESS
        }
        Some((word, [])) if word == "walk" => {
            let heading = machine();
            print!("{heading}");
            report(heading, walk::measure(), "walk-")
        }
        Some((word, [name, path])) if word == "walk-make" => {
            walk::make(name, path.as_ref(), walk::RANKS);
            ExitCode::SUCCESS
        }
        Some((word, [path])) if word == "walk-one" => {
            walk::walk(path.as_ref());
            ExitCode::SUCCESS
        }
        Some(_) => {
            eprintln!(
                "usage: refrain-bench [calls | coupled [PROGRAM] | stalls [PROGRAM] | ends | sizes | nests | nas | histograms | nest-speed | ablation | times | order | clock [sizes] | memory | cache [SIZES…] | check | walk | scale [TASKS…] [PATTERNS…]]"
            );
            ExitCode::from(2)
        }
    }
}

/// Prints the figures, and stores them after the text `before`, in a file whose name begins with `kind`.
fn report(before: String, figures: Vec<Figure>, kind: &str) -> ExitCode {
    let mut report = String::new();
    for figure in &figures {
        let verdict = if figure.value <= figure.bound { "ok" } else { "MISSED" };
        let digits = if figure.bound < 10.0 { 3 } else { 1 };
        // Writing to a String cannot fail.
        let _ = writeln!(
            report,
            "{:<52} {:>6.digits$} {} (at most {:.4}) {verdict:<6}  {}",
            figure.name, figure.value, figure.unit, figure.bound, figure.detail
        );
    }
    print!("{report}");
    keep(&(before + &report), kind);
    let missed = figures.iter().any(|f| f.value > f.bound);
    ExitCode::from(u8::from(missed))
}

/// The machine and the day, as a heading.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|l| l.starts_with("model name")).unwrap_or("model name: unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?").to_owned();
    let model = model.split(':').nth(1).unwrap_or_default().trim();
    format!("{}: {model}, {cores} cores, load {load}\n", today())
}

fn today() -> String {
    let date = Command::new("date").arg("+%F").output();
    date.map_or_else(|_| "undated".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// Stores the report under today's date.
fn keep(report: &str, kind: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let file = folder.join(format!("{kind}{}.txt", today()));
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, report));
    match kept {
        Ok(()) => println!("kept in {}", file.display()),
        Err(error) => eprintln!("cannot keep the report in {}: {error}", file.display()),
    }
}
