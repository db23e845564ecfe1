//! Reads the parts of a run: the log files of its threads, and the states of its processes.

use refrain_container::reason;
use refrain_encode::encoder::Encoder;
use refrain_format::part::{self, PartHeader, Sync, flags};
use refrain_format::record::{HEAD, Tag};
use refrain_format::state;
use refrain_reader::TraceError;
use refrain_reader::meta::{Ended, Meta, Paused, StreamMeta};
use refrain_reader::parallel;
use refrain_signature::cells::Cells;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The headers of all readable parts of a folder.
fn headers(folder: &Path) -> impl Iterator<Item = PartHeader> {
    let header = |entry: std::fs::DirEntry| {
        let mut page = vec![0; part::HEADER_BYTES];
        File::open(entry.path()).ok()?.read_exact(&mut page).ok()?;
        PartHeader::read(&page).ok()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.metadata().is_ok_and(|m| m.is_file())).filter_map(header)
}

/// Processes of this machine that have written parts and not called `MPI_Finalize`.
pub fn running_processes(folder: &Path) -> std::collections::BTreeSet<i32> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    headers(folder)
        .filter(|h| part::text(&h.host) == host.trim() && !h.is(flags::FINALIZED))
        .map(|h| h.pid)
        .collect()
}

/// The ranks in which the agent has panicked, and how often. Each panic is a defect of Refrain that the
/// program did not notice.
pub fn panics(folder: &Path) -> BTreeMap<i32, u32> {
    let mut ranks = BTreeMap::new();
    for header in headers(folder).filter(|header| header.panics > 0) {
        // Every thread's log has the count of its whole process.
        let count = ranks.entry(header.rank).or_insert(0);
        *count = header.panics.max(*count);
    }
    ranks
}

/// Whether the process of a stream is running; `None` if it is on another machine.
pub fn is_running(stream: &StreamMeta) -> Option<bool> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if stream.host != host.trim() {
        return None;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", stream.pid)).unwrap_or_default();
    let Some((_, facts)) = stat.rsplit_once(')') else { return Some(false) };
    let facts: Vec<&str> = facts.split_whitespace().collect();
    let fact = |index: usize| facts.get(index).and_then(|fact| fact.parse::<u64>().ok());
    // A zombie and an exiting process have ended. A process that started later than the stream has
    // reused its number.
    let has_ended = matches!(facts.first(), None | Some(&("Z" | "X")))
        || fact(6).is_some_and(|flags| flags & EXITING != 0);
    let is_it = match (fact(19), boot_seconds()) {
        (Some(ticks), Some(boot)) => {
            (boot + ticks / 100) * 1_000_000_000 <= stream.process.saturating_add(SLACK)
        }
        _ => true,
    };
    Some(is_it && !has_ended)
}

/// The kernel's flag `PF_EXITING`.
const EXITING: u64 = 4;

/// Nanoseconds. The kernel reports its own start time and those of processes in coarse units.
const SLACK: u64 = 2_000_000_000;

/// The boot time of the machine, in seconds since 1970.
fn boot_seconds() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The file in a folder of parts that describes the run.
const RUN: &str = "run";

/// Writes the description of the run into a folder of parts, for `refrain merge` and `refrain where`.
pub fn note_run(folder: &Path, meta: &Meta) -> io::Result<()> {
    std::fs::write(folder.join(RUN), meta.to_bytes())
}

/// The description of the run; empty if there is none.
pub fn noted_run(folder: &Path) -> Meta {
    let bytes = std::fs::read(folder.join(RUN)).unwrap_or_default();
    Meta::from_bytes(&bytes).unwrap_or_default()
}

/// Whether a folder holds parts.
pub fn holds_parts(folder: &Path) -> bool {
    let is_part =
        |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|e| e == part::EXTENSION);
    std::fs::read_dir(folder).is_ok_and(|all| all.flatten().any(is_part))
}

/// A part that is to be assembled.
pub struct Part {
    /// Its file.
    pub path: PathBuf,
    /// The position where the current log begins; the process's state has everything before.
    pub base: u64,
    /// The ranks have merged their traces themselves.
    pub merged: bool,
    /// Comparisons with the clock of its parent in the tree of ranks: after Init and before Finalize.
    pub sync: [Sync; 2],
    /// Its ticks are nanoseconds of the system clock, not of a time-stamp counter.
    pub in_nanoseconds: bool,
    /// Facts; `bytes` are those of the whole log.
    pub stream: StreamMeta,
}

