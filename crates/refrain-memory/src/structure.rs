//! A trace to be read: the loop nest, with sections, strides and threads.
//!
//! ```text
//! threads <0,5,1>
//! where b1 is -1 * (thread / 3)
//! where b2 is the sum of b1 +10 of all threads before
//! loop b1 +10 times
//!   loop 48 times [+0]
//!     loop 48 times [+0, +0]
//!       load 8 heap of 0 0x555500000000 + 0x0 +384 * b2 [+384, +0, +8] at pc 0x1028
//! ```
//!
//! Threads are listed as the paper does: the first, how many, and how far apart.
//!
//! A number that differs between threads is written as a function of the thread; the bases that
//! several numbers share are explained first. What some threads do among other things, and others do
//! as well, is a part of its own, which stands where its number is. In brackets stand the steps of the loops around, the
//! outermost first: how far the reference (or the trip count) goes when that loop goes on, from
//! where the loop's last iteration began, or with `~` from the value before. `..` is a step without
//! a rule.

use std::collections::HashSet;
use std::fmt::Write;

use refrain_elastic::RankList;

use crate::align::HOLE;
use crate::bases::{Affine, Base};
use crate::block::{Blocks, Kind};
use crate::chunk::{Entry, Finished, Stream};
use crate::error::MemoryError;
use crate::runs::Runs;
use crate::segment::{Addresses, own_offset};
use crate::shape::Node;
use crate::thread_groups::{Group, Merged};

/// Something that whoever reads the structure may know another name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A place in the program: a reference's program counter.
    Place(u64),
    /// A block without references.
    Block(u32),
}

/// Sections of ranks or threads as ScalaMemTrace writes them (§2.2): `<first,count,stride>`, with
/// more counts and strides where sections repeat.
pub fn triples(list: &RankList) -> String {
    let section = |section: &refrain_elastic::Section| {
        let mut text = format!("<{}", section.start());
        if section.dimensions().is_empty() {
            text += ",1,1";
        }
        for dimension in section.dimensions() {
            let _ = write!(text, ",{},{}", dimension.count, dimension.stride);
        }
        text + ">"
    };
    list.sections().iter().map(section).collect::<Vec<_>>().join(" ")
}

impl Merged {
    /// The structure as lines of text.
    pub fn structure(
        &self,
        blocks: &Blocks,
        addresses: &Addresses,
        name: &mut dyn FnMut(Name) -> String,
    ) -> Result<String, MemoryError> {
        let mut out = String::new();
        for group in &self.groups {
            out += &group.structure(blocks, addresses, name)?;
        }
        Ok(out)
    }
}

impl Group {
    /// The structure as lines of text.
    pub fn structure(
        &self,
        blocks: &Blocks,
        addresses: &Addresses,
        name: &mut dyn FnMut(Name) -> String,
    ) -> Result<String, MemoryError> {
        let mut out = String::new();
        Writer { group: self, blocks, addresses, name }.group(&mut out)?;
        Ok(out)
    }
}

struct Writer<'a> {
    group: &'a Group,
    blocks: &'a Blocks,
    addresses: &'a Addresses,
    name: &'a mut dyn FnMut(Name) -> String,
}

/// Where in an entry the writer stands.
struct Place<'a> {
    streams: std::slice::Iter<'a, Stream>,
    depth: usize,
    /// References that have been written: their first places are told as distances from the last.
    met: &'a mut HashSet<(u32, u32)>,
}

