//! `refrain stats`: how often which function was called.

use crate::open::open;
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints how often each function was called, over all ranks.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain stats app.refrain
  refrain stats app.refrain --json | jq '.[0]'")]
pub struct Args {
    /// The trace.
    trace: PathBuf,
    /// A JSON array of objects with `function`, `calls` and `ranks`.
    #[arg(long)]
    json: bool,
}

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let trace = open(&args.trace)?;
    let mut counts: BTreeMap<&str, (u64, std::collections::BTreeSet<i32>)> = BTreeMap::new();
    let tables: Vec<_> = (0..trace.meta().streams.len())
        .map(|stream| trace.calls(stream))
        .collect::<std::result::Result<_, _>>()?;
    for (stream, table) in trace.meta().streams.iter().zip(&tables) {
        for (function, calls) in table {
            let (sum, ranks) = counts.entry(function).or_default();
            *sum += calls;
            ranks.insert(stream.rank);
        }
    }
    let mut rows: Vec<_> =
        counts.into_iter().map(|(f, (calls, ranks))| (f, calls, ranks.len())).collect();
    rows.sort_by_key(|&(function, calls, _)| (std::cmp::Reverse(calls), function));
    let mut text = String::new();
    if args.json {
        let object = |(function, calls, ranks): &(&str, u64, usize)| json!({"function": function, "calls": calls, "ranks": ranks});
        text = format!("{}\n", json!(rows.iter().map(object).collect::<Vec<_>>()));
    } else {
        let width = rows.iter().map(|(f, ..)| f.len()).max().unwrap_or(0).max("function".len());
        text += &format!("{:width$}  {:>12}  {:>6}\n", "function", "calls", "ranks");
        for (function, calls, ranks) in &rows {
            text += &format!("{function:width$}  {calls:>12}  {ranks:>6}\n");
        }
    }
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