/// Reads every part of a folder, sorted by rank, process and thread. Also returns what is unreadable, with
/// the reason.
pub fn read_parts(folder: &Path) -> Result<(Vec<Part>, Vec<String>), TraceError> {
    let (mut parts, mut lost) = (Vec::new(), Vec::new());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|source| part_error(folder, source))? {
        let path = entry.map_err(|source| part_error(folder, source))?.path();
        if path.extension().is_some_and(|e| e == part::EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    let read = parallel::map(paths.len(), |number| Part::read(&paths[number]));
    for (path, part) in paths.iter().zip(read) {
        match part {
            Ok((part, damage)) => {
                lost.extend(damage.map(|d| format!("{}: {d}", path.display())));
                parts.push(part);
            }
            Err(why) => lost.push(format!("{}: {why}", path.display())),
        }
    }
    // A log that began before MPI_Init has no rank; other threads of the process have it.
    let mut known: HashMap<(u64, i32), (i32, i32)> = HashMap::new();
    for Part { stream, .. } in &parts {
        if stream.rank >= 0 && stream.size >= 0 {
            known.insert((stream.process, stream.pid), (stream.rank, stream.size));
        }
    }
    for Part { stream, .. } in &mut parts {
        if let Some(&(rank, size)) = known.get(&(stream.process, stream.pid)) {
            (stream.rank, stream.size) = (rank, size);
        }
    }
    // Likewise a thread that ended before MPI_Finalize.
    let mut endings: HashMap<(u64, i32), Ended> = HashMap::new();
    for Part { stream, .. } in &parts {
        if matches!(stream.ended, Ended::Finalized | Ended::Aborted(_)) {
            endings.insert((stream.process, stream.pid), stream.ended.clone());
        }
    }
    for Part { stream, .. } in &mut parts {
        if stream.ended == Ended::Unfinalized
            && let Some(ended) = endings.get(&(stream.process, stream.pid))
        {
            stream.ended = ended.clone();
        }
        if stream.ended == Ended::Unfinalized && is_running(stream) == Some(true) {
            stream.ended = Ended::Running;
        }
    }
    parts.sort_by_key(|p| (p.stream.rank, p.stream.process, p.stream.pid, p.stream.thread));
    Ok((parts, lost))
}

pub(crate) fn part_error(path: &Path, source: io::Error) -> TraceError {
    TraceError::Parts { path: path.to_owned(), source }
}

impl Part {
    /// Reads a part. Also returns where it is damaged; everything before that is used.
    fn read(path: &Path) -> Result<(Part, Option<String>), String> {
        if !path.metadata().is_ok_and(|m| m.is_file()) {
            return Err("not a file".into());
        }
        let scan = || {
            let mut file = File::open(path).map_err(|e| e.to_string())?;
            let snapshot = Snapshot::of(&mut file)?;
            let (header, base) = (snapshot.header, snapshot.header.base);
            Ok::<_, String>((
                header,
                scan_heads(snapshot.log(file, base).map_err(|e| e.to_string())?),
            ))
        };
        let mut scanned = scan()?;
        // A running program may restart its log while it is read.
        for _ in 0..TRIES {
            let mut file = File::open(path).map_err(|e| e.to_string())?;
            if header_of(&mut file)?.base == scanned.0.base {
                break;
            }
            scanned = scan()?;
        }
        let (header, Scanned { calls, bytes, damage }) = scanned;
        if header.thread >= MOST_THREADS {
            return Err(format!("damaged: thread number {}", header.thread));
        }
        let ended = match () {
            () if header.is(flags::STOPPED) => Ended::LogStopped(header.stop_errno),
            () if header.is(flags::ABORTED) => Ended::Aborted(header.abort_code),
            () if header.is(flags::FINALIZED) => Ended::Finalized,
            () => Ended::Unfinalized,
        };
        let stream = StreamMeta {
            rank: header.rank,
            size: header.size,
            thread: header.thread,
            process: header.process,
            pid: header.pid,
            host: part::text(&header.host),
            program: part::text(&header.program),
            library: part::text(&header.library),
            family: header.family,
            ended,
            unrecorded: header.unrecorded,
            missing: header.missing,
            paused: match () {
                () if header.is(flags::PAUSED) => Paused::Still,
                () if header.is(flags::WAS_PAUSED) => Paused::Before,
                () => Paused::Never,
            },
            clock: [
                (header.first_ticks, header.first_nanos),
                (header.last_ticks, header.last_nanos),
            ],
            uncertainty: 0,
            calls,
            bytes: header.base.saturating_add(bytes),
        };
        let (merged, in_nanoseconds) = (header.is(flags::MERGED), header.is(flags::NANOSECONDS));
        let (path, base) = (path.to_owned(), header.base);
        let sync = header.sync;
        Ok((Part { path, base, merged, in_nanoseconds, sync, stream }, damage))
    }

    /// Reads the part again.
    pub fn again(&self) -> Option<Part> {
        Part::read(&self.path).ok().map(|(part, _)| part)
    }

    /// Whether the log still begins at the same position. If not, records that were read since may be
    /// wrong.
    pub fn is_current(&self) -> bool {
        let file = File::open(&self.path).map_err(|e| e.to_string());
        file.and_then(|mut file| header_of(&mut file)).is_ok_and(|now| now.base == self.base)
    }

    /// The records of the log from a position on, without the unused bytes after them.
    pub fn records(&self, from: u64) -> io::Result<impl Read + use<>> {
        let left = self.stream.bytes.saturating_sub(from);
        let mut file = File::open(&self.path)?;
        let snapshot = Snapshot::of(&mut file).map_err(io::Error::other)?;
        Ok(snapshot.log(file, from)?.take(left))
    }
}

/// A larger thread number is damage: each thread leaves a part.
const MOST_THREADS: u32 = 1 << 20;

/// How often a part is read that changes while it is read.
const TRIES: usize = 16;

/// Reads the header of a part, up to its window.
fn header_of(file: &mut File) -> Result<PartHeader, String> {
    let mut page = vec![0; part::HEADER_BYTES];
    file.seek(SeekFrom::Start(0)).map_err(|e| e.to_string())?;
    file.read_exact(&mut page).map_err(|e| reason(&e))?;
    PartHeader::read(&page)
}

/// A consistent copy of the header and the window of a part that the program may be writing.
struct Snapshot {
    header: PartHeader,
    window: Vec<u8>,
}

impl Snapshot {
    /// Reads until header and window are consistent. If they never are, the window counts as empty.
    fn of(file: &mut File) -> Result<Snapshot, String> {
        let mut window = vec![0; part::WINDOW_BYTES];
        let mut before = header_of(file)?;
        for _ in 0..TRIES {
            file.read_exact(&mut window).map_err(|e| reason(&e))?;
            let after = header_of(file)?;
            if (before.base, before.appended) == (after.base, after.appended) {
                return Ok(Snapshot { header: after, window });
            }
            before = after;
        }
        window.fill(0);
        Ok(Snapshot { header: before, window })
    }

    /// The log from a position on: the body, then the part of the window that continues it.
    fn log(self, mut file: File, from: u64) -> io::Result<impl Read + use<>> {
        let (base, appended) = (self.header.base, self.header.appended);
        let (head, _) = self.window.split_at(part::WINDOW_HEAD);
        let head = head.iter().rev().fold(0, |head, byte| head << 8 | u64::from(*byte));
        let end = base.saturating_add(appended);
        let skip = from.clamp(base, end) - base;
        // The window must contain the end of the body, or the requested position if that is later.
        let known = end.max(from).checked_sub(head).and_then(|n| usize::try_from(n).ok());
        let known =
            known.map_or(self.window.len(), |known| known.saturating_add(part::WINDOW_HEAD));
        let mut rest = io::Cursor::new(self.window);
        rest.set_position(known as u64);
        file.seek(SeekFrom::Start((part::BODY as u64).saturating_add(skip)))?;
        let body = BufReader::with_capacity(1 << 18, file).take(appended - skip);
        Ok(body.chain(rest))
    }
}

/// The state of a process.
pub struct State {
    /// The encoder.
    pub encoder: Encoder,
    /// For each thread, the position up to which the state covers its log.
    pub encoded: BTreeMap<u32, u64>,
}

impl State {
    /// Reads the state of a part's process; `None` if there is none.
    pub fn of(part: &Part) -> Result<Option<State>, String> {
        let Some((path, bytes)) = Self::read(part)? else { return Ok(None) };
        let bad = |why: &str| format!("{}: {why}", path.display());
        let mut cells = Cells::new(state::open(&bytes).map_err(bad)?);
        let encoded = positions(&mut cells);
        let encoder = encoded.is_some().then(|| Encoder::resume(&mut cells)).flatten();
        let (Some(encoded), Some(mut encoder)) = (encoded, encoder) else {
            return Err(bad("malformed"));
        };
        let sealed = Self::beside(part, state::sealed_file_name);
        if !encoder.load(&mut |at, length| read_at(&sealed, at, length)) {
            return Err(format!("{}: missing or truncated", sealed.display()));
        }
        Ok(Some(State { encoder, encoded }))
    }

    /// Only the positions that the state of a part's process covers.
    pub fn positions_of(part: &Part) -> Option<BTreeMap<u32, u64>> {
        let (_, bytes) = Self::read(part).ok()??;
        positions(&mut Cells::new(state::open(&bytes).ok()?))
    }

    /// The path of another file of the part's process, in the same folder.
    pub fn beside(part: &Part, name: fn(&str, i32, u64) -> String) -> PathBuf {
        let stream = &part.stream;
        part.path.with_file_name(name(&stream.host, stream.pid, stream.process))
    }

    fn read(part: &Part) -> Result<Option<(PathBuf, Vec<u8>)>, String> {
        let path = Self::beside(part, state::file_name);
        let mut read = std::fs::read(&path);
        // A running program may put a new state into this place and overwrite the one that is being read.
        for _ in 0..TRIES {
            if read.as_ref().map_or(true, |bytes| state::open(bytes).is_ok()) {
                break;
            }
            read = std::fs::read(&path);
        }
        match read {
            Ok(bytes) => Ok(Some((path, bytes))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("{}: {e}", path.display())),
        }
    }
}

/// Reads `length` bytes of a file at offset `at`; `None` if it is shorter.
fn read_at(path: &Path, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    if at.checked_add(length)? > file.metadata().ok()?.len() {
        return None;
    }
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == length).then_some(bytes)
}

