//! `refrain show` of a memory trace.
//!
//! ```text
//! T2 store 8 0x7f12a4c01040 matmul.c:14
//! ```

use super::contexts::{Context, Contexts};
use crate::output;
use crate::stdout::Lines;
use anyhow::{Result, bail};
use refrain_analysis::sites::Sites;
use refrain_memory::{Access, Kind, Name, triples};
use refrain_memtrace::code::Code;
use refrain_memtrace::trace::ProcessTrace;
use refrain_memtrace::{MemoryTrace, Structures};
use serde_json::json;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::process::ExitCode;
use std::sync::Arc;

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
        let symbols = Symbols {
            code: decoded.code.clone(),
            sites: Sites::recorded_at(began),
            known: HashMap::new(),
            functions: HashMap::new(),
        };
        let whose = if is_one { String::new() } else { format!("P{rank} ") };
        let mut printer =
            Printer { out: &mut out, symbols, whose, left: &mut left, is_json: wanted.json };
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

/// Names of instructions and calling contexts, from symbols and debug information.
struct Symbols {
    code: Arc<Code>,
    sites: Sites,
    known: HashMap<u64, Arc<str>>,
    functions: HashMap<u64, Option<String>>,
}

impl Symbols {
    /// `matmul.c:14`, or module and offset.
    fn text(&mut self, pc: u64) -> Arc<str> {
        if let Some(known) = self.known.get(&pc) {
            return known.clone();
        }
        let (module, offset) = self.code.locate(pc);
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

impl Symbols {
    /// A context: `in multiply, called at matmul.c:40`.
    fn context(&mut self, block: u32) -> Context {
        let Some(context) = self.code.contexts.get(&block).copied() else {
            return Context { name: format!("block {block}"), call: None, is_shown_alone: true };
        };
        let at = match context.call {
            0 => String::new(),
            call => self.call_site(call - 1),
        };
        let called = if at.is_empty() { String::new() } else { format!(", called{at}") };
        if context.function == 0 {
            let name = match at.as_str() {
                "" => "outside recorded code".into(),
                at => format!("in code called{at}"),
            };
            return Context { name, call: Some(called), is_shown_alone: false };
        }
        if let Some(library) = self.stub(context.function) {
            let name = format!("in {library}{called}");
            let call = Some(format!(", called from {library}{at}"));
            return Context { name, call, is_shown_alone: true };
        }
        let function = self.function(context.function);
        let function = function.unwrap_or_else(|| self.text(context.function).to_string());
        Context { name: format!("in {function}{called}"), call: None, is_shown_alone: true }
    }

    /// ` at matmul.c:15`, or ` in _start at matmul+0x1061` where no line is known.
    fn call_site(&mut self, pc: u64) -> String {
        let text = self.text(pc);
        let has_line = !text.contains("+0x");
        match self.function(pc).filter(|_| !has_line) {
            Some(function) => format!(" in {function} at {text}"),
            None => format!(" at {text}"),
        }
    }

    /// The function around a program counter.
    fn function(&mut self, pc: u64) -> Option<String> {
        if let Some(known) = self.functions.get(&pc) {
            return known.clone();
        }
        let (module, offset) = self.code.locate(pc);
        let function = module.and_then(|module| self.sites.function(&module.path, offset));
        self.functions.insert(pc, function.clone());
        function
    }

    /// The library's function that the linker's stub at a program counter jumps to.
    fn stub(&mut self, pc: u64) -> Option<String> {
        let (module, offset) = self.code.locate(pc);
        self.sites.symbols(&module?.path)?.stub_at(offset).map(str::to_owned)
    }

    /// A static variable: `static cells + 0x10`; empty if it has no name.
    fn data(&mut self, module: u32, offset: u64) -> String {
        let module = self.code.modules.get(&module);
        let symbols = module.and_then(|module| self.sites.symbols(&module.path));
        let found = symbols.and_then(|symbols| symbols.data_at(offset));
        found.map_or_else(String::new, |(name, within)| format!("static {name} + {within:#x}"))
    }
}

struct Printer<'a> {
    out: &'a mut Lines,
    symbols: Symbols,
    whose: String,
    left: &'a mut u64,
    is_json: bool,
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
