//! Facts about a trace, and their bytes.
//!
//! Most facts are the same for all ranks, or nearly: they are columns over ranks, like the values
//! of signatures. Numbers are varints, in this order: version · Refrain's version · command ·
//! exit code (0: none, else 1 and it) · nanoseconds a tick, as bits · begin and end · bytes of raw
//! logs · lost parts · what was selected · processes as a rank list · columns (rank, size, process
//! number, family, ending, its code, threads, unrecorded and missing calls, pauses) · texts (host,
//! program, library) · processes whose threads are not numbered from 0 on: rank index and numbers.
//! Version 1 had neither the selection nor the pauses.
//!
//! The rank index of a process is its rank, or, where ranks are not unique, its position in the list.

use crate::clocks;
use refrain_elastic::{Column, RankList, TextColumn};
use refrain_signature::cells::{Cells, put, put_bytes, put_list, put_unsigned};
use std::collections::BTreeMap;

const VERSION: u64 = 2;

/// The oldest version that can be read.
const OLDEST: u64 = 1;

/// Numbers kept of each process.
const COLUMNS: usize = 10;

/// The most processes that a file may claim.
const MOST: u32 = 1 << 20;

/// The most threads that a file may claim.
const MOST_THREADS: u64 = 1 << 20;

/// The most bytes that the texts of all streams may take.
const MOST_TEXT: usize = 1 << 27;

/// Facts about a trace.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// The version of Refrain that wrote it.
    pub refrain: String,
    /// The command that was traced.
    pub command: Vec<String>,
    /// How the command ended.
    pub exit_code: Option<i32>,
    /// One for each thread that called MPI, by rank, process and thread.
    pub streams: Vec<StreamMeta>,
    /// Nanoseconds for a tick of the statistics.
    pub tick: f64,
    /// Nanoseconds since 1970 when the first process began, and when the last was last seen.
    pub time: (u64, u64),
    /// Bytes of the logs that the trace was made of.
    pub raw_bytes: u64,
    /// Parts that could not be read, and why.
    pub lost: Vec<String>,
    /// The options that say what to record, as they were given: `--functions Send,Recv`.
    pub selected: Vec<String>,
}

/// Facts about one stream.
#[derive(Clone, Debug)]
pub struct StreamMeta {
    /// Rank in `MPI_COMM_WORLD`, or what the launcher said, or -1.
    pub rank: i32,
    /// Size of `MPI_COMM_WORLD`, or -1.
    pub size: i32,
    /// The thread's number within its process.
    pub thread: u32,
    /// Distinguishes processes.
    pub process: u64,
    /// Process number.
    pub pid: i32,
    /// The machine.
    pub host: String,
    /// The program's file.
    pub program: String,
    /// The MPI library, as it describes itself.
    pub library: String,
    /// Code of its ABI family.
    pub family: u32,
    /// How it ended.
    pub ended: Ended,
    /// Calls of the program forwarded without a record.
    pub unrecorded: u32,
    /// Calls for which this MPI has no function.
    pub missing: u32,
    /// Whether the program switched recording off.
    pub paused: Paused,
    /// The clock: ticks and nanoseconds since 1970, early and late. Zeros where the file has no
    /// times of single calls.
    pub clock: [(u64, u64); 2],
    /// Nanoseconds that the clock may be off from that of the first rank, where it was compared.
    pub uncertainty: u64,
    /// Calls by function.
    pub calls: BTreeMap<String, u64>,
    /// Bytes of its log.
    pub bytes: u64,
}

/// How a process ended, as far as MPI knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By `MPI_Finalize`.
    Finalized,
    /// By `MPI_Abort` with that code.
    Aborted(i32),
    /// Without either: exit, a signal, or sessions only.
    Unfinalized,
    /// The log stopped before the program did, for the reason with that `errno`.
    LogStopped(i32),
    /// Not yet: it still ran when the trace was made.
    Running,
}

/// Whether a program switched recording off, by `MPI_Pcontrol(0)` or an info object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Never.
    #[default]
    Never,
    /// Yes, and on again.
    Before,
    /// Yes, and it was off to the end.
    Still,
}

