//! A structure as lines of text.
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
//! Threads are listed as ScalaMemTrace does: first, count, stride. A number that differs between threads
//! is a function of the thread; the bases that several numbers share are defined first. A part that
//! threads of several groups execute is printed as a group of its own, and its number stands where it is
//! executed.
//!
//! The brackets hold the strides, one for each loop around, the outermost first: how far the address (or
//! the trip count) advances from the beginning of that loop's last iteration, or, with `~`, from the value
//! before. `..` is a stride without a rule.

use std::fmt::Write;

use refrain_elastic::{Affine, Base, IdList};
use refrain_nest::Nest;

use super::{Descriptor, First, Leaf, Step, Structure, Tree, Trips};

use crate::block::{Blocks, Kind};
use crate::error::MemoryError;
use crate::segment::{Addresses, SegmentKind, own_offset};
use crate::thread_groups::Merged;

/// Something for which the caller may have a better name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// An instruction: a reference's program counter.
    Instruction(u64),
    /// A calling context: a block without references.
    Context(u32),
    /// Static data: an offset in a module's memory. An empty name if it has none.
    Data {
        /// The module's number.
        module: u32,
        /// From the beginning of its memory.
        offset: u64,
    },
}

/// Ranks or threads as ScalaMemTrace lists them (§2.2): `<first,count,stride>`, with more counts and
/// strides where sections repeat.
pub fn triples(list: &IdList) -> String {
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
    /// The structures of all groups as one text.
    pub fn structure_text(
        &self,
        blocks: &Blocks,
        addresses: &Addresses,
        name: &mut dyn FnMut(Name) -> String,
    ) -> Result<String, MemoryError> {
        let mut out = String::new();
        let mut append = |line: &str| -> Result<(), std::convert::Infallible> {
            out.push_str(line);
            out.push('\n');
            Ok(())
        };
        for group in &self.groups {
            let Ok(()) = group.structure(blocks)?.each_line(addresses, name, &mut append);
        }
        Ok(out)
    }
}

impl Structure {
    /// Calls `emit` with each line, until it returns an error.
    pub fn each_line<E>(
        &self,
        addresses: &Addresses,
        name: &mut dyn FnMut(Name) -> String,
        emit: &mut dyn FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut printer = Printer { structure: self, addresses, name, emit };
        printer.head()?;
        printer.body(&self.nest.body, 0)
    }
}

struct Printer<'a, E> {
    structure: &'a Structure,
    addresses: &'a Addresses,
    name: &'a mut dyn FnMut(Name) -> String,
    emit: &'a mut dyn FnMut(&str) -> Result<(), E>,
}

