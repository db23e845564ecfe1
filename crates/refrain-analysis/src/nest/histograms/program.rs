//! A histogram trace as a program that people read, and drawn calls as text.

use crate::nest::arguments::{joined, number_text};
use crate::nest::ranks::{Words, over_ranks};
use crate::nest::{Node, Program, What, index_name};
use refrain_format::define::{FunctionDef, ParamDef};
use refrain_mpi::abi::Family;
use refrain_mpi::kind::Class;
use refrain_reader::CallTrace;
use refrain_reader::refrain_elastic::IdList;
use refrain_reader::refrain_fold::histograms::{
    self, Bin, Call, Drawn, Histogram, HistogramTrace, Over, Part, Ranks, Values,
};
use refrain_reader::refrain_nest::Seq;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Histograms are printed with at most so many bins.
const MOST_BINS: usize = 6;
/// Sets of ranks with a text each.
const MOST_TEXTS: usize = 4;

/// The definitions of functions by number.
fn functions(trace: &HistogramTrace) -> BTreeMap<u16, FunctionDef> {
    let read =
        |(number, text): (&u16, &String)| Some((*number, FunctionDef::from_text(text).ok()?));
    trace.functions.iter().filter_map(read).collect()
}

/// The programs of a histogram trace, by thread number.
pub fn programs(trace: &CallTrace, histograms: &HistogramTrace) -> Vec<Program> {
    let printer = Printer { family: trace.family(), functions: functions(histograms) };
    let program = |program: &histograms::Program| {
        let body = printer.body(&program.body, &program.ranks, &mut Vec::new());
        let calls = body.iter().map(|node| node.calls).sum();
        let nanoseconds = body.iter().map(|node| node.nanoseconds).sum();
        Program { thread: program.thread, ranks: program.ranks.clone(), body, calls, nanoseconds }
    };
    histograms.programs.iter().map(program).collect()
}

/// Drawn calls as text.
#[derive(Debug)]
pub struct Texts(Printer);

impl Texts {
    /// Of calls of that trace.
    pub fn of(trace: &CallTrace, histograms: &HistogramTrace) -> Texts {
        Texts(Printer { family: trace.family(), functions: functions(histograms) })
    }

    /// The function of a call, and its arguments by name.
    pub fn call(&self, drawn: &Drawn<'_>) -> (String, Vec<(String, String)>) {
        self.0.drawn(drawn)
    }
}

#[derive(Debug)]
struct Printer {
    family: Family,
    functions: BTreeMap<u16, FunctionDef>,
}

impl Printer {
    fn body(
        &self,
        body: &[histograms::Node],
        around: &IdList,
        names: &mut Vec<String>,
    ) -> Vec<Node> {
        body.iter().map(|node| self.node(node, around, names)).collect()
    }

    fn node(&self, node: &histograms::Node, around: &IdList, names: &mut Vec<String>) -> Node {
        let ranks = match &node.ranks {
            Ranks::Listed(ranks) => ranks,
            Ranks::Some(_) => around,
        };
        let number = |value: i64| value.to_string();
        let (what, calls, nanoseconds) = match &node.what {
            histograms::What::Call(call) => {
                (self.call(call, names), call.calls, call.nanoseconds as f64)
            }
            histograms::What::Loop { trips, body } => {
                let text = self.values(trips, names, false, &number);
                let count = constant(trips).and_then(|count| u64::try_from(count).ok());
                let index = index_name(names.len());
                names.push(index.clone());
                let body = self.body(body, ranks, names);
                names.pop();
                let (calls, time) = totals(&body);
                (What::Loop { index, trips: text, count, body }, calls, time)
            }
            histograms::What::If { holds, body } => {
                let condition = self.condition(holds, names);
                let body = self.body(body, ranks, names);
                let (calls, time) = totals(&body);
                (What::If { condition, body }, calls, time)
            }
        };
        let node_of =
            |ranks: &IdList, what| Node { ranks: ranks.clone(), calls, nanoseconds, what };
        match &node.ranks {
            Ranks::Listed(ranks) => node_of(ranks, what),
            Ranks::Some(count) => {
                let condition = format!("on {count} of {} ranks", around.len());
                node_of(around, What::If { condition, body: vec![node_of(around, what)] })
            }
        }
    }