impl StreamMeta {
    /// Calls in all.
    pub fn total_calls(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Nanoseconds since 1970 at that tick.
    pub fn nanos(&self, ticks: u64) -> u64 {
        clocks::nanos(&self.clock, ticks)
    }
}

impl Ended {
    fn code(&self) -> (i64, i64) {
        match self {
            Ended::Finalized => (0, 0),
            Ended::Aborted(code) => (1, (*code).into()),
            Ended::Unfinalized => (2, 0),
            Ended::LogStopped(errno) => (3, (*errno).into()),
            Ended::Running => (4, 0),
        }
    }

    fn from_code(kind: i64, code: i64) -> Ended {
        match kind {
            0 => Ended::Finalized,
            1 => Ended::Aborted(code as i32),
            3 => Ended::LogStopped(code as i32),
            4 => Ended::Running,
            _ => Ended::Unfinalized,
        }
    }
}

/// Why a log stopped ([`Ended::LogStopped`]), in words for users.
pub fn why_log_stopped(errno: i32) -> String {
    refrain_container::reason(&std::io::Error::from_raw_os_error(errno))
}

impl Paused {
    fn from_code(code: i64) -> Paused {
        match code {
            0 => Paused::Never,
            1 => Paused::Before,
            _ => Paused::Still,
        }
    }
}

/// A process and its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStreams {
    /// Its rank where ranks are unique, else its position in the list of processes.
    pub rank_index: u32,
    /// The indices of its streams in [`Meta::streams`].
    pub streams: Vec<usize>,
}

/// The option of a redacted trace, among those that say what is recorded.
pub const REDACT: &str = "--redact command,hosts,paths";

/// Replaces texts in a redacted trace.
pub const REDACTED: &str = "redacted";

