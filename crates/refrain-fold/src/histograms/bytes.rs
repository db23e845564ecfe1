//! The bytes of a histogram trace.
//!
//! Numbers are varints. A program is its thread, its ranks and its body; a node is its ranks (0 and a list, or 1 and their
//! number), then 0 and a call, 1, trip counts and a body, or 2, conditions and a body. The ranks of columns are those of
//! the node.

use super::{
    Argument, Bin, Call, Histogram, HistogramTrace, Node, Over, Part, Program, Ranks, Values, What,
};
use refrain_elastic::{Column, IdList};
use refrain_nest::Seq;
use refrain_nest::formulas::{Holds, Pattern, Rule};
use refrain_nest::seq;
use refrain_signature::cells::{Cells, put, put_bytes, put_list, put_unsigned};
use refrain_structure::functions;
use refrain_structure::read::ReadError;

/// The version of the section.
const VERSION: u64 = 1;
/// Ranks are below this number.
const MOST_RANKS: u32 = 1 << 20;
/// Nodes and vectors nest at most this deep.
const DEEPEST: usize = 400;

/// Writes a histogram trace.
pub fn write(trace: &HistogramTrace) -> Vec<u8> {
    let mut out = Vec::new();
    put_unsigned(&mut out, VERSION);
    put_unsigned(&mut out, trace.above);
    put_unsigned(&mut out, trace.seed);
    functions::put(&mut out, &trace.functions);
    put_list(&mut out, trace.programs.iter(), |out, program| {
        put_unsigned(out, program.thread.into());
        put_ranks(out, &program.ranks);
        put_body(out, &program.body);
    });
    out
}

/// Reads what [`write`] wrote. Arbitrary bytes never cause a panic.
pub fn read(bytes: &[u8]) -> Result<HistogramTrace, ReadError> {
    let mut cells = Cells::new(bytes);
    let version = cells.get_unsigned();
    if let Some(version) = version.filter(|version| *version != VERSION) {
        return Err(ReadError { what: format!("version {version}; this Refrain reads {VERSION}") });
    }
    let read = (|| {
        let trace = HistogramTrace {
            above: cells.get_unsigned()?,
            seed: cells.get_unsigned()?,
            functions: functions::get(&mut cells)?,
            programs: cells.get_list(|cells| {
                let (thread, ranks) = (cells.get_u32()?, ranks(cells)?);
                Some(Program { thread, ranks, body: body(cells, 0)? })
            })?,
        };
        cells.is_empty().then_some(trace)
    })();
    read.ok_or_else(|| ReadError { what: "malformed histograms".into() })
}

fn put_ranks(out: &mut Vec<u8>, ranks: &IdList) {
    let mut bytes = Vec::new();
    ranks.encode(&mut bytes);
    put_bytes(out, &bytes);
}

fn ranks(cells: &mut Cells<'_>) -> Option<IdList> {
    let mut bytes = cells.get_bytes()?;
    let list = IdList::decode(&mut bytes, MOST_RANKS).ok()?;
    bytes.is_empty().then_some(list)
}

fn put_body(out: &mut Vec<u8>, body: &[Node]) {
    put_list(out, body.iter(), |out, node| {
        match &node.ranks {
            Ranks::Listed(ranks) => {
                out.push(0);
                put_ranks(out, ranks);
            }
            Ranks::Some(count) => {
                out.push(1);
                put_unsigned(out, (*count).into());
            }
        }
        match &node.what {
            What::Call(call) => {
                out.push(0);
                put_call(out, call);
            }
            What::Loop { trips, body } => {
                out.push(1);
                put_values(out, trips);
                put_body(out, body);
            }
            What::If { holds, body } => {
                out.push(2);
                put_values(out, holds);
                put_body(out, body);
            }
        }
    });
}

fn body(cells: &mut Cells<'_>, depth: usize) -> Option<Vec<Node>> {
    if depth > DEEPEST {
        return None;
    }
    cells.get_list(|cells| {
        let ranks = match cells.get_unsigned()? {
            0 => Ranks::Listed(ranks(cells)?),
            1 => Ranks::Some(cells.get_u32()?),
            _ => return None,
        };
        let what = match cells.get_unsigned()? {
            0 => What::Call(call(cells)?),
            1 => What::Loop { trips: values(cells)?, body: body(cells, depth + 1)? },
            2 => What::If { holds: values(cells)?, body: body(cells, depth + 1)? },
            _ => return None,
        };
        Some(Node { ranks, what })
    })
}

