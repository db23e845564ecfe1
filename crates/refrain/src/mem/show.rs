//! `refrain show` of a memory trace.
//!
//! ```text
//! T2 store 8 0x7f12a4c01040 matmul.c:14
//! ```

use anyhow::{Result, bail};
use refrain_analysis::sites::Sites;
use refrain_memory::{Access, Kind, Name, triples};
use refrain_memtrace::MemoryTrace;
use refrain_memtrace::code::Code;
use refrain_memtrace::trace::ProcessTrace;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// What is to be shown.
pub struct Wanted {
    /// Only these ranks.
    pub ranks: Option<BTreeSet<i32>>,
    /// Only this thread of each.
    pub thread: Option<u32>,
    /// At most so many references.
    pub limit: Option<u64>,
    /// One JSON object a line.
    pub json: bool,
    /// The loops instead of the references.
    pub structure: bool,
}

/// Prints.
pub fn run(trace: &MemoryTrace, wanted: &Wanted) -> Result<ExitCode> {
    let facts = trace.facts();
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    let is_one = facts.processes.len() == 1;
    let mut found = false;
    for (number, process) in (0u32..).zip(&facts.processes) {
        let rank = process.rank.unwrap_or(number);
        if wanted.ranks.as_ref().is_some_and(|ranks| !ranks.contains(&(rank as i32))) {
            continue;
        }
        let decoded = trace.process(number)?;
        let began = process.time.0;
        let places = Places {
            code: decoded.code.clone(),
            sites: Sites::recorded_at(began),
            known: HashMap::new(),
        };
        let whose = if is_one { String::new() } else { format!("P{rank} ") };
        let mut printer =
            Printer { out: &mut out, places, whose, left: &mut left, is_json: wanted.json };
        let threads = decoded.trace.threads();
        let threads: Vec<u32> =
            threads.into_iter().filter(|t| wanted.thread.is_none_or(|only| only == *t)).collect();
        found |= !threads.is_empty();
        let result = match wanted.structure {
            true => printer.structure(number, trace, &decoded),
            false => printer.references(rank, &decoded, &threads),
        };
        match result {
            Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
            result => result?,
        }
    }
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if !found {
        bail!("no such rank or thread in {}", trace.container().path().display());
    }
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Places in the program, for people.
struct Places {
    code: Arc<Code>,
    sites: Sites,
    known: HashMap<u64, Arc<str>>,
}

impl Places {
    /// `matmul.c:14`, or module and offset.
    fn text(&mut self, pc: u64) -> Arc<str> {
        if let Some(known) = self.known.get(&pc) {
            return known.clone();
        }
        let (module, offset) = self.code.place(pc);
        let text: Arc<str> = match module {
            None => format!("{offset:#x}").into(),
            Some(module) => {
                // Sites are return addresses, one past an instruction.
                let site: Arc<str> = format!("{}+{:x}", module.path, offset + 1).into();
                let frames = self.sites.frames(&site);
                let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
                match frames.first().map(|frame| (&frame.file, frame.line)) {
                    Some((Some(file), Some(line))) => format!("{}:{line}", last(file)).into(),
                    _ => format!("{}+{offset:#x}", last(&module.path)).into(),
                }
            }
        };
        self.known.insert(pc, text.clone());
        text
    }
}

impl Places {
    /// A context: `in multiply matmul.c:14, called at matmul.c:40`.
    fn context(&mut self, block: u32) -> String {
        let Some(context) = self.code.contexts.get(&block).copied() else {
            return format!("block {block}");
        };
        if context.function == 0 {
            return "outside".into();
        }
        let function = self.function(context.function);
        match context.call {
            0 => format!("in {function}"),
            call => format!("in {function}, called at {}", self.text(call - 1)),
        }
    }

    /// A function's name, or where it is.
    fn function(&mut self, pc: u64) -> String {
        let (module, offset) = self.code.place(pc);
        let site = module.map(|module| format!("{}+{:x}", module.path, offset + 1));
        let frames = site.map(|site| self.sites.frames(&site.into()));
        let name = frames.and_then(|frames| frames.last()?.function.clone());
        name.unwrap_or_else(|| self.text(pc).to_string())
    }
}

struct Printer<'a, W: Write> {
    out: &'a mut W,
    places: Places,
    whose: String,
    left: &'a mut u64,
    is_json: bool,
}

/// A kind in a word.
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Load => "load",
        Kind::Store => "store",
        Kind::Atomic => "atomic",
    }
}

impl<W: Write> Printer<'_, W> {
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
        let Access { kind, size, pc, address } = access;
        let place = self.places.text(pc);
        let kind = word(kind);
        if self.is_json {
            let json = json!({
                "rank": rank,
                "thread": thread,
                "kind": kind,
                "size": size,
                "address": address,
                "place": &*place,
            });
            writeln!(self.out, "{json}")?;
        } else {
            let whose = &self.whose;
            writeln!(self.out, "{whose}T{thread} {kind} {size} {address:#x} {place}")?;
        }
        Ok(())
    }

    /// The groups of processes and threads whose first process is this one.
    fn structure(
        &mut self,
        number: u32,
        trace: &MemoryTrace,
        process: &ProcessTrace,
    ) -> Result<()> {
        let addresses = process.trace.segments.addresses();
        let is_one = trace.facts().processes.len() == 1;
        for group in trace.merged().groups() {
            if group.ranks.first() != Some(number) {
                continue;
            }
            if !is_one {
                write!(self.out, "processes {} ", triples(&group.ranks))?;
            }
            let places = &mut self.places;
            let mut name = |name| match name {
                Name::Place(pc) => places.text(pc).to_string(),
                Name::Block(block) => places.context(block),
            };
            let threads = group.of(number)?;
            let text = threads.structure(&process.trace.blocks, &addresses, &mut name)?;
            self.out.write_all(text.as_bytes())?;
        }
        for (thread, chunks) in &process.trace.sealed {
            writeln!(self.out, "thread {thread}: {} chunks put away before", chunks.len())?;
        }
        Ok(())
    }
}
