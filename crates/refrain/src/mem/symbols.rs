//! Names of a process's code and data.

use super::contexts::Context;
use crate::summary::counted;
use refrain_analysis::sites::Sites;
use refrain_memory::{Segment, SegmentKind};
use refrain_memtrace::code::Code;
use std::collections::HashMap;
use std::sync::Arc;

/// Names of instructions and calling contexts, from symbols and debug information.
pub struct Symbols {
    code: Arc<Code>,
    sites: Sites,
    known: HashMap<u64, Arc<str>>,
    functions: HashMap<u64, Option<String>>,
}

impl Symbols {
    /// The symbols of a process's code, recorded at this time (nanoseconds since 1970).
    pub fn new(code: Arc<Code>, recorded: u64) -> Self {
        let sites = Sites::recorded_at(recorded);
        Self { code, sites, known: HashMap::new(), functions: HashMap::new() }
    }

    /// `matmul.c:14`, or module and offset.
    pub fn text(&mut self, pc: u64) -> Arc<str> {
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

    /// A context: `in multiply, called at matmul.c:40`.
    pub fn context(&mut self, block: u32) -> Context {
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
    pub fn function(&mut self, pc: u64) -> Option<String> {
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
    pub fn data(&mut self, module: u32, offset: u64) -> String {
        let module = self.code.modules.get(&module);
        let symbols = module.and_then(|module| self.sites.symbols(&module.path));
        let found = symbols.and_then(|symbols| symbols.data_at(offset));
        found.map_or_else(String::new, |(name, within)| format!("static {name} + {within:#x}"))
    }

    /// A piece of memory: `static cells`, `heap of 0 0x7fde…, 80,000 bytes`, `stack of 2`.
    pub fn section(&mut self, segment: Option<&Segment>, offset: u64) -> String {
        let Some(segment) = segment else { return "small or unknown memory".into() };
        let Segment { owner, base, size, .. } = segment;
        match segment.kind {
            SegmentKind::Module => {
                let name = self.data(*owner, offset);
                let name = name.split(" + ").next().unwrap_or_default();
                match (name, self.code.modules.get(owner)) {
                    ("", Some(module)) => {
                        let file = module.path.rsplit('/').next().unwrap_or_default();
                        format!("static data of {file}")
                    }
                    ("", None) => "static data".into(),
                    (name, _) => name.to_owned(),
                }
            }
            SegmentKind::Stack => format!("stack of {owner}"),
            SegmentKind::Heap => {
                format!("heap of {owner} {base:#x}, {}", counted(*size, "byte"))
            }
            SegmentKind::Mapping => format!("mapping {base:#x}, {}", counted(*size, "byte")),
        }
    }
}
