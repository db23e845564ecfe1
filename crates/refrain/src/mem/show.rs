//! `refrain show` of a memory trace.
//!
//! ```text
//! T2 store 8 0x7f12a4c01040 matmul.c:14
//! ```

use super::contexts::Contexts;
use super::formats::Format;
use super::symbols::Symbols;
use crate::output;
use crate::stdout::Lines;
use anyhow::{Result, bail};
use refrain_memory::{Access, Kind, Name, triples};
use refrain_memtrace::trace::ProcessTrace;
use refrain_memtrace::{MemoryTrace, Structures};
use serde_json::json;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::process::ExitCode;

/// The options of `refrain show` that apply.
pub struct Wanted {
    /// Only these ranks.
    pub ranks: Option<BTreeSet<i32>>,
    /// Only this thread of each.
    pub thread: Option<u32>,
    /// At most this many references, or lines of the structure.
    pub limit: Option<u64>,
    /// One JSON object a line.
    pub json: bool,
    /// The loops instead of the references.
    pub structure: bool,
    /// The format of another program.
    pub format: Option<Format>,
}

/// Prints references or loop nests.
pub fn run(trace: &MemoryTrace, wanted: &Wanted) -> Result<ExitCode> {
    let facts = trace.facts();
    let mut out = Lines::new();
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    let is_one = facts.processes.len() == 1;
    let is_wanted = |number: u32| {
        let rank = facts.processes.get(number as usize).and_then(|process| process.rank);
        let rank = rank.unwrap_or(number) as i32;
        wanted.ranks.as_ref().is_none_or(|ranks| ranks.contains(&rank))
    };
    let structures = match wanted.structure {
        true => Some(trace.structures(is_wanted)?),
        false => None,
    };
    let mut found = false;
    for (number, process) in (0u32..).zip(&facts.processes) {
        if !is_wanted(number) {
            continue;
        }
        let rank = process.rank.unwrap_or(number);
        let decoded = trace.process(number)?;
        let began = process.time.0;
        let symbols = Symbols::new(decoded.code.clone(), began);
        let whose = if is_one { String::new() } else { format!("P{rank} ") };
        let mut printer = Printer {
            out: &mut out,
            symbols,
            whose,
            left: &mut left,
            is_json: wanted.json,
            format: wanted.format,
            records: 0,
        };
        let threads = decoded.trace.threads();
        let threads: Vec<u32> =
            threads.into_iter().filter(|t| wanted.thread.is_none_or(|only| only == *t)).collect();
        found |= !threads.is_empty();
        match &structures {
            Some(structures) => {
                let selection = Selection { is_wanted: &is_wanted, thread: wanted.thread, is_one };
                printer.structures(number, &selection, structures, &decoded)?;
            }
            None => printer.references(rank, &decoded, &threads)?,
        }
    }
    out.finish()?;
    if !found {
        bail!("no such rank or thread in {}", trace.container().path().display());
    }
    Ok(ExitCode::SUCCESS)
}

struct Printer<'a> {
    out: &'a mut Lines,
    symbols: Symbols,
    whose: String,
    left: &'a mut u64,
    is_json: bool,
    format: Option<Format>,
    /// How many references were printed.
    records: u64,
}

/// A kind of reference as text.
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Load => "load",
        Kind::Store => "store",
        Kind::Atomic => "atomic",
    }
}

impl Printer<'_> {
    fn references(&mut self, rank: u32, process: &ProcessTrace, threads: &[u32]) -> Result<()> {
        for &thread in threads {
            for access in process.trace.references(thread) {
                if *self.left == 0 {
                    return Ok(());
                }
                *self.left -= 1;
                self.line(rank, thread, access?)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, rank: u32, thread: u32, access: Access) -> Result<()> {
        self.records += 1;
        if let Some(format) = self.format {
            return self
                .out
                .escaped(format_args!("{}", format.line(self.records, thread, &access)));
        }
        let Access { kind, size, pc, address } = access;
        let line = self.symbols.text(pc);
        let kind = word(kind);
        if self.is_json {
            let json = json!({
                "rank": rank,
                "thread": thread,
                "kind": kind,
                "size": size,
                "address": address,
                "site": &*line,
            });
            self.out.json(&json.to_string())
        } else {
            let whose = &self.whose;
            let line = output::line(&line);
            self.out.escaped(format_args!("{whose}T{thread} {kind} {size} {address:#x} {line}"))
        }
    }

    /// The loop nests of a process, except those that were printed for an earlier process.
    fn structures(
        &mut self,
        number: u32,
        selection: &Selection<'_>,
        structures: &Structures<'_>,
        process: &ProcessTrace,
    ) -> Result<()> {
        let addresses = process.trace.segments.addresses();
        let (out, left, symbols) = (&mut self.out, &mut self.left, &mut self.symbols);
        let mut print = |line: &str| {
            if **left == 0 {
                return Err(Stop::Limit);
            }
            **left -= 1;
            out.line(line).map_err(Stop::Output)
        };
        let contexts = RefCell::new(Contexts::default());
        let mut marks: HashMap<u32, String> = HashMap::new();
        let mut name = |name| match name {
            Name::Instruction(pc) => {
                let mark = contexts.borrow_mut().function(symbols.function(pc));
                format!("{}{mark}", symbols.text(pc))
            }
            Name::Context(block) => {
                let mark = || contexts.borrow_mut().context(symbols.context(block));
                marks.entry(block).or_insert_with(mark).clone()
            }
            Name::Data { module, offset } => symbols.data(module, offset),
        };
        for group in structures.of(number)? {
            let mut wanted = group.processes.iter().filter(|other| (selection.is_wanted)(*other));
            let is_first = wanted.next() == Some(number);
            let threads = &group.structure.threads;
            if !is_first || selection.thread.is_some_and(|thread| !threads.contains(thread)) {
                continue;
            }
            let mut head = match selection.is_one {
                true => String::new(),
                false => format!("processes {} ", triples(&group.processes)),
            };
            let mut print = |line: &str| print(&(std::mem::take(&mut head) + line));
            let mut resolve = |line: &str| {
                let lines = contexts.borrow_mut().line(line);
                lines.iter().try_for_each(|line| print(line))
            };
            let printed = group.structure.each_line(&addresses, &mut name, &mut resolve);
            let rest = contexts.borrow_mut().finish();
            match printed.and_then(|()| rest.iter().try_for_each(|line| print(line))) {
                Ok(()) => {}
                Err(Stop::Limit) => return Ok(()),
                Err(Stop::Output(error)) => return Err(error),
            }
        }
        for (_, thread, count) in structures.left_out.iter().filter(|entry| entry.0 == number) {
            let line = format!("thread {thread}: {count} more blocks or loops, not shown");
            match print(&line) {
                Ok(()) | Err(Stop::Limit) => {}
                Err(Stop::Output(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Which structures are shown.
struct Selection<'a> {
    is_wanted: &'a dyn Fn(u32) -> bool,
    thread: Option<u32>,
    /// Whether the trace has one process only.
    is_one: bool,
}

/// Why no more lines are printed.
enum Stop {
    Limit,
    Output(anyhow::Error),
}
