//! `refrain show`: prints the calls of a trace, or hands over to the modules for records and memory traces.

mod calls;
mod drawn;
pub mod structure;

use crate::mem::formats::Format;
use crate::mem::show::Wanted;
use crate::open::open_any;
use crate::orders;
use crate::select::{Names, parse_ranks};
use crate::stdout::Lines;
use crate::summary::counted;
use anyhow::{Result, bail};
use refrain_analysis::sites::Sites;
use refrain_reader::refrain_fold::histograms::HistogramTrace;
use refrain_reader::{CallTrace, File};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Prints what was recorded: MPI calls, receive orders or memory references, rank by rank.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain show app.refrain --rank 0-3,7 --limit 20
  refrain show app.refrain --function Send,Irecv --times
  refrain show app.refrain --json | jq 'select(.function == \"MPI_Waitall\")'
  refrain show app.refrain --structure --depth 1

MPI calls (refrain trace):
  rank 3  #17  MPI_Recv(buf=heap3+0x40, count=8, …, status={…}) = SUCCESS  at main app.c:42
  #17 is the number of the call in its thread. The rank is RANK.THREAD if there are several
  threads, RANK@PID if several processes have the same rank. A call that a callback made is
  indented. Tests and probes that found nothing and were repeated at once are one line, which ends
  with their number, `× 1,204 failed`; --all prints each. Arguments have their values after the call, or before→after if the call changed them.
  Objects get the smallest free number of their kind: comm1, type2, r3. An address is a piece of
  memory and an offset: heap3+0x40, stack-0x120, app+0x4060 (static data); with raw records, a
  plain number. Call sites (trace --callsite) come last, innermost first; without debug
  information as module+offset.
  undefined      MPI does not define this field of the status
  unset          MPI returned no value
  insignificant  MPI does not use this argument on this rank
  ignored=true   the program ignored the status; Refrain recorded it to know the match
  The order of calls is that of each thread. Only raw records (trace --raw) have the order between
  threads; without them threads are interleaved evenly, and --thread shows one alone.
  JSON: rank, thread, pid, call, depth, function, arguments, result (name), code; with --raw or
  --timing also start and end (nanoseconds since 1970) and duration (nanoseconds); with --callsite
  also site (array of module, offset, function, file, line, innermost first; offset is the return
  address); failed_poll (true) if it is a test or probe that found nothing, each an object of its
  own. An argument that the call changed is {before, after}.

The program as loops (refrain trace, --structure):
   98.7%  42.8%    for i in 0..100
   10.8%   0.1%      MPI_Isend(buf=[heap1, heap2][i mod 2] + 8, count=64, MPI_DOUBLE, dest={3:
                       MPI_PROC_NULL; else rank + 1}, tag=1, comm1)    exchange app.c:48
    1.1%   5.9%      if i mod 10 == 9
    1.1%   5.9%        MPI_Allreduce(…)                                main app.c:65
  Shares of all calls (without failed polls) and of the time in them, then the loop nest of all ranks.
  Calls at the same call site are one place of the program; without call sites, those with the
  same function, communicator, datatypes and operation. So loops are those of the source if call
  sites were recorded, best as stacks: trace --callsite stack:8.
  Arguments are formulas of the rank and of loop indices: [a, b][i mod 2] alternates, {3: a; else b}
  is a on rank 3, 1..9 (5 values) and `if in 7 of 90 visits` follow no formula that was found. A
  formula holds for every iteration. Ranks 0-6:3 are 0, 3 and 6. (row + 1, column - 1) in 4 x 4 is the
  diagonal neighbour of the rank in 4 rows of 4 that wrap.
  `ranks 0-2:` is before what only these ranks do. --depth hides inner loops, --rank selects ranks.
  In a trace with histograms (fold --histogram-above), <3: 40%, 4..9: 60%> is 3 in 40 % of all
  visits and 4 to 9 in the others; <rank + 1: 50%, rank - 1: 50%> are peers; `if at random: 5%`
  holds in 5 %. Without --structure, calls are drawn from the histograms, always the same ones.
  JSON: an object per thread number: thread, ranks, calls, time_ns, body; a node of the body has
  ranks, calls, time_ns and function, arguments, returned, site; or index, count (null if it varies),
  trips (formula), body; or condition, body.

Receive orders (refrain record):
  For each rank, wildcard receives in posting order with the message that each matched, then the
  calls that completed something. --function selects among these calls and hides the receives. A
  call has the numbers of the wildcard receives that it completed, in the order of its indices, and
  a receive has the number of its call. Records of older versions, and parts of a record in which
  these numbers would take much room, have them only for calls that post the receive themselves
  (Recv, Sendrecv, probes). Communicators are numbered as the rank first
  receives on them (with threads: by size and rank).
  JSON: rank, thread, site; receive, communicator, any_source, any_tag, and source and tag or
  cancelled or never, completed_by (a call), completed_by_thread if it is another; or call, kind,
  requests, failed_polls, completed, completed_receive, or completed_receives (request, receive,
  thread if it is another).

Memory references (refrain mem):
  T2 store 8 0x7f12a4c01040 matmul.c:14
  Thread, kind, bytes, address, call site; P and the rank come first if there are several
  processes. With --structure, sets of threads or processes are <first,count,stride>, and a
  reference has its stride for each enclosing loop in brackets, the outermost first.
  --format din is for Dinero IV (-informat D), drmemtrace as DynamoRIO's tool prints records.
  JSON: rank, thread, kind, size, address, site.")]
