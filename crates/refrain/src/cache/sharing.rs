//! `refrain sharing`: lines that several threads access and some thread writes.

use super::{Part, open_memory, selected};
use crate::Usage;
use crate::mem::show::word;
use crate::mem::symbols::Symbols;
use crate::stdout::{print, print_json};
use crate::summary::{counted, grouped};
use anyhow::Result;
use refrain_cache::sharing::{MOST_BYTES, Remedy, Sharing, Side, sharing};
use refrain_memory::Kind;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Finds lines of caches that threads share although their data are different (false sharing), or
/// because they exchange data (true sharing).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain sharing app.refrain
  refrain sharing app.refrain --least 10000    only lines that may move that often
  refrain sharing app.refrain --true           also true sharing
  refrain sharing app.refrain --json | jq '.[] | select(.false) | .remedy'

Two threads share a line if both access it and at least one writes to it. The sharing is true for
a reference to bytes that another thread writes. It is false if another thread writes only other
bytes of the line: the line moves between their caches, and no data does.

The lines follow from the sections (addresses, strides, trip counts) of each thread, not from an
order of references. How often a line moves depends on when threads run; \"transfers\" is the most that
is possible. Lines with fewer possible transfers than --least are left out.

JSON: an array; see docs/json.md.")]
pub struct Args {
    /// The memory trace.
    trace: PathBuf,
    /// Bytes of a line: a power of two from 8 to 128.
    #[arg(long, default_value_t = 64)]
    line: u64,
    /// Leave out what can move fewer than this many times between caches.
    #[arg(long, value_name = "TRANSFERS", default_value_t = 100)]
    least: u64,
    /// Also print true sharing.
    #[arg(long = "true")]
    with_true: bool,
    /// Print at most this many.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints what is shared.
pub fn run(args: Args) -> Result<ExitCode> {
    if !args.line.is_power_of_two() || !(8..=MOST_BYTES).contains(&args.line) {
        return Err(
            Usage(format!("--line {}: give a power of two from 8 to 128", args.line)).into()
        );
    }
    let trace = open_memory(&args.trace)?;
    let (mut rows, mut text) = (Vec::new(), String::new());
    for part in selected(&trace, args.rank.as_deref(), None)? {
        let found = sharing(&part.process.trace, &part.threads, args.line, args.least)?;
        let found: Vec<Sharing> =
            found.into_iter().filter(|sharing| sharing.is_false || args.with_true).collect();
        let mut printer = Printer { part: &part, symbols: part.symbols(), line: args.line };
        rows.extend(found.iter().map(|sharing| printer.row(sharing)));
        text += &printer.text(&found, args.limit);
    }
    match args.json {
        true => print_json(&serde_json::to_string(&rows)?)?,
        false => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An object of `refrain sharing --json`.
#[derive(Serialize)]
struct SharingRow {
    rank: u32,
    #[serde(rename = "false")]
    is_false: bool,
    line: u64,
    lines: u64,
    threads: BTreeSet<u32>,
    accesses: u64,
    transfers: u64,
    writer: SideRow,
    other: SideRow,
    remedy: Option<String>,
}

#[derive(Serialize)]
struct SideRow {
    thread: u32,
    kind: &'static str,
    site: String,
    function: Option<String>,
    section: String,
    first_byte: u8,
    last_byte: u8,
    accesses: u64,
}

struct Printer<'a> {
    part: &'a Part,
    symbols: Symbols,
    line: u64,
}

impl Printer<'_> {
    fn row(&mut self, sharing: &Sharing) -> SharingRow {
        SharingRow {
            rank: self.part.rank,
            is_false: sharing.is_false,
            line: sharing.line,
            lines: sharing.lines,
            threads: sharing.threads.clone(),
            accesses: sharing.accesses,
            transfers: sharing.transfers,
            writer: self.side(sharing, &sharing.writer),
            other: self.side(sharing, &sharing.other),
            remedy: sharing.is_false.then(|| remedy(sharing)),
        }
    }

    fn side(&mut self, sharing: &Sharing, side: &Side) -> SideRow {
        let references = self.part.process.trace.blocks.get(side.block).unwrap_or_default();
        let reference = references.get(side.reference as usize);
        let pc = reference.map_or(0, |reference| reference.pc);
        let offset = side.segment.map_or(0, |segment| {
            (sharing.line + u64::from(side.bytes.0)).saturating_sub(segment.base)
        });
        SideRow {
            thread: side.thread,
            kind: word(reference.map_or(Kind::Load, |reference| reference.kind)),
            site: self.symbols.text(pc).to_string(),
            function: self.symbols.function(pc),
            section: self.symbols.section(side.segment.as_ref(), offset),
            first_byte: side.bytes.0,
            last_byte: side.bytes.1,
            accesses: side.accesses,
        }
    }

    fn text(&mut self, found: &[Sharing], limit: usize) -> String {
        let mut text = String::new();
        if self.part.is_one_of_several {
            let _ = writeln!(text, "rank {}:", self.part.rank);
        }
        if found.is_empty() {
            text += "no false sharing\n";
        }
        for sharing in found.iter().take(limit) {
            let kind = if sharing.is_false { "false" } else { "true" };
            let threads: Vec<String> = sharing.threads.iter().map(u32::to_string).collect();
            let _ = writeln!(
                text,
                "{kind} sharing of {} by threads {}: {} accesses, up to {}",
                counted(sharing.lines, "line"),
                threads.join(", "),
                grouped(sharing.accesses),
                counted(sharing.transfers, "transfer"),
            );
            let _ = writeln!(text, "  line {:#x} ({} bytes)", sharing.line, self.line);
            for side in [&sharing.writer, &sharing.other] {
                let row = self.side(sharing, side);
                let function = row.function.map(|name| format!(" in {name}")).unwrap_or_default();
                let _ = writeln!(
                    text,
                    "  thread {}: {} at {}{function}, bytes {}-{} of {}, {} times",
                    row.thread,
                    row.kind,
                    row.site,
                    row.first_byte,
                    row.last_byte,
                    row.section,
                    grouped(row.accesses),
                );
            }
            if sharing.is_false {
                let _ = writeln!(text, "  remedy: {}", remedy(sharing));
            }
        }
        if found.len() > limit {
            let _ = writeln!(text, "{} more (--limit)", found.len() - limit);
        }
        text
    }
}

/// What removes false sharing, in words.
fn remedy(sharing: &Sharing) -> String {
    match sharing.remedy {
        Remedy::Pad { from, to } => format!(
            "pad what each thread has from {} to {to}, and align it to {to} bytes",
            counted(from, "byte")
        ),
        Remedy::Align { bytes } => format!(
            "let each thread's part begin at a multiple of {bytes} bytes: align the array, and give \
             threads chunks of a multiple of {} of {}",
            counted((bytes / u64::from(sharing.writer.size)).max(1), "element"),
            counted(u64::from(sharing.writer.size), "byte")
        ),
        Remedy::Separate { bytes } => format!(
            "align both to {bytes} bytes (alignas({bytes}), aligned_alloc), or put {bytes} bytes \
             between them"
        ),
    }
}