/// A file without its folder.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Meta {
    /// The processes, in order.
    pub fn processes(&self) -> Vec<ProcessStreams> {
        let mut all: Vec<ProcessStreams> = Vec::new();
        let mut known: BTreeMap<(u64, i32, &str), usize> = BTreeMap::new();
        for (index, stream) in self.streams.iter().enumerate() {
            let key = (stream.process, stream.pid, stream.host.as_str());
            let next = all.len();
            let process = *known.entry(key).or_insert(next);
            match all.get_mut(process) {
                Some(process) => process.streams.push(index),
                None => all.push(ProcessStreams { rank_index: 0, streams: vec![index] }),
            }
        }
        let rank = |p: &ProcessStreams| self.streams[p.streams[0]].rank;
        let increasing = all.windows(2).all(|w| rank(&w[0]) < rank(&w[1]));
        let by_rank = increasing && all.iter().all(|p| (0..MOST as i32).contains(&rank(p)));
        let ranks: Vec<i32> = all.iter().map(rank).collect();
        for (index, (process, rank)) in all.iter_mut().zip(ranks).enumerate() {
            process.rank_index = if by_rank { rank as u32 } else { index as u32 };
        }
        all
    }

    /// Why calls may be missing although nothing failed: the options that excluded them, and whether the
    /// program switched recording off.
    pub fn left_out(&self) -> Vec<String> {
        let leaves_calls =
            |option: &&String| option.starts_with("--callsite") || option.as_str() == REDACT;
        let options = self.selected.iter().filter(|option| !leaves_calls(option));
        let mut why: Vec<String> = options.cloned().collect();
        if self.streams.iter().any(|stream| stream.paused != Paused::Never) {
            why.push("the program switched recording off".to_owned());
        }
        why
    }

    /// Whether the command line, host names and paths were left out.
    pub fn is_redacted(&self) -> bool {
        self.selected.iter().any(|option| option == REDACT)
    }

    /// Replaces what a redacted trace must not hold: the command line, host names (by numbers, so that
    /// machines stay apart), folders of files, and names of parts, which hold a host's.
    pub fn redact(&mut self) {
        self.command = vec![REDACTED.to_owned()];
        let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
        for stream in &mut self.streams {
            let next = hosts.len();
            let number = *hosts.entry(std::mem::take(&mut stream.host)).or_insert(next);
            stream.host = format!("host{number}");
            stream.program = base_name(&stream.program).to_owned();
        }
        for lost in &mut self.lost {
            let why = lost.split_once(": ").map_or("", |(_, why)| why);
            *lost = format!("{REDACTED}: {why}");
        }
    }

    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_unsigned(&mut out, VERSION);
        put_bytes(&mut out, self.refrain.as_bytes());
        put_unsigned(&mut out, self.command.len() as u64);
        self.command.iter().for_each(|word| put_bytes(&mut out, word.as_bytes()));
        match self.exit_code {
            Some(code) => {
                put_unsigned(&mut out, 1);
                put(&mut out, code.into());
            }
            None => put_unsigned(&mut out, 0),
        }
        out.extend((self.tick as f32).to_le_bytes());
        put_unsigned(&mut out, self.time.0);
        put_unsigned(&mut out, self.time.1.saturating_sub(self.time.0));
        put_unsigned(&mut out, self.raw_bytes);
        put_unsigned(&mut out, self.lost.len() as u64);
        self.lost.iter().for_each(|lost| put_bytes(&mut out, lost.as_bytes()));
        put_unsigned(&mut out, self.selected.len() as u64);
        self.selected.iter().for_each(|option| put_bytes(&mut out, option.as_bytes()));
        let processes = self.processes();
        let rank_indices: Vec<u32> = processes.iter().map(|p| p.rank_index).collect();
        RankList::from_sorted(&rank_indices).encode(&mut out);
        let first = |p: &ProcessStreams| &self.streams[p.streams[0]];
        // A failure of one thread is a failure of the process.
        let ended = |p: &ProcessStreams| {
            let all = p.streams.iter().map(|s| &self.streams[*s].ended);
            let weight = |e: &&Ended| (matches!(e, Ended::LogStopped(_)), e.code().0);
            let worst = all.max_by_key(weight).unwrap_or(&Ended::Unfinalized);
            worst.code()
        };
        let sum = |p: &ProcessStreams, of: fn(&StreamMeta) -> u32| {
            p.streams.iter().map(|s| i64::from(of(&self.streams[*s]))).sum::<i64>()
        };
        let paused = |p: &ProcessStreams| p.streams.iter().map(|s| self.streams[*s].paused).max();
        let columns: [&dyn Fn(&ProcessStreams) -> i64; COLUMNS] = [
            &|p| first(p).rank.into(),
            &|p| first(p).size.into(),
            &|p| first(p).pid.into(),
            &|p| first(p).family.into(),
            &|p| ended(p).0,
            &|p| ended(p).1,
            &|p| p.streams.len() as i64,
            &|p| sum(p, |s| s.unrecorded),
            &|p| sum(p, |s| s.missing),
            &|p| paused(p).unwrap_or_default() as i64,
        ];
        for column in columns {
            let values: Vec<i64> = processes.iter().map(column).collect();
            Column::fit(&rank_indices, &values).encode_values(&mut out);
        }
        let texts: [fn(&StreamMeta) -> &str; 3] =
            [|s| &s.host, |s| &s.program, |s| first_line(&s.library)];
        for text in texts {
            let values: Vec<&[u8]> = processes.iter().map(|p| text(first(p)).as_bytes()).collect();
            TextColumn::fit(&rank_indices, &values).encode_texts(&mut out);
        }
        let numbers = |p: &ProcessStreams| -> Vec<u32> {
            p.streams.iter().map(|s| self.streams[*s].thread).collect()
        };
        let odd = |p: &&ProcessStreams| !numbers(p).iter().copied().eq(0..p.streams.len() as u32);
        let odd: Vec<&ProcessStreams> = processes.iter().filter(odd).collect();
        put_list(&mut out, odd.into_iter(), |out, process| {
            put_unsigned(out, process.rank_index.into());
            put_list(out, numbers(process).into_iter(), |out, n| put_unsigned(out, n.into()));
        });
        out
    }

    /// Reads the bytes; `None` if they are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Meta> {
        let mut cells = Cells::new(bytes);
        let text = |cells: &mut Cells<'_>| String::from_utf8(cells.get_bytes()?.to_vec()).ok();
        let version = cells.get_unsigned()?;
        if !(OLDEST..=VERSION).contains(&version) {
            return None;
        }
        let is_old = version == OLDEST;
        let mut meta = Meta { refrain: text(&mut cells)?, ..Meta::default() };
        for _ in 0..cells.get_length()? {
            meta.command.push(text(&mut cells)?);
        }
        if cells.get_unsigned()? != 0 {
            meta.exit_code = Some(i32::try_from(cells.get()?).ok()?);
        }
        meta.tick = f32::from_le_bytes(*cells.take(4)?.first_chunk()?).into();
        meta.time.0 = cells.get_unsigned()?;
        meta.time.1 = meta.time.0.checked_add(cells.get_unsigned()?)?;
        meta.raw_bytes = cells.get_unsigned()?;
        for _ in 0..cells.get_length()? {
            meta.lost.push(text(&mut cells)?);
        }
        for _ in 0..if is_old { 0 } else { cells.get_length()? } {
            meta.selected.push(text(&mut cells)?);
        }
        let mut rest = cells.rest();
        let rank_indices = RankList::decode(&mut rest, MOST).ok()?;
        let mut column = |_| Column::decode_values(&mut rest, &rank_indices).ok();
        let columns = if is_old { COLUMNS - 1 } else { COLUMNS };
        let columns: Vec<Column> = (0..columns).map(&mut column).collect::<Option<_>>()?;
        let mut texts = || TextColumn::decode_texts(&mut rest, &rank_indices).ok();
        let texts: [TextColumn; 3] = [texts()?, texts()?, texts()?];
        let mut cells = Cells::new(rest);
        let odd =
            cells.get_list(|cells| Some((cells.get_u32()?, cells.get_list(Cells::get_u32)?)))?;
        if !cells.is_empty() {
            return None;
        }
        meta.streams = streams(&rank_indices, &columns, &texts, &odd.into_iter().collect())?;
        Some(meta)
    }
}