pub struct Args {
    /// The file to print.
    trace: PathBuf,
    /// Only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    rank: Option<String>,
    /// Only this thread of each rank.
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Only these functions; the prefix MPI_ is optional, `*` matches any characters.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    function: Vec<String>,
    /// Print at most this many calls or references.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Also print the notes between calls: memory that came into use, members of communicators.
    #[arg(long)]
    notes: bool,
    /// Print every failed test and probe, instead of one line for those that repeat at once.
    #[arg(long)]
    all: bool,
    /// Print every element of long arrays.
    #[arg(long)]
    full: bool,
    /// Print when each call began, in seconds since the first rank was started, and its duration.
    #[arg(long)]
    times: bool,
    /// Print the loops instead: the program's loop nest as pseudo-code, or the loop nests of a memory trace.
    #[arg(long)]
    structure: bool,
    /// With --structure of MPI calls, print what is in at most N loops.
    #[arg(long, value_name = "N", requires = "structure")]
    depth: Option<u32>,
    /// With --structure of MPI calls, call stacks of which at most K frames differ are the same place. Default: as stored by `refrain
    /// fold`, or 0.
    #[arg(long, value_name = "K", requires = "structure")]
    fuzzy_frames: Option<usize>,
    /// Print memory references in the format of another program.
    #[arg(long, value_enum, conflicts_with_all = ["structure", "json"])]
    format: Option<Format>,
    /// List the call sites with function, file and line. Kept as NAME.sites in a directory of REFRAIN_DEBUG_DIRECTORIES, the list
    /// serves machines without the program.
    #[arg(long, conflicts_with_all = ["structure", "function", "times", "rank"])]
    sites: bool,
}

/// Prints.
pub fn run(args: Args) -> Result<ExitCode> {
    let ranks = args.rank.as_deref().map(|list| parse_ranks("--rank", list)).transpose()?;
    let functions = Names::parse("--function", &args.function)?;
    match open_any(&args.trace)? {
        File::Calls(trace) if args.sites => sites(&trace),
        _ if args.sites => bail!("{} has no call sites of MPI calls", args.trace.display()),
        File::Calls(_) | File::Orders(_) if args.format.is_some() => {
            bail!("{} holds no memory references: --format is for these", args.trace.display())
        }
        File::Calls(trace) if args.structure => structure::run(&trace, &args, ranks.as_ref()),
        File::Calls(trace) => match trace.histograms()? {
            Some(histograms) => drawn::run(&trace, histograms, &args, ranks.as_ref(), &functions),
            None => calls::run(&trace, &args, ranks.as_ref(), functions),
        },
        File::Orders(_) if args.structure => {
            bail!("{} is a record of receive orders, and has no loops", args.trace.display())
        }
        File::Orders(_) if args.times => {
            bail!("{} is a record of receive orders, and has no times", args.trace.display())
        }
        File::Orders(orders) => {
            let (thread, limit) = (args.thread, args.limit.unwrap_or(u64::MAX));
            let wanted = orders::show::Wanted { ranks, thread, functions, limit, json: args.json };
            orders::show::run(&orders, &args.trace, wanted)
        }
        File::Memory(_) if args.depth.is_some() => {
            bail!("{} is a memory trace: --depth is for MPI calls", args.trace.display())
        }
        File::Memory(trace) => {
            let Args { thread, limit, json, structure, format, .. } = args;
            let wanted = Wanted { ranks, thread, limit, json, structure, format };
            crate::mem::show::run(&trace, &wanted)
        }
    }
}

/// Lists the call sites of a trace that have a function, a file and a line.
fn sites(trace: &CallTrace) -> Result<ExitCode> {
    let mut sites = Sites::recorded_at(trace.meta().time.0);
    let mut known = BTreeSet::new();
    for structure in trace.structures()? {
        for signature in structure.signatures() {
            for arguments in signature.variants() {
                for rank in arguments.ranks.iter() {
                    let Some(site) = arguments.site().and_then(|site| site.eval(rank)) else {
                        break;
                    };
                    known.insert(String::from_utf8_lossy(&site).into_owned());
                }
            }
        }
    }
    let frames = known.iter().flat_map(|site| sites.frames(&Arc::from(site.as_str())).to_vec());
    let listed: BTreeSet<String> = frames.filter_map(|frame| frame.listed()).collect();
    if listed.is_empty() {
        bail!("no call site has a line: record with --callsite, and build the program with -g");
    }
    let mut out = Lines::new();
    for line in listed {
        out.line(&line)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Says that a trace has histograms.
fn say_histograms(path: &Path, histograms: &HistogramTrace) {
    let what = match histograms.replaced() {
        0 => "outcomes and times of calls were left out, though no vector was long enough for a histogram".into(),
        replaced => format!("it has histograms in place of {}", counted(replaced, "vector")),
    };
    say!("refrain: {} is not lossless: {what}", path.display());
}

/// Warns about modules that are not those of the recording any more, so far as sites in them were asked for.
pub fn warn_of_changed_modules(sites: &Sites) {
    for module in sites.changed() {
        say!(
            "refrain: {module} has changed since the recording: its call sites are shown as offsets"
        );
    }
}