fn put_call(out: &mut Vec<u8>, call: &Call) {
    put_unsigned(out, u64::from(call.function) << 1 | u64::from(call.returned));
    put_list(out, call.sites.iter(), |out, site| put_bytes(out, site));
    put_list(out, call.arguments.iter(), |out, argument| {
        put_unsigned(out, argument.param.into());
        put_list(out, argument.parts.iter(), |out, part| match part {
            Part::Number(values) => {
                out.push(0);
                put_values(out, values);
            }
            Part::Word { words, left_out, which } => {
                out.push(1);
                put_list(out, words.iter(), |out, word| put_bytes(out, word.as_bytes()));
                put_unsigned(out, *left_out);
                put_values(out, which);
            }
        });
    });
    put_list(out, call.requests.iter(), |out, place| put_unsigned(out, (*place).into()));
    [call.calls, call.nanoseconds, call.gaps].iter().for_each(|n| put_unsigned(out, *n));
}

fn call(cells: &mut Cells<'_>) -> Option<Call> {
    let head = cells.get_unsigned()?;
    Some(Call {
        function: u16::try_from(head >> 1).ok()?,
        returned: head & 1 == 1,
        sites: cells.get_list(|cells| cells.get_bytes().map(<[u8]>::to_vec))?,
        arguments: cells.get_list(|cells| {
            let param = u16::try_from(cells.get_unsigned()?).ok()?;
            let parts = cells.get_list(|cells| match cells.get_unsigned()? {
                0 => values(cells).map(Part::Number),
                1 => Some(Part::Word {
                    words: cells.get_list(Cells::get_text)?,
                    left_out: cells.get_unsigned()?,
                    which: values(cells)?,
                }),
                _ => None,
            })?;
            Some(Argument { param, parts })
        })?,
        requests: cells.get_list(Cells::get_u32)?,
        calls: cells.get_unsigned()?,
        nanoseconds: cells.get_unsigned()?,
        gaps: cells.get_unsigned()?,
    })
}

fn put_values(out: &mut Vec<u8>, values: &Values) {
    match values {
        Values::Ranks(column) => {
            out.push(0);
            let mut bytes = Vec::new();
            column.encode(&mut bytes);
            put_bytes(out, &bytes);
        }
        Values::Visits(sets) => {
            out.push(1);
            put_list(out, sets.iter(), |out, (ranks, over)| {
                put_ranks(out, ranks);
                put_over(out, over);
            });
        }
        Values::Histogram(Histogram { relative, bins }) => {
            out.push(2);
            put_unsigned(out, relative.map_or(0, u64::from));
            let mut last = 0i64;
            put_list(out, bins.iter(), |out, bin| {
                put(out, bin.low.wrapping_sub(last));
                put_unsigned(out, bin.high.abs_diff(bin.low));
                put_unsigned(out, bin.count);
                put_unsigned(out, bin.excess);
                last = bin.high;
            });
        }
    }
}

fn values(cells: &mut Cells<'_>) -> Option<Values> {
    Some(match cells.get_unsigned()? {
        0 => {
            let mut bytes = cells.get_bytes()?;
            let column = Column::decode(&mut bytes, MOST_RANKS).ok()?;
            Values::Ranks(column).into_if(bytes.is_empty())?
        }
        1 => Values::Visits(cells.get_list(|cells| Some((ranks(cells)?, over(cells)?)))?),
        2 => {
            let relative = cells.get_u32()?;
            let mut last = 0i64;
            let bins = cells.get_list(|cells| {
                let low = last.wrapping_add(cells.get()?);
                let high = low.checked_add_unsigned(cells.get_unsigned()?)?;
                last = high;
                Some(Bin { low, high, count: cells.get_unsigned()?, excess: cells.get_unsigned()? })
            })?;
            Values::Histogram(Histogram { relative: Some(relative).filter(|r| *r > 0), bins })
        }
        _ => return None,
    })
}

