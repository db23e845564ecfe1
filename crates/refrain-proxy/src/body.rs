//! Loop nests as functions: a function for each block, `for` for loops.

use crate::call::Writer;
use crate::{Options, Site};
use refrain_mpi::semantics::Op;
use refrain_reader::{LoopNest, Nest};
use std::collections::{BTreeMap, BTreeSet};

/// Longer bodies are divided into several functions.
const LONGEST_BODY: usize = 400;
/// Names of loop indices.
const INDICES: [&str; 8] = ["i", "j", "k", "l", "m", "n", "o", "p"];

/// Writes the functions of a group.
pub struct Functions<'w, 'a, 't> {
    pub writer: Writer<'a, 't>,
    pub options: &'w Options<'w>,
    /// After the names of functions.
    pub suffix: String,
    /// The functions, each as its lines.
    pub done: Vec<Vec<String>>,
    /// Calls that are functions of their own.
    shared: BTreeMap<u32, String>,
    /// Names of functions.
    names: BTreeSet<String>,
    /// The first call of the tasks.
    first: Option<u32>,
}

impl<'w, 'a, 't> Functions<'w, 'a, 't> {
    /// Nothing is written yet.
    pub fn new(writer: Writer<'a, 't>, options: &'w Options<'w>, suffix: String) -> Self {
        let (done, shared, names) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Functions { writer, options, suffix, done, shared, names, first: None }
    }

    /// Writes the functions of a nest. Returns the lines of its body.
    pub fn write(&mut self, nest: &LoopNest<u32>) -> Vec<String> {
        self.first = first_call(&nest.body, &nest.blocks, &self.writer);
        let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
        count(&nest.body, &mut uses);
        nest.blocks.iter().for_each(|block| count(block, &mut uses));
        for (signature, uses) in uses {
            self.share(signature, uses);
        }
        let mut blocks: Vec<String> = Vec::with_capacity(nest.blocks.len());
        for block in &nest.blocks {
            let name = self.block_name(block);
            let lines = self.body(block, &blocks, 0);
            self.function(&name, lines);
            blocks.push(name);
        }
        self.body(&nest.body, &blocks, 0)
    }

    /// Makes a function of a call that is long and occurs in several places, or inside of another call.
    fn share(&mut self, signature: u32, uses: usize) {
        let depth = self.depth(signature);
        let lines = self.call(signature);
        if depth == 0 && (uses < 2 || lines.len() < 4) {
            return;
        }
        let function = self.function_name(signature).trim_start_matches("MPI_").to_lowercase();
        let name = self.unique(&function);
        self.function(&name, lines);
        let text = match depth {
            0 => format!("{name}();"),
            depth => format!("inside({depth}, {name});"),
        };
        self.shared.insert(signature, text);
    }

    fn depth(&self, signature: u32) -> u8 {
        let signature = self.writer.group.calls.get(signature as usize);
        signature.and_then(|s| s.event()).map_or(0, |event| event.depth)
    }

    fn function_name(&self, signature: u32) -> String {
        let signature = self.writer.group.calls.get(signature as usize);
        signature.map_or(String::new(), |signature| signature.function.name.clone())
    }

    /// The lines of a call, with what surrounds it.
    fn call(&mut self, signature: u32) -> Vec<String> {
        let mut lines = self.writer.call(signature);
        if let Some(site) = self.site(signature)
            && let Some(line) = lines.iter_mut().rev().find(|line| line.contains("MPI_"))
        {
            let place = site.place.replace("*/", "*");
            line.push_str(&format!(" /* {place} */"));
        }
        if let Some(gap) = self.gap(signature) {
            lines.insert(0, format!("compute({gap:.0});"));
        }
        let op = self.writer.group.calls.get(signature as usize).and_then(|s| s.mpi);
        if self.writer.program.threads() > 1 {
            if self.first == Some(signature) && self.writer.group.thread > 0 {
                lines.push("first_call();".to_owned());
            }
            match op.map(|function| function.op()) {
                Some(Op::Begin) if self.writer.group.thread == 0 => {
                    lines.push("start_threads();".to_owned());
                }
                Some(Op::End) => lines.insert(0, "await_threads();".to_owned()),
                Some(Op::Free(_)) if self.writer.frees_shared(signature) => {
                    lines.insert(0, "await_threads();".to_owned());
                }
                _ => {}
            }
        }
        lines
    }