fn streams(
    rank_indices: &RankList,
    columns: &[Column],
    texts: &[TextColumn; 3],
    odd: &BTreeMap<u32, Vec<u32>>,
) -> Option<Vec<StreamMeta>> {
    let (mut streams, mut texts_bytes) = (Vec::new(), 0usize);
    for rank_index in rank_indices.iter() {
        let number = |column: usize| columns.get(column)?.eval(rank_index);
        let int = |column: usize| number(column).and_then(|n| i32::try_from(n).ok());
        let text =
            |of: usize| Some(String::from_utf8_lossy(&texts[of].eval(rank_index)?).into_owned());
        let threads = u32::try_from(number(6)?).ok()?;
        if streams.len() as u64 + u64::from(threads) > MOST_THREADS {
            return None;
        }
        let stream = StreamMeta {
            rank: int(0)?,
            size: int(1)?,
            thread: 0,
            process: rank_index.into(),
            pid: int(2)?,
            host: text(0)?,
            program: text(1)?,
            library: text(2)?,
            family: u32::try_from(number(3)?).ok()?,
            ended: Ended::from_code(number(4)?, number(5)?),
            unrecorded: u32::try_from(number(7)?).ok()?,
            missing: u32::try_from(number(8)?).ok()?,
            paused: Paused::from_code(number(9).unwrap_or(0)),
            clock: [(0, 0); 2],
            uncertainty: 0,
            calls: BTreeMap::new(),
            bytes: 0,
        };
        let text_bytes = stream.host.len() + stream.program.len() + stream.library.len();
        let numbers = odd.get(&rank_index).cloned().unwrap_or_else(|| (0..threads).collect());
        texts_bytes = texts_bytes.saturating_add(text_bytes.saturating_mul(numbers.len()));
        if texts_bytes > MOST_TEXT {
            return None;
        }
        for (i, thread) in numbers.into_iter().enumerate() {
            let counted = if i == 0 { (stream.unrecorded, stream.missing) } else { (0, 0) };
            let (unrecorded, missing) = counted;
            streams.push(StreamMeta { thread, unrecorded, missing, ..stream.clone() });
        }
    }
    Some(streams)
}