impl Values {
    fn into_if(self, is_right: bool) -> Option<Values> {
        is_right.then_some(self)
    }
}

fn put_over(out: &mut Vec<u8>, over: &Over) {
    match over {
        Over::Formula(Pattern::Affine(base, terms)) => {
            out.push(1);
            put(out, *base);
            put_list(out, terms.iter(), |out, (index, factor)| {
                put_unsigned(out, *index as u64);
                put(out, *factor);
            });
        }
        Over::Formula(Pattern::Table { index, values, wraps }) => {
            out.push(2);
            put_unsigned(out, (*index as u64) << 1 | u64::from(*wraps));
            put_list(out, values.iter(), |out, value| put(out, *value));
        }
        Over::Formula(Pattern::Constant(value) | Pattern::Between(value, ..)) => {
            out.push(0);
            put(out, *value);
        }
        Over::Rule(Rule { index, holds }) => {
            out.push(3);
            put_unsigned(out, *index as u64);
            let (code, one, two) = match *holds {
                Holds::Is(one) => (0, one, 0),
                Holds::Last(one) => (1, one, 0),
                Holds::Not(one) => (2, one, 0),
                Holds::AtMost(one) => (3, one, 0),
                Holds::AtLeast(one) => (4, one, 0),
                Holds::Between(one, two) => (5, one, two),
                Holds::Remainder(one, two) => (6, one, two),
                Holds::NotRemainder(one, two) => (7, one, two),
            };
            out.push(code);
            put_unsigned(out, one.into());
            put_unsigned(out, two.into());
        }
        Over::Sequence(values) => {
            out.push(4);
            put_sequence(out, values);
        }
    }
}

fn over(cells: &mut Cells<'_>) -> Option<Over> {
    let index = |cells: &mut Cells<'_>| Some(cells.get_u32()? as usize);
    Some(match cells.get_unsigned()? {
        0 => Over::Formula(Pattern::Constant(cells.get()?)),
        1 => {
            let base = cells.get()?;
            let terms = cells.get_list(|cells| Some((index(cells)?, cells.get()?)))?;
            Over::Formula(Pattern::Affine(base, terms))
        }
        2 => {
            let head = index(cells)?;
            let values = cells.get_list(Cells::get)?;
            Over::Formula(Pattern::Table { index: head >> 1, values, wraps: head & 1 == 1 })
        }
        3 => {
            let index = index(cells)?;
            let (code, one, two) = (cells.get_unsigned()?, cells.get_u32()?, cells.get_u32()?);
            let holds = match code {
                0 => Holds::Is(one),
                1 => Holds::Last(one),
                2 => Holds::Not(one),
                3 => Holds::AtMost(one),
                4 => Holds::AtLeast(one),
                5 => Holds::Between(one, two),
                6 => Holds::Remainder(one, two),
                7 => Holds::NotRemainder(one, two),
                _ => return None,
            };
            Over::Rule(Rule { index, holds })
        }
        4 => Over::Sequence(sequence(cells, 0)?),
        _ => return None,
    })
}

fn put_sequence(out: &mut Vec<u8>, values: &Seq<i64>) {
    let parts: Vec<seq::Part<'_, i64>> = values.parts().collect();
    put_list(out, parts.into_iter(), |out, part| match part {
        seq::Part::Run(value, count) => {
            put_unsigned(out, count << 1);
            put(out, value);
        }
        seq::Part::Group(inner, count) => {
            put_unsigned(out, count << 1 | 1);
            put_sequence(out, inner);
        }
    });
}

fn sequence(cells: &mut Cells<'_>, depth: usize) -> Option<Seq<i64>> {
    if depth > DEEPEST {
        return None;
    }
    let mut all = Seq::default();
    for _ in 0..cells.get_length()? {
        let head = cells.get_unsigned()?;
        match head & 1 {
            0 => all.push(cells.get()?, head >> 1),
            _ => {
                let inner = sequence(cells, depth + 1)?;
                all.append(inner.repeat(head >> 1));
            }
        }
    }
    Some(all)
}
