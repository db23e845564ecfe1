//! `refrain show --structure` of a trace of calls: the loop nest as pseudo-code.
//!
//! ```text
//!  calls   time
//!  97.6%  88.2%  for i in 0..100
//!   2.7%   4.0%    MPI_Irecv(buf=heap1 + 0x8, count=64, MPI_DOUBLE, source=rank - 1, tag=1, comm1)  main stencil.c:44
//!   0.1%  30.1%    if i mod 10 == 9
//!   0.1%  30.1%      MPI_Allreduce(…)                                                                main stencil.c:66
//! ```

use super::Args;
use crate::stdout::Lines;
use anyhow::{Result, bail};
use refrain_analysis::nest::{Node, Program, What, histograms, programs};
use refrain_analysis::sites::{Frame, Sites};
use refrain_reader::CallTrace;
use refrain_reader::refrain_elastic::IdList;
use refrain_reader::refrain_nest::Options;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

/// Call sites begin no further right than this.
const WIDEST: usize = 100;
/// Arguments without a name: the value says what it is.
const NAMELESS: [&str; 4] = ["comm", "datatype", "op", "win"];

/// Prints.
pub fn run(trace: &CallTrace, args: &Args, ranks: Option<&BTreeSet<i32>>) -> Result<ExitCode> {
    if !args.function.is_empty() || args.times {
        bail!(
            "--structure prints all functions, and shares of time: leave --function and --times out"
        );
    }
    let wanted: Option<BTreeSet<u32>> = ranks.map(|ranks| {
        let is_wanted = |process: &refrain_reader::ProcessRef<'_>| ranks.contains(&process.rank());
        trace.processes().filter(is_wanted).map(|process| process.rank_index()).collect()
    });
    let mut sites = Sites::recorded_at(trace.meta().time.0);
    let mut all = match trace.histograms()? {
        Some(_) if args.rank.is_some() || args.fuzzy_frames.is_some() => bail!(
            "{} has histograms over all ranks: leave --rank and --fuzzy-frames out, or use the trace \
             that it was made of",
            args.trace.display()
        ),
        Some(histograms) => {
            super::say_histograms(&args.trace, histograms);
            histograms::programs(trace, histograms)
        }
        None => {
            let frames = args.fuzzy_frames.unwrap_or(trace.fuzzy_frames()?);
            let options = Options { frames, ..Options::default() };
            programs(trace, wanted.as_ref(), options, &mut |site| lines(&mut sites, site))?
        }
    };
    all.retain(|program| args.thread.is_none_or(|thread| thread == program.thread));
    if all.is_empty() {
        bail!("no such rank or thread in {}", args.trace.display());
    }
    let threads = all.len();
    let mut printer = Printer {
        sites,
        depth: args.depth.unwrap_or(u32::MAX),
        lines: Vec::new(),
        calls: 0,
        nanoseconds: 0.0,
    };
    let mut out = Lines::new();
    for program in &all {
        if args.json {
            out.json(&printer.json(program).to_string())?;
            continue;
        }
        printer.program(program, threads > 1);
    }
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    for line in printer.laid_out().into_iter().take(limit) {
        out.line(&line)?;
    }
    out.finish()?;
    super::warn_of_changed_modules(&printer.sites);
    Ok(ExitCode::SUCCESS)
}

/// The loops and calls of a program, without shares and call sites.
pub fn outline(program: &Program) -> Vec<String> {
    let sites = Sites::recorded_at(0);
    let lines = Vec::new();
    let mut printer = Printer { sites, depth: u32::MAX, lines, calls: 0, nanoseconds: 0.0 };
    printer.program(program, true);
    printer.lines.into_iter().skip(1).map(|line| line.text).collect()
}

/// A line of the listing.
struct Line {
    shares: String,
    text: String,
    site: String,
}

struct Printer {
    sites: Sites,
    /// Loops nested deeper are not printed.
    depth: u32,
    lines: Vec<Line>,
    /// All calls of the program.
    calls: u64,
    nanoseconds: f64,
}

impl Printer {
    fn program(&mut self, program: &Program, is_threaded: bool) {
        (self.calls, self.nanoseconds) = (program.calls, program.nanoseconds);
        let mut head = match program.ranks.len() {
            1 => format!("rank {}", program.ranks),
            _ => format!("ranks {}", program.ranks),
        };
        if is_threaded {
            head += &format!(", thread {}", program.thread);
        }
        let shares = " calls   time".to_owned();
        self.lines.push(Line { shares, text: head, site: String::new() });
        self.body(&program.body, &program.ranks, 0, 1);
    }

    /// The nodes of a body that `around` executes. Nodes of other ranks are put under a guard.
    fn body(&mut self, body: &[Node], around: &IdList, depth: u32, indent: usize) {
        let is_same = |a: &IdList, b: &IdList| a.len() == b.len() && a.to_string() == b.to_string();
        for nodes in body.chunk_by(|a, b| is_same(&a.ranks, &b.ranks)) {
            let ranks = &nodes[0].ranks;
            let mut indent = indent;
            if ranks.len() != around.len() {
                let word = if ranks.len() == 1 { "rank" } else { "ranks" };
                self.line(nodes, indent, format!("{word} {ranks}:"), String::new());
                indent += 1;
            }
            nodes.iter().for_each(|node| self.node(node, depth, indent));
        }
    }

