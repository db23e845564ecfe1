//! `refrain where`: the call that each rank is in, and which rank waits for which.

mod json;
mod recorded;
mod report;

use self::recorded::Recorded;
use crate::merge::parts_of;
use crate::open::open;
use crate::stdout::{print, print_json};
use anyhow::{Context, Result, bail};
use refrain_analysis::sites::Sites;
use refrain_analysis::waits::Life;
use refrain_analysis::waits::graph::{Findings, findings};
use refrain_analysis::waits::position::{About, Position, position};
use refrain_format::part;
use refrain_mpi::abi::Family;
use refrain_mpi::names::{HandleTable, version_of};
use refrain_reader::view::{SingleTask, TaskView};
use refrain_reader::{CallTrace, Ended, Item, Meta, StreamMeta};
use refrain_trace::assemble::{Encoded, encode};
use refrain_trace::parts::{Part, is_running, noted_run, read_parts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shows the call that each rank is in, and which rank waits for which, in a job that hangs or died.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain where app.refrain.parts              while the job runs, or after it was killed
  refrain where app.refrain                    a trace with calls that never returned
  refrain where app.refrain.parts --json

The running job is not disturbed: its logs are read twice while it writes them, and only a rank
that made no progress in between counts as waiting.

A rank waits for
  the source of its receive            if no matching message was sent
  the destination of its send          if that rank has not received it
  the members of a collective          that have not called it, or have called another one
Ranks are stuck if what they wait for cannot happen: it depends on ranks that are stuck or have
ended. A `mismatch` is a message that a stuck rank would receive if its tag, its source or its
communicator were different, with the call that sent it (the first, if there are up to 8). A rank
is `the odd one` if no other message or receive on the communicator has its tag, while at least
three messages have the tag of the other rank. Call sites are printed if they were recorded (trace
--callsite). A rank of a communicator other than MPI_COMM_WORLD is followed by its rank in that:
source=0 (rank 3). Arguments that MPI sets when a call returns are left out, except a status that
the program ignores.

If the calls that decide this were not recorded (trace --functions, --exclude, --ranks,
MPI_Pcontrol), the output says so instead of guessing.

JSON: one object with ranks (rank, host, pid, state, threads), waits (rank, thread, for, until,
call), cycles, ended (ranks that wait for one that has ended), collectives (inside, missing),
mismatches (sender, receiver, tag, messages, awaited, differs, wanted, sent_in, odd), stuck (ranks
that cannot make progress), doubt (why the rest may be wrong, or null).")]
pub struct Args {
    /// A folder of parts (NAME.refrain.parts) or a trace.
    path: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A rank counts as waiting if it made no call for this long.
const STILL: Duration = Duration::from_millis(300);

/// Prints the positions and the wait-for graph.
pub fn run(args: Args) -> Result<ExitCode> {
    let folder = match args.path.is_dir() {
        true => Some(args.path.clone()),
        false => Some(parts_of(&args.path)).filter(|p| !args.path.exists() && p.is_dir()),
    };
    let (mut processes, recorded, mut sites) = match folder {
        Some(folder) => look_at(&folder)?,
        None if has_become_trace(&args.path) => of_finished(&args.path)?,
        None => of_trace(&open(&args.path)?)?,
    };
    settle_lives(&mut processes);
    let wait_states: Vec<_> = processes.iter().map(|p| p.position.wait_state.clone()).collect();
    let ranks: BTreeSet<i32> = wait_states.iter().map(|s| s.rank).collect();
    let found = match ranks.len() == wait_states.len() {
        true if recorded.hides_waits() => Findings::default(),
        true => findings(&wait_states),
        false => {
            say!("refrain: note: several processes have the same rank: no wait-for graph is shown");
            Findings::default()
        }
    };
    match args.json {
        true => print_json(&json::as_json(&processes, &found, &recorded, &mut sites)?)?,
        false => print(&report::as_text(&processes, &found, &recorded, &mut sites))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How far a running job is.
pub struct Progress {
    /// Whether all of its ranks run, and none of them can go on.
    pub is_stuck: bool,
    /// The numbers of the last calls of all threads, added up.
    pub calls: u64,
}

/// How far the job is that writes to a folder of parts.
pub fn progress(folder: &Path) -> Result<Progress> {
    let (mut processes, recorded, _) = of_parts(folder)?;
    settle_lives(&mut processes);
    let threads = || processes.iter().flat_map(|process| process.position.threads.values());
    let calls = threads().map(|at| {
        let open = at.flight.last().map(|flight| flight.number + 1);
        open.or(at.last.as_ref().map(|(number, _)| *number)).unwrap_or(0)
    });
    let wait_states: Vec<_> = processes.iter().map(|p| p.position.wait_state.clone()).collect();
    let stuck = findings(&wait_states).stuck.len();
    let all_run = processes.iter().all(|process| process.state == State::Running);
    let is_complete = processes.len() == ranks_of(&processes);
    Ok(Progress {
        is_stuck: all_run && is_complete && stuck == processes.len() && !recorded.hides_waits(),
        calls: calls.sum(),
    })
}

/// The number of ranks that the processes know of.
fn ranks_of(processes: &[Process]) -> usize {
    processes.iter().map(|process| process.stream.size.max(0) as usize).max().unwrap_or(0)
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It runs.
    Running,
    /// It runs, and made MPI calls while its log was read.
    Moving,
    /// It has ended.
    Past,
    /// It is on another machine and may be running.
    Elsewhere,
}

/// A process and its state.
struct Process {
    stream: StreamMeta,
    ended: Ended,
    state: State,
    position: Position,
    /// By thread, the number of each open call and the nanoseconds since it began.
    ages: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Process {
    fn is_in_a_call(&self) -> bool {
        self.position.threads.values().any(|at| !at.flight.is_empty())
    }

    fn age(&self, thread: u32, number: u64) -> Option<Duration> {
        let ages = self.ages.get(&thread)?;
        ages.iter().find(|(n, _)| *n == number).map(|(_, nanos)| Duration::from_nanos(*nanos))
    }
}

/// The processes, which of their calls are recorded, and their call sites.
type Seen = (Vec<Process>, Recorded, Sites);

/// The processes of a folder of parts, or of the trace that was made of it meanwhile.
fn look_at(folder: &Path) -> Result<Seen> {
    let before = files(folder);
    let seen = of_parts(folder);
    let after = files(folder);
    if before.is_subset(&after) && folder.exists() {
        return seen;
    }
    // The job has just ended, and `refrain trace` removes its parts.
    for _ in 0..20 {
        if has_become_trace(folder) {
            return of_finished(folder);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the job has ended meanwhile, and {} is incomplete", folder.display())
}

/// Whether a folder of parts has become a trace.
fn has_become_trace(folder: &Path) -> bool {
    let is_parts = folder.extension().is_some_and(|extension| extension == "parts");
    is_parts && !folder.exists() && folder.with_extension("").is_file()
}

/// The processes of the trace that a folder of parts has become.
fn of_finished(folder: &Path) -> Result<Seen> {
    let trace = folder.with_extension("");
    say!("refrain: the job has ended; reading its trace, {}", trace.display());
    of_trace(&open(&trace)?)
}

/// The parts in a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|e| e == part::EXTENSION)).collect()
}

/// The processes of a folder of parts; they may be running.
fn of_parts(folder: &Path) -> Result<Seen> {
    let begin = Instant::now();
    let (parts, mut lost) = read_parts(folder).with_context(|| folder.display().to_string())?;
    if parts.is_empty() && refrain_trace::orders::are_in(folder) {
        bail!(
            "{} belongs to `refrain record`, which does not record open calls: use `refrain trace`. When \
             the job has ended, a replay runs up to the call that each rank was in",
            folder.display()
        );
    }
    if parts.is_empty() {
        lost.iter().for_each(|lost| say!("refrain: cannot be read: {lost}"));
        bail!("{} holds no part with a call in it", folder.display());
    }
    let streams = parts.iter().map(|p| p.stream.clone()).collect();
    let meta = Meta { streams, ..noted_run(folder) };
    let ranks = ranks(&meta);
    let mut processes = Vec::new();
    for process in meta.processes() {
        let parts: Vec<&Part> = process.streams.iter().map(|s| &parts[*s]).collect();
        let encoded = encode(&parts, &mut lost, None)?;
        let (stream, mut ended) = (parts[0].stream.clone(), ending(&meta, &process.streams));
        let state = match is_running(&stream) {
            Some(true) => State::Running,
            Some(false) => State::Past,
            None => State::Elsewhere,
        };
        if ended == Ended::Running && state == State::Past {
            ended = Ended::Unfinalized;
        }
        let ages = if state == State::Running { ages(&encoded, parts[0]) } else { BTreeMap::new() };
        let family = Family::from_code(stream.family).unwrap_or(Family::Mpich);
        let single = |(thread, task)| SingleTask::new(task, family, thread);
        let tasks: Vec<SingleTask> =
            encoded.tasks.into_iter().map(single).collect::<Result<_, _>>()?;
        let views: Vec<TaskView<'_>> = tasks.iter().map(SingleTask::view).collect();
        let position = stand(&stream, ranks, &views)?;
        processes.push(Process { stream, ended, state, position, ages });
    }
    lost.iter().for_each(|lost| say!("refrain: warning: could not be read: {lost}"));
    mark_moving(&mut processes, &parts, begin);
    let began = meta.streams.iter().map(|stream| stream.clock[0].1).min().unwrap_or(0);
    Ok((processes, Recorded::of(&meta), Sites::recorded_at(began)))
}

/// Marks running processes that made or finished a call since their logs were read.
fn mark_moving(processes: &mut [Process], parts: &[Part], begin: Instant) {
    if processes.iter().all(|process| process.state != State::Running) {
        return;
    }
    std::thread::sleep(STILL.saturating_sub(begin.elapsed()));
    for process in processes.iter_mut().filter(|process| process.state == State::Running) {
        let (pid, number) = (process.stream.pid, process.stream.process);
        let own = parts.iter().filter(|p| (p.stream.pid, p.stream.process) == (pid, number));
        let moved = |part: &Part| part.again().is_none_or(|p| p.stream.bytes != part.stream.bytes);
        if own.into_iter().any(moved) {
            process.state = State::Moving;
            process.position.wait_state.waits.clear();
        }
    }
}

/// The processes of a trace.
fn of_trace(trace: &CallTrace) -> Result<Seen> {
    let meta = trace.meta();
    let ranks = ranks(meta);
    let mut processes = Vec::new();
    for process in trace.processes() {
        let mut tasks = Vec::new();
        for task in process.tasks() {
            tasks.extend(task.view()?);
        }
        let stream = process.facts().clone();
        let position = stand(&stream, ranks, &tasks)?;
        let (ended, ages) = (process.ended(), BTreeMap::new());
        processes.push(Process { stream, ended, state: State::Past, position, ages });
    }
    Ok((processes, Recorded::of(meta), Sites::recorded_at(meta.time.0)))
}

/// The number of ranks of the job.
fn ranks(meta: &Meta) -> usize {
    meta.streams.iter().map(|s| s.size.max(0) as usize).max().unwrap_or(0)
}

/// Tasks with fewer calls are decoded completely.
const LONG: u64 = 100_000;

/// The number of calls at the end of a longer task that are decoded one by one. Before them, each signature is decoded
/// once with its number of calls: the wait-for graph only needs counts of the past (messages sent, collectives called),
/// which the grammar has without being expanded.
const TAIL: u64 = 4096;

/// The position of a process: from a digest of its calls if that suffices, otherwise from all.
fn stand(stream: &StreamMeta, ranks: usize, tasks: &[TaskView<'_>]) -> Result<Position> {
    let family = Family::from_code(stream.family).unwrap_or(Family::Mpich);
    let stand = |whole: bool| {
        let (mut threads, mut names, mut first_numbered) =
            (Vec::new(), Vec::new(), BTreeMap::new());
        for task in tasks {
            let digest = match !whole && task.length() >= LONG {
                true => task.digest(TAIL)?,
                false => None,
            };
            let items: Box<dyn Iterator<Item = Result<(Item, u64)>>> = match digest {
                Some(digest) => {
                    first_numbered.insert(task.thread(), digest.first_numbered());
                    Box::new(digest.map(|item| Ok(item?)))
                }
                None => Box::new(task.items()?.map(|item| Ok((item?, 1)))),
            };
            names.push(task.handle_names());
            threads.push((task.thread(), items));
        }
        let names = names.iter().flat_map(HandleTable::entries).collect();
        let version = version_of(&stream.library);
        let rank = stream.rank;
        position(About { rank, ranks, family, version, names, first_numbered }, threads)
    };
    if let Some(position) = stand(false)? {
        return Ok(position);
    }
    stand(true)?.context("the calls of a process cannot be decoded")
}

/// How a process ended: if one thread aborted, all did.
fn ending(meta: &Meta, streams: &[usize]) -> Ended {
    let mut all = streams.iter().map(|s| &meta.streams[*s].ended);
    let decisive = all.clone().find(|e| matches!(e, Ended::Aborted(_) | Ended::LogStopped(_)));
    decisive.or_else(|| all.next()).cloned().unwrap_or(Ended::Unfinalized)
}

/// Decides which processes are still alive, so that others can wait for them.
fn settle_lives(processes: &mut [Process]) {
    let some_run = processes.iter().any(|p| p.state != State::Past);
    for process in processes {
        // A process whose log stopped early has continued since then.
        if matches!(process.ended, Ended::LogStopped(_)) {
            process.position.wait_state.waits.clear();
            process.position.threads.values_mut().for_each(|at| at.flight.clear());
            continue;
        }
        let in_flight = process.is_in_a_call();
        process.position.wait_state.life = match (&process.ended, process.state) {
            (Ended::Finalized, _) => Life::Finished,
            (Ended::Aborted(_), _) => Life::Died,
            (_, State::Running | State::Moving | State::Elsewhere) => Life::Here,
            (Ended::Running, State::Past) => Life::Here,
            // If all have ended, assume that each was in its last call until the job ended.
            (_, State::Past) if in_flight && !some_run => Life::Here,
            (_, State::Past) => Life::Died,
        };
    }
}

/// Nanoseconds since the start of each open call. The rate of ticks is measured between the beginning of
/// the log and now.
fn ages(encoded: &Encoded, part: &Part) -> BTreeMap<u32, Vec<(u64, u64)>> {
    let now = ticks(part.in_nanoseconds);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let (first_ticks, first_nanos) = part.stream.clock[0];
    if now <= first_ticks || nanos <= first_nanos {
        return BTreeMap::new();
    }
    let rate = (nanos - first_nanos) as f64 / (now - first_ticks) as f64;
    let age = |(number, start): &(u64, u64)| {
        let since = now.saturating_sub(*start) as f64 * rate;
        (*number, since as u64)
    };
    let of = |(thread, calls): &(u32, Vec<(u64, u64)>)| (*thread, calls.iter().map(age).collect());
    encoded.open.iter().map(of).collect()
}

/// The current time in the ticks of this machine's logs.
fn ticks(in_nanoseconds: bool) -> u64 {
    if !in_nanoseconds {
        // SAFETY: rdtsc exists on every x86-64 processor.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