/// Reads the position for each thread.
fn positions(cells: &mut Cells<'_>) -> Option<BTreeMap<u32, u64>> {
    let list = cells.get_list(|cells| Some((cells.get_u32()?, cells.get_unsigned()?)))?;
    Some(list.into_iter().collect())
}

/// What the heads of a log's records show.
struct Scanned {
    /// Calls by function.
    calls: BTreeMap<String, u64>,
    /// Bytes of whole records.
    bytes: u64,
    /// Where it is damaged, if it is.
    damage: Option<String>,
}

/// A longer function definition is damage.
const LONGEST_DEFINITION: usize = 1 << 16;

/// Counts the calls and bytes of a log, from the heads of its records only.
fn scan_heads(mut log: impl Read) -> Scanned {
    let (mut names, mut counts) = (HashMap::new(), HashMap::<u16, u64>::new());
    let (mut bytes, mut damage) = (0, None);
    let mut head = [0; HEAD];
    while log.read_exact(&mut head).is_ok() {
        let function = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let tag = Tag::from_byte(head[2]);
        if tag == Some(Tag::End) {
            break;
        }
        let content = length.checked_sub(HEAD);
        let is_definition = tag == Some(Tag::Define);
        let (Some(tag), Some(content)) = (tag, content) else {
            damage = Some(format!("damaged at byte {bytes} of its records"));
            break;
        };
        if is_definition && content > LONGEST_DEFINITION {
            damage = Some(format!("damaged at byte {bytes} of its records"));
            break;
        }
        let mut text = Vec::new();
        let mut rest = log.by_ref().take(content as u64);
        let got = match is_definition {
            true => rest.read_to_end(&mut text).map(|n| n as u64),
            false => io::copy(&mut rest, &mut io::sink()),
        };
        if got.ok() != Some(content as u64) {
            damage = Some(format!("truncated at byte {bytes} of its records"));
            break;
        }
        if is_definition {
            let text = String::from_utf8_lossy(&text);
            names.insert(function, text.split(' ').next().unwrap_or_default().to_owned());
        } else if matches!(tag, Tag::Enter | Tag::EnterAt) {
            *counts.entry(function).or_default() += 1;
        }
        bytes += length as u64;
    }
    let named = |(function, n): (u16, u64)| {
        let name = names.get(&function).cloned();
        (name.unwrap_or_else(|| format!("function {function}")), n)
    };
    Scanned { calls: counts.into_iter().map(named).collect(), bytes, damage }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn panics_of_the_agent_are_counted_once_per_process() {
        let folder = tempfile::tempdir().unwrap();
        for (name, rank, panics) in [("a", 3, 2u32), ("b", 3, 2), ("c", 4, 0)] {
            let mut page = vec![0; part::HEADER_BYTES];
            let mut put =
                |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
            put(0, &part::MAGIC);
            put(offset_of!(PartHeader, version), &part::VERSION.to_le_bytes());
            put(offset_of!(PartHeader, rank), &i32::to_le_bytes(rank));
            put(offset_of!(PartHeader, panics), &panics.to_le_bytes());
            std::fs::write(folder.path().join(name), page).unwrap();
        }
        assert_eq!(panics(folder.path()), BTreeMap::from([(3, 2)]));
    }
}