impl Writer<'_> {
    fn group(&mut self, out: &mut String) -> Result<(), MemoryError> {
        let threads = triples(&self.group.threads);
        let _ = match self.group.hole {
            0 => writeln!(out, "threads {threads}"),
            hole => writeln!(out, "threads {threads}, part {hole}"),
        };
        for others in &self.group.substitutes {
            for &(ours, theirs) in &others.blocks {
                let (ours, theirs) = (Name::Block(ours), Name::Block(theirs));
                let [ours, theirs] = [ours, theirs].map(|block| (self.name)(block));
                let threads = triples(&others.threads);
                let _ = writeln!(out, "where threads {threads} are {theirs}, not {ours}");
            }
        }
        for (i, base) in self.group.numbers.bases.iter().enumerate() {
            let text = match base {
                Base::Column(column) => column.to_string().replace("rank", "thread"),
                Base::Others => {
                    let first = self.group.threads.first().unwrap_or(0);
                    format!("0 for thread {first}, 1 for others")
                }
                Base::Sum { of, scale, plus } => {
                    let line = Affine::Over { base: *of, scale: *scale, offset: *plus };
                    format!("the sum of {} of all threads before", self.text(line, false))
                }
            };
            let _ = writeln!(out, "where b{} is {text}", i + 1);
        }
        // Numbers that stand for themselves: each is the index of its line.
        let indices: Vec<i64> = (0..self.group.numbers.columns.len() as i64).collect();
        let bulk = self.group.bulk.iter().map(|each| each.first().cloned().unwrap_or_default());
        let chunk =
            Finished::from_parts(&self.group.skeleton, &indices, bulk.collect(), self.blocks)?;
        let mut met = HashSet::new();
        let mut holes = 0;
        for run in chunk.sequence.chunk_by(|a, b| a == b && *a != HOLE) {
            if run[0] == HOLE {
                holes += 1;
                let _ = writeln!(out, "part {holes}, with other threads");
                continue;
            }
            let entry = &chunk.entries[run[0] as usize];
            if run.len() > 1 {
                let _ = writeln!(out, "{} times:", run.len());
            }
            self.entry(entry, &mut met, out);
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, met: &mut HashSet<(u32, u32)>, out: &mut String) {
        let mut place = Place { streams: entry.streams.iter(), depth: 0, met };
        self.node(&entry.shape.node, &mut place, out);
    }

    fn node(&mut self, node: &Node, place: &mut Place<'_>, out: &mut String) {
        let indent = "  ".repeat(place.depth);
        match node {
            Node::Block(block) => {
                let references = self.blocks.get(*block).unwrap_or_default();
                for (at, reference) in (0u32..).zip(references) {
                    let Some(stream) = place.streams.next() else { return };
                    let kind = match reference.kind {
                        Kind::Load => "load",
                        Kind::Store => "store",
                        Kind::Atomic => "atomic",
                    };
                    let first = self.first(stream, place.met.insert((*block, at)));
                    let steps = self.steps(stream);
                    let size = reference.size;
                    let at = (self.name)(Name::Place(reference.pc));
                    let _ = writeln!(out, "{indent}{kind} {size} {first}{steps} {at}");
                }
                if references.is_empty() {
                    let _ = writeln!(out, "{indent}{}", (self.name)(Name::Block(*block)));
                }
            }
            Node::Loop { exit, body } => {
                let Some(stream) = place.streams.next() else { return };
                let count = self.value(&stream.firsts);
                let steps = self.steps(stream);
                let exit = match exit {
                    0 => String::new(),
                    exit => format!(", left after {exit} of {}", body.len()),
                };
                let _ = writeln!(out, "{indent}loop {count} times{steps}{exit}");
                place.depth += 1;
                body.iter().for_each(|node| self.node(node, place, out));
                place.depth -= 1;
            }
        }
    }

    /// The first place of a stream.
    fn first(&self, stream: &Stream, is_first: bool) -> String {
        match self.only(&stream.firsts) {
            None => "at changing places".into(),
            Some(line) if !is_first => format!("{} from its last", self.text(line, true)),
            Some(Affine::Constant(place)) => self.place(place),
            Some(Affine::Over { base, scale, offset }) => {
                if let Some(Base::Others) =
                    self.group.numbers.bases.get((base as usize).wrapping_sub(1))
                {
                    let (first, others) =
                        (self.place(offset), self.place(offset.wrapping_add(scale)));
                    let thread = self.group.threads.first().unwrap_or(0);
                    return format!("{others}, of thread {thread} {first}");
                }
                format!("{} {scale:+} * {}", self.place(offset), base_name(base))
            }
        }
    }

    fn place(&self, place: i64) -> String {
        if let Some(offset) = own_offset(place).filter(|_| self.group.numbers.own_stacks) {
            return format!("own stack + {offset:#x}");
        }
        match self.addresses.segment(place as u64) {
            Some((segment, offset)) => {
                let kind = format!("{:?}", segment.kind).to_lowercase();
                let owner = segment.owner;
                format!("{kind} of {owner} {:#x} + {offset:#x}", segment.base)
            }
            None => format!("{place:#x}"),
        }
    }

    /// The steps of the loops around, in brackets.
    fn steps(&self, stream: &Stream) -> String {
        if stream.steps.is_empty() {
            return String::new();
        }
        let step = |(from_starts, runs): &(bool, Runs)| {
            let mark = if *from_starts { "" } else { "~" };
            let innermost = std::ptr::eq(runs, &stream.steps[stream.steps.len() - 1].1);
            match self.only(runs) {
                Some(line) if innermost => self.text(line, true),
                Some(line) => format!("{mark}{}", self.text(line, true)),
                None => "..".into(),
            }
        };
        let steps: Vec<String> = stream.steps.iter().map(step).collect();
        format!(" [{}]", steps.join(", "))
    }

    fn value(&self, runs: &Runs) -> String {
        match self.only(runs) {
            Some(line) => self.text(line, false),
            None => "..".into(),
        }
    }

    /// The line of a stream of one run.
    fn only(&self, runs: &Runs) -> Option<Affine> {
        match (runs.count(), runs.cycle()) {
            (1, 0) => self.group.numbers.columns.get(runs.current().0 as usize).copied(),
            _ => None,
        }
    }

    fn text(&self, line: Affine, signed: bool) -> String {
        match line {
            Affine::Constant(value) if signed => format!("{value:+}"),
            Affine::Constant(value) => value.to_string(),
            Affine::Over { base, scale, offset } => {
                let (base, plus) = (base_name(base), if signed { "+" } else { "" });
                match (scale, offset) {
                    (1, 0) => format!("{plus}{base}"),
                    (1, offset) => format!("{plus}{base} {offset:+}"),
                    (scale, 0) => format!("{plus}{scale} * {base}"),
                    (scale, offset) => format!("{plus}{scale} * {base} {offset:+}"),
                }
            }
        }
    }
}

fn base_name(base: u32) -> String {
    match base {
        0 => "thread".into(),
        base => format!("b{base}"),
    }
}