/// MPICH describes its whole configuration after the line with its version.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("").trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redacted_trace_tells_machines_apart_without_their_names() {
        let stream = |host: &str| StreamMeta {
            host: host.to_owned(),
            program: "/home/me/secret/app".to_owned(),
            ..stream(0)
        };
        let mut meta = Meta {
            command: vec!["./app".to_owned(), "--password=x".to_owned()],
            streams: ["node7", "node8", "node7"].map(stream).to_vec(),
            lost: vec!["/home/me/a.parts/node7.1.0.part: it is short".to_owned()],
            selected: vec![REDACT.to_owned()],
            ..Meta::default()
        };
        assert!(meta.is_redacted());
        assert!(meta.left_out().is_empty(), "no call is missing");
        meta.redact();
        assert_eq!(meta.command, ["redacted"]);
        let hosts: Vec<&str> = meta.streams.iter().map(|s| s.host.as_str()).collect();
        assert_eq!(hosts, ["host0", "host1", "host0"]);
        assert_eq!(meta.streams[0].program, "app");
        assert_eq!(meta.lost, ["redacted: it is short"]);
    }

    fn stream(rank: i32) -> StreamMeta {
        StreamMeta {
            rank,
            size: 2,
            thread: 0,
            process: 7 + rank as u64,
            pid: 100 + rank,
            host: "host".to_owned(),
            program: "app".to_owned(),
            library: "MPI".to_owned(),
            family: 0,
            ended: Ended::Finalized,
            unrecorded: 0,
            missing: 0,
            paused: Paused::Never,
            clock: [(0, 0); 2],
            uncertainty: 0,
            calls: BTreeMap::new(),
            bytes: 0,
        }
    }

    #[test]
    fn what_was_selected_and_who_was_paused_come_back() {
        let mut meta = Meta { streams: vec![stream(0), stream(1)], ..Meta::default() };
        let nothing = meta.to_bytes().len();
        assert!(meta.left_out().is_empty());
        meta.selected = vec!["--ranks 0".to_owned(), "--callsite return".to_owned()];
        meta.streams[1].paused = Paused::Still;
        meta.streams[1].ended = Ended::Running;
        let back = Meta::from_bytes(&meta.to_bytes()).expect("it reads");
        assert_eq!(back.selected, meta.selected);
        let paused: Vec<Paused> = back.streams.iter().map(|s| s.paused).collect();
        assert_eq!(paused, [Paused::Never, Paused::Still]);
        assert_eq!(back.streams[1].ended, Ended::Running);
        assert_eq!(back.left_out(), ["--ranks 0", "the program switched recording off"]);
        assert!(nothing < 60, "{nothing} bytes where nothing was selected");
    }

    #[test]
    fn a_run_without_processes_yet_reads_back() {
        let meta = Meta { command: vec!["mpirun".to_owned()], ..Meta::default() };
        assert_eq!(Meta::from_bytes(&meta.to_bytes()).expect("it reads").command, ["mpirun"]);
    }

    #[test]
    fn the_first_version_still_reads() {
        let streams = vec![stream(0), stream(1)];
        let meta = Meta { refrain: "0.1".to_owned(), streams, ..Meta::default() };
        // Without the empty selection behind the lost parts, and the last of the columns.
        let mut bytes = meta.to_bytes();
        bytes[0] = 1;
        let lost = 1 + 4 + 1 + 1 + 4 + 3 + 1;
        assert_eq!(bytes.remove(lost), 0);
        let texts = bytes.windows(4).position(|w| w == b"host").expect("the host");
        let mut column = Vec::new();
        Column::fit(&[0, 1], &[0, 0]).encode_values(&mut column);
        let at = (0..texts).rev().find(|at| bytes[*at..].starts_with(&column)).expect("a column");
        bytes.drain(at..at + column.len());
        let back = Meta::from_bytes(&bytes).expect("it reads");
        assert_eq!((back.streams.len(), back.streams[1].pid), (2, 101));
        assert!(back.left_out().is_empty());
    }
}