    fn call(&self, call: &Call, names: &[String]) -> What {
        let mut sites = call.sites.iter().map(|site| Arc::from(String::from_utf8_lossy(site)));
        let function = self.functions.get(&call.function);
        let mut arguments = Vec::new();
        for argument in &call.arguments {
            let Some(param) = function.and_then(|f| f.params.get(usize::from(argument.param)))
            else {
                continue;
            };
            let part = |(at, part): (usize, &Part)| self.part(param, at, part, names);
            let parts: Vec<String> = argument.parts.iter().enumerate().map(part).collect();
            arguments.push((param.name.clone(), joined(&parts)));
        }
        What::Call {
            function: function.map_or_else(|| "?".to_owned(), |function| function.name.clone()),
            arguments,
            returned: call.returned,
            site: sites.next(),
            others: sites.collect(),
        }
    }

    fn part(&self, param: &ParamDef, at: usize, part: &Part, names: &[String]) -> String {
        match part {
            Part::Number(values) => {
                let number = |value| self.number(param, at, value);
                self.values(values, names, param.reads_as == "rank", &number)
            }
            Part::Word { words, left_out: 0, which } => {
                let word = |at: i64| {
                    let word = usize::try_from(at).ok().and_then(|at| words.get(at));
                    word.cloned().unwrap_or_else(|| "?".to_owned())
                };
                match which {
                    Values::Histogram(histogram) => {
                        let word = |bin: &Bin| share(&word(bin.low), bin.count, histogram.total());
                        let all: Vec<String> =
                            histogram.bins.iter().take(MOST_BINS).map(word).collect();
                        format!("<{}>", all.join(", "))
                    }
                    which => self.values(which, names, false, &word),
                }
            }
            Part::Word { words, left_out, .. } => {
                format!("one of {}", words.len() as u64 + left_out)
            }
        }
    }

    fn number(&self, param: &ParamDef, at: usize, value: i64) -> String {
        let is_offset = at > 0 || param.class == Class::Memory;
        number_text(self.family, &param.reads_as, value, is_offset)
    }

    /// Values as text: a formula, or a histogram as `<3: 40%, 4..9: 60%>`.
    fn values(
        &self,
        values: &Values,
        names: &[String],
        are_ranks: bool,
        number: &dyn Fn(i64) -> String,
    ) -> String {
        match values {
            Values::Ranks(column) => {
                let (ranks, values) = column.expand();
                let all: Vec<(u32, i64)> = ranks.into_iter().zip(values).collect();
                let name = |value: i64| Some(number(value)).filter(|text| text.starts_with("MPI_"));
                over_ranks(&all, &Words { name: &name, number, are_ranks })
            }
            Values::Visits(sets) => {
                let one = |over: &Over| match over {
                    Over::Formula(pattern) => pattern.text(names, number),
                    Over::Rule(rule) => rule.text(names),
                    Over::Sequence(all) => sequence(all, number),
                };
                match sets.as_slice() {
                    [(_, over)] => one(over),
                    sets if sets.len() > MOST_TEXTS => {
                        format!("differs by rank ({} variants)", sets.len())
                    }
                    sets => {
                        let set =
                            |(ranks, over): &(IdList, Over)| format!("{ranks}: {}", one(over));
                        format!("{{{}}}", sets.iter().map(set).collect::<Vec<_>>().join("; "))
                    }
                }
            }
            Values::Histogram(histogram) => histogram_text(histogram, number),
        }
    }

