//! Arguments as text: formulas of the rank, and of loop indices.

use super::ranks::{Words, over_ranks};
use refrain_format::define::ParamDef;
use refrain_format::record::segment;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::{constant_name, mask_names};
use refrain_reader::refrain_elastic::IdList;
use refrain_reader::refrain_nest::Seq;
use refrain_reader::refrain_nest::formulas::Pattern;
use refrain_reader::{Arg, CallTrace, Num, Object, Structure};
use std::collections::HashMap;

/// Longer arrays are not written out.
const LONGEST_ARRAY: usize = 8;

/// A part of an argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part<'t> {
    Number(i64),
    Over(Num<'t>),
    Text(String),
}

/// The arguments of the signatures of a group.
pub struct Wording<'t> {
    structure: Structure<'t>,
    family: Family,
    /// The ranks that are asked for.
    ranks: IdList,
    /// The rank, if there is only one.
    only: Option<u32>,
    /// Names of segments of memory.
    segments: HashMap<i64, String>,
}

/// A function that says how values depend on loop indices.
pub type Fit<'f> = dyn Fn(&Seq<i64>, bool) -> Pattern + 'f;

impl<'t> Wording<'t> {
    /// For some of the ranks of a group.
    pub fn new(trace: &CallTrace, structure: Structure<'t>, ranks: IdList) -> Wording<'t> {
        let only = ranks.first().filter(|_| ranks.len() == 1);
        let mut segments = HashMap::new();
        for note in structure.signatures().filter(|signature| signature.is_note()) {
            let Some(arguments) = note.variants().next() else { continue };
            let number = |name: &str| {
                let num = arguments.arg(name)?.int()?;
                num.on(only.or(arguments.ranks.first())?)
            };
            if let (Some(segment), Some(kind)) = (number("segment"), number("kind")) {
                let module = match arguments.arg("module") {
                    Some(Arg::Text(text)) => {
                        text.constant().map(|t| String::from_utf8_lossy(t).into_owned())
                    }
                    _ => None,
                };
                segments.insert(segment, segment_name(segment, kind, module.as_deref()));
            }
        }
        Wording { structure, family: trace.family(), ranks, only, segments }
    }

    /// The parameters of a signature that are shown: index and name.
    pub fn params(&self, signature: u32) -> Vec<(usize, &'t str)> {
        let Some(signature) = self.structure.signature(signature) else { return Vec::new() };
        let function = signature.function;
        if function.name.starts_with("MPI_Init") {
            return Vec::new();
        }
        let params = function.params.iter().enumerate().filter(|(_, param)| is_shown(param));
        params.map(|(at, param)| (at, param.name.as_str())).collect()
    }

    /// A parameter over the visits of a place; also the signature, if the parts of the argument are the same in all.
    pub fn over_visits(
        &self,
        param: usize,
        visits: &Seq<u32>,
        fit: &Fit<'_>,
        names: &[String],
    ) -> (String, Option<u32>) {
        let mut known: HashMap<u32, Vec<Part<'t>>> = HashMap::new();
        visits.tally(&mut |signature, _| {
            known.entry(signature).or_insert_with(|| self.parts(param, signature));
        });
        let first = visits.iter().next().unwrap_or(0);
        let Some(parts) = known.get(&first) else { return (String::new(), None) };
        if known.values().all(|other| other == parts) {
            let texts: Vec<String> =
                parts.iter().map(|part| self.part_text(param, first, part)).collect();
            return (joined(&texts), Some(first));
        }
        let is_alike = known.values().all(|other| other.len() == parts.len());
        let count = if is_alike { parts.len() } else { 1 };
        let mut texts = Vec::with_capacity(count);
        for at in 0..count {
            let is_number =
                is_alike && known.values().all(|parts| matches!(parts[at], Part::Number(_)));
            if is_number {
                let number = |signature: u32| match known.get(&signature).map(|parts| &parts[at]) {
                    Some(Part::Number(value)) => *value,
                    _ => 0,
                };
                let pattern = fit(&visits.map(number), true);
                texts.push(pattern.text(names, &|value| self.number(param, first, value, at > 0)));
                continue;
            }
            let mut words: Vec<String> = Vec::new();
            let mut codes: HashMap<u32, i64> = HashMap::new();
            let mut signatures: Vec<u32> = known.keys().copied().collect();
            signatures.sort_unstable();
            for signature in signatures {
                let parts = &known[&signature];
                let word = match is_alike {
                    true => self.part_text(param, signature, &parts[at]),
                    false => {
                        let all: Vec<String> = parts
                            .iter()
                            .map(|part| self.part_text(param, signature, part))
                            .collect();
                        joined(&all)
                    }
                };
                let code = words.iter().position(|known| *known == word).unwrap_or_else(|| {
                    words.push(word);
                    words.len() - 1
                });
                codes.insert(signature, code as i64);
            }
            let codes = visits.map(|signature| codes.get(&signature).copied().unwrap_or(0));
            texts.push(match fit(&codes, false) {
                Pattern::Between(_, _, count) if count > 4 => format!("one of {count}"),
                Pattern::Between(..) => format!("one of [{}]", words.join(", ")),
                pattern => pattern.text(names, &|code| words[code as usize].clone()),
            });
        }
        (joined(&texts), None)
    }

    /// What an argument is on each of the ranks: the text before the number, such as a segment, and the numbers. None if
    /// it is no number.
    pub fn on_ranks(&self, param: usize, signature: u32) -> Option<(String, Vec<(u32, i64)>)> {
        let (text, number) = match self.parts(param, signature).as_slice() {
            [number] => (String::new(), number.clone()),
            [Part::Text(segment), offset] => (segment.clone(), offset.clone()),
            _ => return None,
        };
        Some((text, self.numbers(&number)?))
    }

    /// A part on each of the ranks, if it is a number.
    pub(super) fn numbers(&self, part: &Part<'t>) -> Option<Vec<(u32, i64)>> {
        let number = |rank: u32| match part {
            Part::Number(value) => Some((rank, *value)),
            Part::Over(num) => Some((rank, num.on(rank)?)),
            Part::Text(_) => None,
        };
        self.ranks.iter().map(number).collect()
    }

    /// Numbers of ranks as an argument of a signature, with the text before them.
    pub fn over_ranks(
        &self,
        param: usize,
        signature: u32,
        text: &str,
        numbers: &[(u32, i64)],
    ) -> String {
        let numbers = self.numbers_text(param, signature, numbers, !text.is_empty());
        match text {
            "" => numbers,
            segment => joined(&[segment.to_owned(), numbers]),
        }
    }

    fn numbers_text(
        &self,
        param: usize,
        signature: u32,
        numbers: &[(u32, i64)],
        is_offset: bool,
    ) -> String {
        let are_ranks = self.param(param, signature).is_some_and(|param| param.reads_as == "rank");
        let number = |value: i64| self.number(param, signature, value, is_offset);
        let name = |value: i64| Some(number(value)).filter(|text| text.starts_with("MPI_"));
        over_ranks(numbers, &Words { name: &name, number: &number, are_ranks })
    }

    fn param(&self, param: usize, signature: u32) -> Option<&'t ParamDef> {
        self.structure.signature(signature)?.function.params.get(param)
    }