    fn node(&mut self, node: &Node, depth: u32, indent: usize) {
        let these = std::slice::from_ref(node);
        match &node.what {
            What::Call { function, arguments, returned, site, others } => {
                let arguments: Vec<String> = arguments.iter().map(argument).collect();
                let never = if *returned { "" } else { "  never returned" };
                let text = format!("{function}({}){never}", arguments.join(", "));
                let site = site.as_ref().map(|site| stack(&self.sites.frames(site)));
                let mut site = site.unwrap_or_default();
                let others: BTreeSet<String> =
                    others.iter().map(|site| stack(&self.sites.frames(site))).collect();
                match others.iter().filter(|other| **other != site).count() {
                    0 => {}
                    others => site += &format!(" and {others} more"),
                }
                self.line(these, indent, text, site);
            }
            What::Loop { index, trips, count, body } => {
                let head = match count {
                    Some(count) => format!("for {index} in 0..{count}"),
                    None => format!("for {index} in 0..n   n = {trips}"),
                };
                self.inner(node, body, head, depth + 1, indent);
            }
            What::If { condition, body } => {
                self.inner(node, body, format!("if {condition}"), depth, indent);
            }
        }
    }

    fn inner(&mut self, node: &Node, body: &[Node], head: String, depth: u32, indent: usize) {
        let is_hidden = depth > self.depth;
        let head = if is_hidden { head + "  …" } else { head };
        self.line(std::slice::from_ref(node), indent, head, String::new());
        if !is_hidden {
            self.body(body, &node.ranks, depth, indent + 1);
        }
    }

    fn line(&mut self, nodes: &[Node], indent: usize, text: String, site: String) {
        let calls: u64 = nodes.iter().map(|node| node.calls).sum();
        let nanoseconds: f64 = nodes.iter().map(|node| node.nanoseconds).sum();
        let share = |part: f64, whole: f64| match part / whole * 100.0 {
            share if share.is_nan() || share < 0.05 => "      ".to_owned(),
            share => format!("{share:5.1}%"),
        };
        let calls = share(calls as f64, self.calls as f64);
        let time = share(nanoseconds, self.nanoseconds);
        let shares = format!("{calls} {time}");
        self.lines.push(Line { shares, text: "  ".repeat(indent) + &text, site });
    }

    /// The lines, with call sites in one column.
    fn laid_out(&mut self) -> Vec<String> {
        let width = |line: &Line| line.text.chars().count();
        let sited = self.lines.iter().filter(|line| !line.site.is_empty());
        let column = sited.map(width).filter(|width| *width <= WIDEST).max().unwrap_or(0);
        let line = |line: Line| {
            let Line { shares, text, site } = line;
            let text = match site.is_empty() {
                true => format!("{shares:13}  {text}"),
                false => {
                    let room = column.saturating_sub(text.chars().count());
                    format!("{shares:13}  {text}{}  {site}", " ".repeat(room))
                }
            };
            text.trim_end().to_owned()
        };
        self.lines.drain(..).map(line).collect()
    }

    fn json(&mut self, program: &Program) -> Json {
        json!({
            "thread": program.thread,
            "ranks": program.ranks.to_string(),
            "calls": program.calls,
            "time_ns": program.nanoseconds.round(),
            "body": self.json_body(&program.body, 0),
        })
    }

    fn json_body(&mut self, body: &[Node], depth: u32) -> Vec<Json> {
        body.iter().map(|node| self.json_node(node, depth)).collect()
    }

    fn json_node(&mut self, node: &Node, depth: u32) -> Json {
        let mut json = json!({
            "ranks": node.ranks.to_string(),
            "calls": node.calls,
            "time_ns": node.nanoseconds.round(),
        });
        match &node.what {
            What::Call { function, arguments, returned, site, others } => {
                json["function"] = function.as_str().into();
                let arguments =
                    arguments.iter().map(|(name, text)| (name.clone(), text.as_str().into()));
                json["arguments"] = Json::Object(arguments.collect());
                json["returned"] = (*returned).into();
                if let Some(site) = site {
                    json["site"] = self.sites.frames(site).iter().map(Frame::json).collect();
                }
                if !others.is_empty() {
                    let frames = |site| -> Json {
                        self.sites.frames(site).iter().map(Frame::json).collect()
                    };
                    json["other_sites"] = others.iter().map(frames).collect();
                }
            }
            What::Loop { index, trips, count, body } => {
                json["index"] = index.as_str().into();
                json["count"] = (*count).into();
                json["trips"] = trips.as_str().into();
                if depth < self.depth {
                    json["body"] = self.json_body(body, depth + 1).into();
                }
            }
            What::If { condition, body } => {
                json["condition"] = condition.as_str().into();
                json["body"] = self.json_body(body, depth).into();
            }
        }
        json
    }
}

/// A call site as lines of the source, so far as they are known: an optimised program has several copies of some.
pub fn lines(sites: &mut Sites, site: &[u8]) -> Vec<u8> {
    let site: Arc<str> = String::from_utf8_lossy(site).into();
    let name = |(frame, recorded): (&Frame, &str)| match frame.line {
        Some(_) => frame.text(),
        None => recorded.to_owned(),
    };
    let frames = sites.frames(&site);
    if frames.len() != site.lines().count() {
        return site.as_bytes().to_vec();
    }
    frames.iter().zip(site.lines()).map(name).collect::<Vec<_>>().join("\n").into_bytes()
}

/// The innermost frame, and the functions of its module that called it.
pub(super) fn stack(frames: &[Frame]) -> String {
    let Some((first, callers)) = frames.split_first() else { return String::new() };
    let inside = callers.iter().take_while(|frame| frame.module == first.module);
    let names = inside.map_while(|frame| frame.function.as_deref());
    names.fold(first.text(), |text, name| format!("{text} < {name}"))
}

/// `count=64`, or the value alone if it says what it is.
pub(super) fn argument((name, text): &(String, String)) -> String {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match NAMELESS.contains(&name.as_str()) && is_name {
        true => text.clone(),
        false => format!("{name}={text}"),
    }
}