    /// The mean time before a call, if computation is asked for.
    fn gap(&self, signature: u32) -> Option<f64> {
        let tick = self.options.tick?;
        let call = self.writer.group.calls.get(signature as usize)?;
        if call.event()?.is_note() {
            return None;
        }
        let mean = self.writer.group.structure.signature(signature)?.mean(call.occurrences)?;
        Some(mean.gap * tick).filter(|gap| *gap >= 1.0)
    }

    fn site(&self, signature: u32) -> Option<Site> {
        let event = self.writer.group.calls.get(signature as usize)?.event()?;
        (self.options.site)(event.site.as_deref()?)
    }

    /// A name from the functions of the program that make the calls.
    fn block_name(&mut self, block: &[Nest<u32>]) -> String {
        let mut leaves = Vec::new();
        leaves_of(block, &mut leaves);
        let mut functions = leaves.iter().filter_map(|signature| self.site(*signature)?.function);
        let first = functions.next();
        let name = match first {
            Some(first) if functions.all(|other| other == first) => first,
            _ => "block".to_owned(),
        };
        self.unique(&name)
    }

    fn unique(&mut self, name: &str) -> String {
        let clean: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let clean = clean.trim_matches('_').to_owned();
        for number in 0.. {
            let name = match number {
                0 => format!("{clean}_{}", self.suffix).trim_end_matches('_').to_owned() + "_",
                number => {
                    format!("{clean}{number}_{}", self.suffix).trim_end_matches('_').to_owned()
                        + "_"
                }
            };
            // Names of C and of MPI have no underscore at the end.
            if self.names.insert(name.clone()) {
                return name;
            }
        }
        clean
    }

    /// Adds a function, in parts if it is long.
    pub fn function(&mut self, name: &str, lines: Vec<String>) {
        let mut text = vec![format!("static void {name}(void)"), "{".to_owned()];
        text.extend(lines.into_iter().map(|line| format!("    {line}")));
        text.push("}".to_owned());
        self.done.push(text);
    }

    fn body(&mut self, body: &[Nest<u32>], blocks: &[String], depth: usize) -> Vec<String> {
        if body.len() > LONGEST_BODY {
            let mut lines = Vec::new();
            for part in body.chunks(LONGEST_BODY) {
                let name = self.unique("part");
                let inner = self.body(part, blocks, depth);
                self.function(&name, inner);
                lines.push(format!("{name}();"));
            }
            return lines;
        }
        let mut lines = Vec::new();
        for node in body {
            match node {
                Nest::Leaf(signature) => match self.shared.get(signature) {
                    Some(text) => lines.push(text.clone()),
                    None => lines.extend(self.call(*signature)),
                },
                Nest::Block(block) => {
                    lines.extend(blocks.get(*block).map(|name| format!("{name}();")))
                }
                Nest::Loop { count, body } => {
                    let inner = self.body(body, blocks, depth + 1);
                    if inner.is_empty() {
                        continue;
                    }
                    let index =
                        INDICES.get(depth).map_or_else(|| format!("i{depth}"), |i| (*i).to_owned());
                    lines.push(format!("for (long {index} = 0; {index} < {count}; {index}++) {{"));
                    lines.extend(inner.into_iter().map(|line| format!("    {line}")));
                    lines.push("}".to_owned());
                }
            }
        }
        lines
    }
}

fn count(body: &[Nest<u32>], uses: &mut BTreeMap<u32, usize>) {
    for node in body {
        match node {
            Nest::Leaf(signature) => *uses.entry(*signature).or_default() += 1,
            Nest::Loop { body, .. } => count(body, uses),
            Nest::Block(_) => {}
        }
    }
}

/// The signature of the first call of a nest.
fn first_call(
    body: &[Nest<u32>],
    blocks: &[Vec<Nest<u32>>],
    writer: &Writer<'_, '_>,
) -> Option<u32> {
    body.iter().find_map(|node| match node {
        Nest::Leaf(signature) => {
            let call = writer.group.calls.get(*signature as usize)?;
            (!call.function.name.starts_with("refrain_")).then_some(*signature)
        }
        Nest::Loop { body, .. } => first_call(body, blocks, writer),
        Nest::Block(block) => first_call(blocks.get(*block)?, blocks, writer),
    })
}

fn leaves_of(body: &[Nest<u32>], leaves: &mut Vec<u32>) {
    for node in body {
        match node {
            Nest::Leaf(signature) => leaves.push(*signature),
            Nest::Loop { body, .. } => leaves_of(body, leaves),
            Nest::Block(_) => {}
        }
    }
}
