//! `make bench`: measures Refrain on this machine, and keeps the raw results in `bench/runs`.
//!
//! Machines are noisy, so plain and traced runs alternate, and of a cost per call the least of
//! all repeats counts. A figure that Refrain promises is printed with its bound, and a bound
//! that is missed makes the exit code 1.
//!
//! `refrain-bench sizes` measures only how large traces are, `refrain-bench times` how the times of
//! calls are kept, `refrain-bench order` records of receive orders, `refrain-bench clock` those by
//! clocks, `refrain-bench memory` memory traces. `refrain-bench scale [tasks…] [patterns…]` measures the merge of simulated tasks instead,
//! and `refrain-bench walk` the memory that reading thousands of ranks takes.

mod clock;
mod irregular;
mod memory;
mod order;
mod per_call;
mod runs;
mod scale;
mod simulated;
mod sizes;
mod times;
mod walk;
mod whole;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A measured figure with the bound it is held to.
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The measurements behind it, in words.
    pub detail: String,
    /// The figure.
    pub value: f64,
    /// What it may be at most.
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
        Some((word, [])) if word == "sizes" => {
            let heading = machine();
            print!("{heading}");
            report(heading, sizes::measure(), "sizes-")
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
        // How the bench of scale starts itself, once for each pattern.
        Some((word, [name, tasks])) if word == "scale-one" => {
            scale::measure_one(name, tasks.parse().unwrap_or(0));
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
                "usage: refrain-bench [sizes | times | order | clock [sizes] | memory | walk | scale [TASKS…] [PATTERNS…]]"
            );
            ExitCode::from(2)
        }
    }
}

/// Prints the figures, and keeps them with what goes before, under a name that begins so.
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

/// Keeps the report under the day's name.
fn keep(report: &str, kind: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let file = folder.join(format!("{kind}{}.txt", today()));
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, report));
    match kept {
        Ok(()) => println!("kept in {}", file.display()),
        Err(error) => eprintln!("cannot keep the report in {}: {error}", file.display()),
    }
}