    fn condition(&self, holds: &Values, names: &[String]) -> String {
        let held = |value: i64| if value > 0 { "always" } else { "never" }.to_owned();
        match holds {
            Values::Histogram(histogram) => {
                let times =
                    histogram.bins.iter().filter(|bin| bin.low > 0).map(|bin| bin.count).sum();
                share("at random", times, histogram.total())
            }
            Values::Visits(sets) => match sets.as_slice() {
                [(_, Over::Sequence(all))] => {
                    let times = all.map(|held| held.max(0) as u64).sum();
                    format!("in {times} of {} visits", all.len())
                }
                _ => self.values(holds, names, false, &held),
            },
            holds => self.values(holds, names, false, &held),
        }
    }

    fn drawn(&self, drawn: &Drawn<'_>) -> (String, Vec<(String, String)>) {
        let function = self.functions.get(&drawn.call.function);
        let mut all = Vec::new();
        for (argument, values) in drawn.call.arguments.iter().zip(&drawn.values) {
            let Some(param) = function.and_then(|f| f.params.get(usize::from(argument.param)))
            else {
                continue;
            };
            let part = |(at, (part, value)): (usize, (&Part, &Option<i64>))| match (part, value) {
                (Part::Number(_), Some(value)) => self.number(param, at, *value),
                (Part::Word { words, .. }, Some(value)) => {
                    let word = usize::try_from(*value).ok().and_then(|at| words.get(at));
                    word.cloned().unwrap_or_else(|| "?".to_owned())
                }
                (_, None) => "?".to_owned(),
            };
            let parts: Vec<String> =
                argument.parts.iter().zip(values).enumerate().map(part).collect();
            all.push((param.name.clone(), joined(&parts)));
        }
        (function.map_or_else(|| "?".to_owned(), |function| function.name.clone()), all)
    }
}

fn totals(body: &[Node]) -> (u64, f64) {
    (body.iter().map(|node| node.calls).sum(), body.iter().map(|node| node.nanoseconds).sum())
}

/// The value, if it is always the same.
fn constant(values: &Values) -> Option<i64> {
    match values {
        Values::Ranks(column) => {
            let (_, values) = column.expand();
            let first = *values.first()?;
            values.iter().all(|value| *value == first).then_some(first)
        }
        _ => None,
    }
}

/// `text: 12%`.
fn share(text: &str, part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        share if share < 0.5 => format!("{text}: <1%"),
        share => format!("{text}: {share:.0}%"),
    }
}

fn histogram_text(histogram: &Histogram, number: &dyn Fn(i64) -> String) -> String {
    let total = histogram.total();
    // Neighbours with the fewest values are printed as one.
    let mut bins = histogram.bins.clone();
    while bins.len() > MOST_BINS {
        let Some(at) = (0..bins.len() - 1).min_by_key(|at| bins[*at].count + bins[at + 1].count)
        else {
            break;
        };
        let next = bins.remove(at + 1);
        bins[at].high = next.high;
        bins[at].count = bins[at].count.saturating_add(next.count);
    }
    let text = |bin: &Bin| {
        let value = |value: i64| match (histogram.relative, value) {
            (Some(ranks), 0..) => match (value, i64::from(ranks) - value) {
                (0, _) => "rank".to_owned(),
                (up, down) if up <= down => format!("rank + {up}"),
                (_, down) => format!("rank - {down}"),
            },
            _ => number(value),
        };
        let range = match bin.low == bin.high {
            true => value(bin.low),
            false => format!("{}..{}", value(bin.low), value(bin.high)),
        };
        share(&range, bin.count, total)
    };
    let all: Vec<String> = bins.iter().map(text).collect();
    format!("<{}>", all.join(", "))
}

/// A vector that follows no formula.
fn sequence(all: &Seq<i64>, number: &dyn Fn(i64) -> String) -> String {
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    let mut distinct = std::collections::BTreeSet::new();
    all.tally(&mut |value, _| {
        (low, high) = (low.min(value), high.max(value));
        distinct.insert(value);
    });
    match distinct.len() {
        0 => String::new(),
        1 => number(low),
        count => format!("{}..{} ({count} values)", number(low), number(high)),
    }
}
