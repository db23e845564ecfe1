//! The result of a simulation as a table and as JSON.

use super::{By, Part};
use crate::mem::show::word;
use crate::mem::symbols::Symbols;
use crate::summary::{counted, grouped, size};
use refrain_cache::{Counts, Geometry, Histogram, Miss, Options, Policy, Report, Site};
use refrain_memory::{Kind, Turns};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The simulation of a process.
pub struct Section<'a> {
    /// The process.
    pub part: &'a Part,
    /// The caches.
    pub geometry: &'a Geometry,
    /// How it was simulated.
    pub options: &'a Options,
    /// What was found.
    pub report: Report,
}

/// What is known of a site.
struct Place {
    function: Option<String>,
    line: String,
    kind: Kind,
    section: String,
    in_loop: Option<String>,
}

/// An object of `refrain cache --json`.
#[derive(Serialize)]
struct ProcessRow<'a> {
    rank: u32,
    threads: &'a [u32],
    turns: Option<u64>,
    line_bytes: u64,
    policy: &'a str,
    accesses: u64,
    simulated: u64,
    invalidations: u64,
    footprint_lines: &'a [u64],
    levels: Vec<LevelRow>,
    sites: Vec<SiteRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse: Option<ReuseRow>,
}

#[derive(Serialize)]
struct LevelRow {
    size: u64,
    ways: u32,
    shared: bool,
    accesses: u64,
    #[serde(flatten)]
    misses: MissRow,
}

#[derive(Serialize)]
struct MissRow {
    misses: u64,
    cold: u64,
    capacity: u64,
    conflict: u64,
    coherence: u64,
}

#[derive(Serialize)]
struct SiteRow {
    function: Option<String>,
    site: String,
    kind: &'static str,
    section: String,
    in_loop: Option<String>,
    accesses: u64,
    levels: Vec<MissRow>,
}

#[derive(Serialize)]
struct ReuseRow {
    first: u64,
    distances: Vec<(u64, u64)>,
}

impl MissRow {
    fn of(counts: &Counts, level: usize) -> Self {
        let [cold, capacity, conflict, coherence] = counts.misses[level];
        Self { misses: counts.missed(level), cold, capacity, conflict, coherence }
    }
}

impl ReuseRow {
    fn of(histogram: &Histogram) -> Self {
        let distances = histogram.distances.iter().map(|(distance, count)| (*distance, *count));
        Self { first: histogram.first, distances: distances.collect() }
    }
}