    /// The parts of an argument of a signature.
    pub(super) fn parts(&self, param: usize, signature: u32) -> Vec<Part<'t>> {
        let unknown = || vec![Part::Text("?".to_owned())];
        let Some(signature) = self.structure.signature(signature) else { return unknown() };
        let Some(def) = signature.function.params.get(param) else { return unknown() };
        let variants: Vec<_> = signature.variants().collect();
        let mut all = variants.iter();
        let found = match self.only {
            Some(rank) => all.find(|arguments| arguments.ranks.contains(rank)),
            None => all.next().filter(|_| variants.len() == 1),
        };
        let Some(arguments) = found else {
            return vec![Part::Text("differs by rank".to_owned())];
        };
        match arguments.arg(&def.name) {
            Some(arg) => self.arg(def, &arg),
            None => unknown(),
        }
    }

    fn num(&self, num: Num<'t>) -> Part<'t> {
        match (num, self.only) {
            (Num::Constant(value), _) => Part::Number(value),
            (num, Some(rank)) => num.on(rank).map_or(Part::Over(num), Part::Number),
            (num, None) => Part::Over(num),
        }
    }

    /// The name of an object of the program: `comm1`.
    fn object(&self, param: &ParamDef, number: Num<'t>) -> String {
        let kind = match param.reads_as.as_str() {
            "datatype" => "type",
            kind => kind,
        };
        match self.num(number) {
            Part::Number(number) => format!("{kind}{number}"),
            _ => format!("{kind}({number})"),
        }
    }

    fn arg(&self, param: &ParamDef, arg: &Arg<'t>) -> Vec<Part<'t>> {
        match arg {
            Arg::Int(num) => vec![self.num(*num)],
            Arg::Address { segment, offset } => match self.num(*segment) {
                Part::Number(segment) => {
                    let name = self.segments.get(&segment).cloned();
                    let name = name.unwrap_or_else(|| format!("mem{segment}"));
                    vec![Part::Text(name), self.num(*offset)]
                }
                segment => vec![Part::Text("mem".to_owned()), segment, self.num(*offset)],
            },
            Arg::Handle(Object::Own(number)) => {
                vec![Part::Text(self.object(param, *number))]
            }
            Arg::Handle(Object::Foreign { thread, number }) => {
                let object = self.object(param, *number);
                vec![Part::Text(format!("{object} of thread {thread}"))]
            }
            Arg::Text(text) => vec![Part::Text(match text.constant() {
                Some(text) => format!("{:?}", String::from_utf8_lossy(text)),
                None => "differs by rank".to_owned(),
            })],
            Arg::Numbers(array) => {
                let mut on_ranks = self.ranks.iter().map(|rank| array.on(rank, &[]));
                let elements = on_ranks.next().flatten().filter(|elements| {
                    elements.len() <= LONGEST_ARRAY
                        && on_ranks.all(|other| other.as_ref() == Some(elements))
                });
                vec![Part::Text(elements.map_or_else(|| array.to_string(), |e| format!("{e:?}")))]
            }
            other => vec![Part::Text(other.to_string())],
        }
    }

    /// A part as text.
    pub(super) fn part_text(&self, param: usize, signature: u32, part: &Part<'t>) -> String {
        match part {
            Part::Text(text) => text.clone(),
            part => {
                let class = self.param(param, signature).map(|param| param.class);
                match self.numbers(part) {
                    Some(numbers) => {
                        let is_offset = class == Some(Class::Memory);
                        self.numbers_text(param, signature, &numbers, is_offset)
                    }
                    None => "differs by rank".to_owned(),
                }
            }
        }
    }

    fn number(&self, param: usize, signature: u32, value: i64, is_offset: bool) -> String {
        let group = self.param(param, signature).map_or("number", |param| &param.reads_as);
        number_text(self.family, group, value, is_offset)
    }
}

/// A number as it is written for a kind of parameter, or as an offset in memory.
pub(super) fn number_text(family: Family, kind: &str, value: i64, is_offset: bool) -> String {
    if is_offset {
        return match value {
            0..10 => value.to_string(),
            _ if value < 0 => format!("-{:#x}", value.unsigned_abs()),
            _ => format!("{value:#x}"),
        };
    }
    match kind {
        "bool" => (value != 0).to_string(),
        "amode" | "assert" => mask_names(family, kind, value),
        "number" => value.to_string(),
        kind => constant_name(family, kind, value).map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// The parts of an argument, an address as `heap1 + 0x40`.
pub(super) fn joined(parts: &[String]) -> String {
    match parts {
        [segment, offset] if offset == "0" => segment.clone(),
        [segment, offset] => match offset.strip_prefix('-') {
            Some(offset) => format!("{segment} - {offset}"),
            None => format!("{segment} + {offset}"),
        },
        parts => parts.join(" "),
    }
}

/// Whether a parameter says something about the program: no requests, statuses and results.
fn is_shown(param: &ParamDef) -> bool {
    let is_object = param.class == Class::Handle && param.reads_as != "request";
    param.class != Class::Status
        && param.reads_as != "request"
        && (param.is_input() || is_object && param.direction != Direction::In)
}

fn segment_name(number: i64, kind: i64, module: Option<&str>) -> String {
    match kind as u8 {
        segment::HEAP => format!("heap{number}"),
        segment::STATIC => match module.and_then(|module| module.rsplit('/').next()) {
            Some(module) => module.to_owned(),
            None => format!("static{number}"),
        },
        segment::STACK => "stack".to_owned(),
        segment::DEVICE => format!("gpu{number}"),
        segment::MANAGED => format!("managed{number}"),
        segment::PINNED => format!("pinned{number}"),
        _ => format!("mem{number}"),
    }
}