impl<E> Printer<'_, E> {
    fn head(&mut self) -> Result<(), E> {
        let threads = triples(&self.structure.threads);
        match self.structure.part {
            0 => (self.emit)(&format!("threads {threads}"))?,
            part => (self.emit)(&format!("threads {threads}, part {part}"))?,
        }
        for others in &self.structure.substitutes {
            for &(ours, theirs) in &others.blocks {
                let [ours, theirs] = [ours, theirs].map(|block| (self.name)(Name::Context(block)));
                let threads = triples(&others.threads);
                (self.emit)(&format!("where threads {threads} are {theirs}, not {ours}"))?;
            }
        }
        for (number, base) in (1..).zip(&self.structure.bases) {
            let text = match base {
                Base::Column(column) => column.to_string().replace("rank", "thread"),
                Base::Others => {
                    let first = self.structure.threads.first().unwrap_or(0);
                    format!("0 for thread {first}, 1 for others")
                }
                Base::Sum { of, scale, plus } => {
                    let summand = Affine::Over { base: *of, scale: *scale, offset: *plus };
                    format!("the sum of {} of all threads before", number_text(summand, false))
                }
            };
            (self.emit)(&format!("where b{number} is {text}"))?;
        }
        Ok(())
    }

    fn body(&mut self, body: &[Tree], depth: usize) -> Result<(), E> {
        body.iter().try_for_each(|node| self.node(node, depth))
    }

    fn node(&mut self, node: &Tree, depth: usize) -> Result<(), E> {
        let indent = "  ".repeat(depth);
        match node {
            Nest::Leaf(Leaf::Reference(descriptor)) => {
                let line = self.descriptor(descriptor);
                (self.emit)(&(indent + &line))
            }
            Nest::Leaf(Leaf::Context(block)) => {
                let context = (self.name)(Name::Context(*block));
                (self.emit)(&(indent + &context))
            }
            Nest::Leaf(Leaf::Part(part)) => {
                (self.emit)(&format!("{indent}part {part}, with other threads"))
            }
            Nest::Loop { count: Trips::Repeated(times), body } => {
                (self.emit)(&format!("{indent}{times} times:"))?;
                self.body(body, depth)
            }
            Nest::Loop { count: Trips::Loop { count, steps, exit }, body } => {
                let count = count.map_or("..".into(), |count| number_text(count, false));
                let steps = steps_text(steps);
                let exit = match exit {
                    0 => String::new(),
                    exit => format!(", left after {exit} of {}", body.len()),
                };
                (self.emit)(&format!("{indent}loop {count} times{steps}{exit}"))?;
                self.body(body, depth + 1)
            }
            Nest::Block(block) => match self.structure.nest.blocks.get(*block) {
                Some(body) => self.body(body, depth),
                None => Ok(()),
            },
        }
    }

    fn descriptor(&mut self, descriptor: &Descriptor) -> String {
        let kind = match descriptor.reference.kind {
            Kind::Load => "load",
            Kind::Store => "store",
            Kind::Atomic => "atomic",
        };
        let size = descriptor.reference.size;
        let first = self.first(descriptor.first);
        let steps = steps_text(&descriptor.steps);
        let instruction = (self.name)(Name::Instruction(descriptor.reference.pc));
        format!("{kind} {size} {first}{steps} {instruction}")
    }

    /// Where a reference begins.
    fn first(&mut self, first: First) -> String {
        match first {
            First::Irregular => "at irregular addresses".into(),
            First::FromLast(distance) => format!("{} from its last", number_text(distance, true)),
            First::At(Affine::Constant(logical)) => self.address(logical),
            First::At(Affine::Over { base, scale, offset }) => {
                let bases = &self.structure.bases;
                if let Some(Base::Others) = bases.get((base as usize).wrapping_sub(1)) {
                    let first = self.address(offset);
                    let others = self.address(offset.wrapping_add(scale));
                    let thread = self.structure.threads.first().unwrap_or(0);
                    return format!("{others}, of thread {thread} {first}");
                }
                format!("{} {scale:+} * {}", self.address(offset), base_name(base))
            }
        }
    }

    fn address(&mut self, logical: i64) -> String {
        if let Some(offset) = own_offset(logical).filter(|_| self.structure.own_stacks) {
            return format!("own stack + {offset:#x}");
        }
        match self.addresses.segment(logical as u64) {
            Some((segment, offset)) => {
                if segment.kind == SegmentKind::Module {
                    let name = (self.name)(Name::Data { module: segment.owner, offset });
                    if !name.is_empty() {
                        return name;
                    }
                }
                let kind = format!("{:?}", segment.kind).to_lowercase();
                let owner = segment.owner;
                format!("{kind} of {owner} {:#x} + {offset:#x}", segment.base)
            }
            None => format!("{logical:#x}"),
        }
    }
}

/// Strides in brackets; nothing if there are none.
fn steps_text(steps: &[Step]) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let step = |step: &Step| match (step.stride, step.from_previous) {
        (Some(stride), true) => format!("~{}", number_text(stride, true)),
        (Some(stride), false) => number_text(stride, true),
        (None, _) => "..".into(),
    };
    format!(" [{}]", steps.iter().map(step).collect::<Vec<String>>().join(", "))
}

fn number_text(number: Affine, signed: bool) -> String {
    match number {
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

fn base_name(base: u32) -> String {
    match base {
        0 => "thread".into(),
        base => format!("b{base}"),
    }
}