impl Section<'_> {
    /// What is known of each site, in order.
    fn places(&self) -> Vec<Place> {
        let mut symbols = self.part.symbols();
        let blocks = &self.part.process.trace.blocks;
        let reference = |site: &Site| {
            let references = blocks.get(site.block).unwrap_or_default();
            references.get(site.reference as usize).copied()
        };
        // A loop is named by its first reference.
        let mut loops: HashMap<u32, u64> = HashMap::new();
        for (site, _) in &self.report.sites {
            if let (Some(head), Some(reference)) = (site.in_loop, reference(site)) {
                let first = loops.entry(head).or_insert(reference.pc);
                *first = reference.pc.min(*first);
            }
        }
        let place = |(site, _): &(Site, Counts), symbols: &mut Symbols| {
            let reference = reference(site);
            let pc = reference.map_or(0, |reference| reference.pc);
            let head = site.in_loop.and_then(|head| loops.get(&head));
            Place {
                function: symbols.function(pc),
                line: symbols.text(pc).to_string(),
                kind: reference.map_or(Kind::Load, |reference| reference.kind),
                section: symbols.section(site.segment.as_ref(), site.first),
                in_loop: head.map(|pc| symbols.text(*pc).to_string()),
            }
        };
        self.report.sites.iter().map(|each| place(each, &mut symbols)).collect()
    }

    fn policy(&self) -> &'static str {
        match self.geometry.policy {
            Policy::Lru => "lru",
            Policy::Plru => "plru",
        }
    }

    /// How many accesses a level had.
    fn accesses(&self, level: usize) -> u64 {
        match level.checked_sub(1) {
            None => self.report.total.accesses,
            Some(before) => self.report.total.missed(before),
        }
    }

    /// The object of `--json`.
    pub fn json(&self) -> serde_json::Value {
        let total = &self.report.total;
        let levels = self.geometry.levels.iter().enumerate().map(|(at, level)| LevelRow {
            size: level.size,
            ways: level.ways,
            shared: level.shared,
            accesses: self.accesses(at),
            misses: MissRow::of(total, at),
        });
        let sites = self.report.sites.iter().zip(self.places()).map(|((_, counts), place)| {
            let levels = (0..self.geometry.levels.len()).map(|at| MissRow::of(counts, at));
            SiteRow {
                function: place.function,
                site: place.line,
                kind: word(place.kind),
                section: place.section,
                in_loop: place.in_loop,
                accesses: counts.accesses,
                levels: levels.collect(),
            }
        });
        let row = ProcessRow {
            rank: self.part.rank,
            threads: &self.part.threads,
            turns: match self.options.turns {
                Turns::RoundRobin(references) => Some(references),
                Turns::OneAfterTheOther => None,
            },
            line_bytes: self.geometry.line,
            policy: self.policy(),
            accesses: total.accesses,
            simulated: self.report.simulated,
            invalidations: self.report.invalidations,
            footprint_lines: &self.report.footprints,
            levels: levels.collect(),
            sites: sites.collect(),
            reuse: self.report.reuse.as_ref().map(ReuseRow::of),
        };
        serde_json::to_value(row).unwrap_or_default()
    }

    /// The tables.
    pub fn text(&self, by: By, limit: usize) -> String {
        let mut text = String::new();
        self.heading(&mut text);
        self.levels(&mut text);
        self.rows(by, limit, &mut text);
        if let Some(reuse) = &self.report.reuse {
            self.reuse(reuse, &mut text);
        }
        text
    }

    fn heading(&self, text: &mut String) {
        let mut line = String::new();
        if self.part.is_one_of_several {
            let _ = write!(line, "rank {}: ", self.part.rank);
        }
        line += &counted(self.part.threads.len() as u64, "thread");
        if self.part.threads.len() > 1 {
            match self.options.turns {
                Turns::RoundRobin(1) => line += ", in turns of one reference",
                Turns::RoundRobin(n) => {
                    let _ = write!(line, ", in turns of {n} references");
                }
                Turns::OneAfterTheOther => line += ", one after the other",
            }
        }
        let accesses = grouped(self.report.total.accesses);
        let _ = writeln!(
            text,
            "{line}; {}-byte lines, {}; {accesses} accesses, {} of them simulated",
            self.geometry.line,
            self.policy(),
            share(self.report.simulated, self.report.total.accesses),
        );
    }

    fn levels(&self, text: &mut String) {
        let mut table = vec![head(&["", "size", "ways", "accesses", "misses", "%"])];
        for (at, level) in self.geometry.levels.iter().enumerate() {
            let (accesses, misses) = (self.accesses(at), self.report.total.missed(at));
            let shared = if level.shared { " shared" } else { "" };
            let mut row = vec![
                format!("L{}{shared}", at + 1),
                bytes(level.size),
                level.ways.to_string(),
                grouped(accesses),
                grouped(misses),
                share(misses, accesses),
            ];
            row.extend(self.report.total.misses[at].map(grouped));
            table.push(row);
        }
        *text += &aligned(&table);
    }

    fn rows(&self, by: By, limit: usize, text: &mut String) {
        let mut rows: BTreeMap<String, Counts> = BTreeMap::new();
        for ((_, counts), place) in self.report.sites.iter().zip(self.places()) {
            let name = match by {
                By::Line => format!("{} {}", word(place.kind), place.line),
                By::Function => place.function.unwrap_or(place.line),
                By::Section => place.section,
                By::Loop => match place.in_loop {
                    Some(line) => format!("loop at {line}"),
                    None => "outside of loops".to_owned(),
                },
            };
            *rows.entry(name).or_default() += *counts;
        }
        let levels = self.geometry.levels.len();
        let mut rows: Vec<(String, Counts)> = rows.into_iter().collect();
        let weight = |counts: &Counts| {
            let misses: Vec<u64> = (0..levels).rev().map(|level| counts.missed(level)).collect();
            (misses, counts.accesses)
        };
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse(weight(counts)));
        let what = match by {
            By::Line => "line",
            By::Function => "function",
            By::Section => "section",
            By::Loop => "loop",
        };
        let mut names: Vec<String> = vec![what.into(), "accesses".into()];
        names.extend((1..=levels).map(|level| format!("L{level} misses")));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = vec![head(&names)];
        for (name, counts) in rows.iter().take(limit) {
            let mut row = vec![name.clone(), grouped(counts.accesses)];
            row.extend((0..levels).map(|level| grouped(counts.missed(level))));
            // The kinds of misses of all levels.
            let kind = |kind: Miss| {
                grouped((0..levels).map(|level| counts.misses[level][kind as usize]).sum())
            };
            row.extend(Miss::ALL.map(kind));
            table.push(row);
        }
        text.push('\n');
        *text += &aligned(&table);
        if rows.len() > limit {
            let _ = writeln!(text, "{} more (--limit)", grouped((rows.len() - limit) as u64));
        }
    }

    fn reuse(&self, reuse: &Histogram, text: &mut String) {
        let mut table =
            vec![vec!["reuse distance".to_owned(), "accesses".to_owned(), "%".to_owned()]];
        let total = self.report.total.accesses;
        let mut row = |name: String, count: u64| {
            table.push(vec![name, grouped(count), share(count, total)]);
        };
        let mut low = 0;
        for high in (0..u64::BITS).map(|bit| 1u64 << bit) {
            if reuse.distances.range(low..).next().is_none() {
                break;
            }
            let count: u64 = reuse.distances.range(low..high).map(|(_, count)| count).sum();
            let name =
                if high - low == 1 { low.to_string() } else { format!("{low}-{}", high - 1) };
            row(name, count);
            low = high;
        }
        row("first access".into(), reuse.first);
        text.push('\n');
        *text += &aligned(&table);
    }
}

/// The head of a table that ends with the kinds of misses.
fn head(names: &[&str]) -> Vec<String> {
    let kinds = ["cold", "capacity", "conflict", "coherence"];
    names.iter().chain(&kinds).map(|name| (*name).to_owned()).collect()
}

/// A size in binary units.
fn bytes(n: u64) -> String {
    match n {
        _ if n.is_multiple_of(1 << 20) => format!("{}m", n >> 20),
        _ if n.is_multiple_of(1 << 10) => format!("{}k", n >> 10),
        _ => size(n),
    }
}

/// A share in percent.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{:.3} %", 100.0 * part as f64 / whole as f64),
    }
}

/// Lines of a table, the first column to the left and the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match at {
                0 => line += &format!("{cell:width$}"),
                _ => line += &format!("  {cell:>width$}"),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
