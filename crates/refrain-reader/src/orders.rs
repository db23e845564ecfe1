//! Records of receive orders: the files that ranks write during a run, and the `.refrain` file made of them.
//!
//! A rank writes three files (see the agent's `order/files.rs`): sealed frames, a window of what
//! was not sealed yet, and facts. If a rank was killed, its window is sealed here, so its order is known up to the
//! last call. With the clock method, ranks write chunks instead of frames and a window; of a rank that was killed,
//! all complete chunks are known.
//!
//! In a `.refrain` file the section `order/N` holds the frames or chunks of rank N, and `order/facts` lines
//! of text: `refrain` and its version, `time`, `word` for each word of the command, `exit` and a code,
//! `redacted` if the command, hosts and folders were left out;
//! then `rank N` for each rank, followed by its facts; at the end `site`, a number and a call site, for all ranks.
//! A call site is `module@build-id+hex-offset`, without `@build-id` if the module has none, and in files of
//! versions that did not record it.

use crate::error::TraceError;
use crate::meta::{REDACTED, base_name};
use crate::sections;
use refrain_container::{Container, Integrity, Writer};
use refrain_order::causal::log::{self, InUse};
use refrain_order::{Frames, OrderError, Recorder, Sums};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The receive orders of a run.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The version of Refrain that wrote them.
    pub refrain: String,
    /// The command that was run.
    pub command: Vec<String>,
    /// Nanoseconds since 1970 when it began.
    pub time: u64,
    /// How it ended.
    pub exit_code: Option<i32>,
    /// By rank.
    pub ranks: Vec<RankOrder>,
    /// Call sites by their numbers: module, build id and offset.
    pub sites: BTreeMap<u64, String>,
    /// Whether the command line, host names and paths were left out.
    pub redacted: bool,
    /// Whether the end of the file is missing.
    pub is_recovered: bool,
}

/// How orders are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The causal method: matched sources and tags. See `refrain_order::causal`.
    #[default]
    Causal,
    /// The clock method: Lamport clocks that messages carry. See `refrain_order::clock`.
    Clock,
}

impl Method {
    /// The name it has on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Method::Causal => "causal",
            Method::Clock => "clock",
        }
    }
}

/// The receive order of a rank.
#[derive(Clone, Debug, Default)]
pub struct RankOrder {
    /// The rank.
    pub rank: u32,
    /// How many ranks there were.
    pub size: u32,
    /// Whether it reached `MPI_Finalize`, and everything before is recorded.
    pub finalized: bool,
    /// Why the record is truncated, if the rank itself noticed it.
    pub why_cut: Option<String>,
    /// The machine.
    pub host: String,
    /// The process number.
    pub pid: u32,
    /// The program's file.
    pub program: String,
    /// The MPI library.
    pub library: String,
    /// Whether system clocks and random numbers are recorded, too.
    pub rand: bool,
    /// `MPI_Wtime` was left out.
    pub no_clock: bool,
    /// Whether it was made from a trace of calls, which has no call sites and no clock.
    pub traced: bool,
    /// Unsupported operations that the program used.
    pub unsupported: Vec<String>,
    /// Where the agent panicked: each a defect of Refrain, which the program did not notice.
    pub panics: Vec<String>,
    /// For each thread its number and the thread that created it, as the agent wrote them.
    pub threads: Vec<String>,
    /// How much was recorded, if the rank itself wrote it; not stored in a file.
    pub sums: Option<Sums>,
    /// How it was recorded.
    pub method: Method,
    /// The order itself, by the causal method.
    pub frames: Frames,
    /// The order itself, by clocks.
    pub chunks: Vec<u8>,
}

impl RankOrder {
    fn learn(&mut self, fact: &str, value: &str) {
        match fact {
            "size" => self.size = value.parse().unwrap_or(0),
            "pid" => self.pid = value.parse().unwrap_or(0),
            "host" => value.clone_into(&mut self.host),
            "program" => value.clone_into(&mut self.program),
            "library" => value.clone_into(&mut self.library),
            "finalized" => self.finalized = true,
            "cut" => self.why_cut = Some(value.to_owned()),
            "rand" => self.rand = true,
            "no-clock" => self.no_clock = true,
            "traced" => self.traced = true,
            "method" if value == Method::Clock.name() => self.method = Method::Clock,
            "outside" => self.unsupported.push(value.to_owned()),
            "panicked" => self.panics.push(value.to_owned()),
            "thread" => self.threads.push(value.to_owned()),
            "sums" => {
                let mut numbers = value.split(' ').map_while(|number| number.parse().ok());
                let mut next = || numbers.next().unwrap_or(0);
                let [receives, calls, polls, values, value_bytes] = std::array::from_fn(|_| next());
                self.sums = Some(Sums { receives, calls, polls, values, value_bytes });
            }
            _ => {}
        }
    }

    /// The order as it is in a file.
    fn bytes(&self) -> &[u8] {
        match self.method {
            Method::Causal => self.frames.bytes(),
            Method::Clock => &self.chunks,
        }
    }

    /// Sets the content of the section, once the facts are known.
    fn put_bytes(&mut self, bytes: Vec<u8>) {
        match self.method {
            Method::Causal => self.frames = Frames::read(bytes),
            Method::Clock => self.chunks = bytes,
        }
    }

    /// Whether everything up to `MPI_Finalize` is recorded.
    pub fn is_whole(&self) -> bool {
        self.finalized && self.why_cut.is_none()
    }

    /// Why the order cannot be read to its end, if it cannot.
    pub fn cut(&self) -> Option<OrderError> {
        match self.method {
            Method::Causal => self.frames.truncated(),
            Method::Clock => match refrain_order::clock::summary::summary(&self.chunks) {
                Ok(found) => found.truncated,
                Err(error) => Some(error),
            },
        }
    }

    fn facts(&self) -> String {
        let Self { rank, size, pid, host, program, library, .. } = self;
        let mut text = format!("rank {rank}\nsize {size}\npid {pid}\nhost {host}\n");
        // Writing to a String cannot fail.
        let _ = write!(text, "program {program}\nlibrary {library}\n");
        self.unsupported.iter().for_each(|what| text += &format!("outside {what}\n"));
        self.panics.iter().for_each(|at| text += &format!("panicked {at}\n"));
        self.threads.iter().for_each(|thread| text += &format!("thread {thread}\n"));
        text += if self.rand { "rand\n" } else { "" };
        text += if self.no_clock { "no-clock\n" } else { "" };
        text += if self.traced { "traced\n" } else { "" };
        if self.method != Method::Causal {
            text += &format!("method {}\n", self.method.name());
        }
        self.why_cut.iter().for_each(|why| text += &format!("cut {why}\n"));
        text + if self.finalized { "finalized\n" } else { "" }
    }
}

/// A fact and its value.
fn fact(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

/// Text as one line: line breaks are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' if characters.next() == Some('n') => '\n',
            other => other,
        });
    }
    plain
}

/// Whether ranks have left receive orders in a folder.
pub fn are_in(parts: &Path) -> bool {
    !ranks_in(parts).is_empty()
}

fn ranks_in(parts: &Path) -> Vec<u32> {
    let files = std::fs::read_dir(parts).into_iter().flatten().flatten();
    let rank = |name: String| name.strip_prefix("rank-")?.strip_suffix(".facts")?.parse().ok();
    let mut ranks: Vec<u32> =
        files.filter_map(|file| rank(file.file_name().into_string().ok()?)).collect();
    ranks.sort_unstable();
    ranks
}

/// The frames of a rank, including its unsealed window.
fn frames_in(parts: &Path, rank: u32) -> Result<Frames, OrderError> {
    let own = |what: &str| parts.join(format!("rank-{rank}.{what}"));
    let mut frames = std::fs::read(own("order")).unwrap_or_default();
    // Where there was no room for a window, nothing was recorded.
    let Ok((in_use, window)) = read_window(&own("log")) else {
        return Ok(Frames::read(frames));
    };
    frames.truncate(usize::try_from(in_use.base).unwrap_or(usize::MAX));
    let window = window?;
    if !window.is_empty() {
        let mut recorder = Recorder::resume(&Frames::read(frames.clone()));
        log::apply(log::words(&window), &mut recorder)?;
        recorder.seal(&mut frames);
    }
    Ok(Frames::read(frames))
}

/// Reads the part of a window that is in use: next to nothing after a run that ended normally.
fn read_window(path: &Path) -> std::io::Result<(InUse, Result<Vec<u8>, OrderError>)> {
    let mut file = File::open(path)?;
    let mut first = [0; 8];
    file.read_exact(&mut first)?;
    let in_use = InUse::read(first);
    let place = match in_use.range(file.metadata()?.len()) {
        Ok(place) => place,
        Err(error) => return Ok((in_use, Err(error))),
    };
    let mut window = Vec::new();
    file.seek(SeekFrom::Start(place.start))?;
    file.take(place.end - place.start).read_to_end(&mut window)?;
    Ok((in_use, Ok(window)))
}

/// Checks the sections of a file of receive orders; `None` if the file holds none.
pub fn integrity(path: &Path) -> Option<Integrity> {
    let container = Container::open(path).ok()?;
    Orders::are_in(&container).then(|| container.verify())
}

impl Orders {
    /// Collects the files of all ranks in a folder.
    pub fn gather(parts: &Path) -> Result<Orders, TraceError> {
        let mut orders = Orders::default();
        for rank in ranks_in(parts) {
            let path = parts.join(format!("rank-{rank}.facts"));
            let facts = std::fs::read(&path)
                .map_err(|source| TraceError::Parts { path: path.clone(), source })?;
            let mut own = RankOrder { rank, ..RankOrder::default() };
            for line in String::from_utf8_lossy(&facts).lines() {
                orders.learn(Some(&mut own), line);
            }
            match own.method {
                Method::Causal => {
                    own.frames = frames_in(parts, rank).map_err(|why| TraceError::Section {
                        path: parts.to_owned(),
                        section: format!("rank-{rank}.log"),
                        why: why.to_string(),
                    })?;
                }
                Method::Clock => {
                    let chunks = std::fs::read(parts.join(format!("rank-{rank}.order")));
                    own.chunks = chunks.unwrap_or_default();
                }
            }
            orders.ranks.push(own);
        }
        // The rank was killed before it wrote its facts.
        let size = orders.size();
        orders.ranks.iter_mut().filter(|rank| rank.size == 0).for_each(|rank| rank.size = size);
        Ok(orders)
    }

    fn learn(&mut self, rank: Option<&mut RankOrder>, line: &str) {
        match (fact(line), rank) {
            (("site", text), _) => {
                let (site, place) = fact(text);
                if let Ok(site) = u64::from_str_radix(site, 16) {
                    self.sites.insert(site, place.to_owned());
                }
            }
            ((fact, value), Some(rank)) => rank.learn(fact, value),
            (("refrain", version), None) => version.clone_into(&mut self.refrain),
            (("word", word), None) => self.command.push(unescaped(word)),
            (("time", time), None) => self.time = time.parse().unwrap_or(0),
            (("exit", code), None) => self.exit_code = code.parse().ok(),
            (("redacted", _), None) => self.redacted = true,
            _ => {}
        }
    }

    /// Whether a container holds receive orders.
    pub fn are_in(container: &Container) -> bool {
        container.section(sections::ORDER_FACTS).is_ok()
    }

    /// Reads the receive orders in a container.
    pub fn read(container: &Container) -> Result<Orders, TraceError> {
        let facts = container.read_checked(sections::ORDER_FACTS)?;
        let is_recovered = container.is_recovered();
        let mut orders = Orders { is_recovered, ..Orders::default() };
        let mut own: Option<RankOrder> = None;
        for line in String::from_utf8_lossy(&facts).lines() {
            if let ("rank", rank) = fact(line) {
                orders.ranks.extend(own.take());
                let rank = rank.parse().unwrap_or(u32::MAX);
                own = Some(RankOrder { rank, ..RankOrder::default() });
            } else {
                orders.learn(own.as_mut(), line);
            }
        }
        orders.ranks.extend(own);
        for rank in &mut orders.ranks {
            rank.put_bytes(container.read_checked(&format!("{}{}", sections::ORDER, rank.rank))?);
            rank.finalized &= rank.frames.truncated().is_none();
        }
        Ok(orders)
    }

    /// Opens a file of receive orders.
    pub fn open(path: &Path) -> Result<Orders, TraceError> {
        Self::read(&Container::open(path)?)
    }

    /// Replaces what a redacted record must not hold: the command line, host names (by numbers, so
    /// that machines stay apart) and folders of files.
    pub fn redact(&mut self) {
        self.redacted = true;
        self.command = vec![REDACTED.to_owned()];
        let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
        for rank in &mut self.ranks {
            let next = hosts.len();
            let number = *hosts.entry(std::mem::take(&mut rank.host)).or_insert(next);
            rank.host = format!("host{number}");
            rank.program = base_name(&rank.program).to_owned();
        }
        self.sites.values_mut().for_each(|site| *site = base_name(site).to_owned());
    }

    /// Writes a file; gives its size.
    pub fn write(&self, path: &Path) -> Result<u64, TraceError> {
        let mut writer = Writer::create(path)?;
        let mut facts = format!("refrain {}\ntime {}\n", self.refrain, self.time);
        self.command.iter().for_each(|word| facts += &format!("word {}\n", escaped(word)));
        self.exit_code.iter().for_each(|code| facts += &format!("exit {code}\n"));
        if self.redacted {
            facts += "redacted\n";
        }
        self.ranks.iter().for_each(|rank| facts += &rank.facts());
        self.sites.iter().for_each(|(number, site)| facts += &format!("site {number:x} {site}\n"));
        writer.add_bytes(sections::ORDER_FACTS, facts.as_bytes())?;
        for rank in &self.ranks {
            writer.add_bytes(&format!("{}{}", sections::ORDER, rank.rank), rank.bytes())?;
        }
        Ok(writer.finish()?)
    }

    /// Writes the files that the ranks of a replay read into a folder.
    pub fn lay_out(&self, folder: &Path) -> std::io::Result<()> {
        let sites: String =
            self.sites.iter().map(|(number, site)| format!("site {number:x} {site}\n")).collect();
        for rank in &self.ranks {
            let own = |what: &str| folder.join(format!("rank-{}.{what}", rank.rank));
            std::fs::write(own("order"), rank.bytes())?;
            std::fs::write(own("facts"), rank.facts() + &sites)?;
        }
        // Ranks of a killed run may have left nothing yet: their record ends where it begins.
        let is_killed = !self.ranks.iter().any(|rank| rank.finalized);
        let is_missing = |number: &u32| self.ranks.iter().all(|rank| rank.rank != *number);
        for rank in (0..self.size()).filter(|number| is_killed && is_missing(number)) {
            let none = RankOrder { rank, size: self.size(), ..RankOrder::default() };
            std::fs::write(folder.join(format!("rank-{rank}.order")), none.bytes())?;
            std::fs::write(folder.join(format!("rank-{rank}.facts")), none.facts())?;
        }
        Ok(())
    }

    /// How they were recorded.
    pub fn method(&self) -> Method {
        self.ranks.first().map_or(Method::Causal, |rank| rank.method)
    }

    /// How many ranks ran.
    pub fn size(&self) -> u32 {
        self.ranks.iter().map(|rank| rank.size).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_order::{Call, Completed, Kind};

    fn frames() -> Frames {
        let mut recorder = Recorder::new();
        let call = Call { kind: Kind::Recv, site: 0x1f, count: 0 };
        recorder.matched(0, &call, Completed::All);
        let mut bytes = Vec::new();
        recorder.finish(&mut bytes);
        Frames::read(bytes)
    }

    #[test]
    fn orders_by_clocks_are_kept_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.refrain");
        let method = Method::Clock;
        let rank = RankOrder { size: 1, method, chunks: vec![1, 2, 3], ..RankOrder::default() };
        let orders = Orders { ranks: vec![rank], ..Orders::default() };
        orders.write(&path).unwrap();
        let read = Orders::open(&path).unwrap();
        assert_eq!((read.method(), &read.ranks[0].chunks), (method, &vec![1, 2, 3]));
        // What cannot be read is reported.
        assert!(read.ranks[0].cut().is_some());
        let parts = folder.path().join("parts");
        std::fs::create_dir(&parts).unwrap();
        read.lay_out(&parts).unwrap();
        let gathered = Orders::gather(&parts).unwrap();
        assert_eq!(gathered.ranks[0].chunks, [1, 2, 3]);
    }

    #[test]
    fn a_rank_that_has_missed_something_is_not_whole_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.refrain");
        std::fs::write(folder.path().join("rank-0.facts"), "size 2\ncut a reason\nfinalized\n")
            .unwrap();
        std::fs::write(folder.path().join("rank-1.facts"), "thread 0 0\n").unwrap();
        let gathered = Orders::gather(folder.path()).unwrap();
        gathered.write(&path).unwrap();
        let read = Orders::open(&path).unwrap();
        assert_eq!(read.ranks[0].why_cut.as_deref(), Some("a reason"));
        assert!(read.ranks[0].finalized && !read.ranks[0].is_whole());
        // A rank that was killed before it wrote its facts belongs to the same run.
        assert_eq!(read.ranks[1].size, 2);
    }

    #[test]
    fn ranks_of_a_killed_run_that_left_nothing_have_a_record_that_ends_at_once() {
        let killed = RankOrder { size: 3, rank: 1, frames: frames(), ..RankOrder::default() };
        let ended = RankOrder { finalized: true, ..killed.clone() };
        for (rank, others) in [(killed, true), (ended, false)] {
            let folder = tempfile::tempdir().unwrap();
            let orders = Orders { ranks: vec![rank], ..Orders::default() };
            orders.lay_out(folder.path()).unwrap();
            for (rank, is_there) in [(0, others), (1, true), (2, others), (3, false)] {
                let path = folder.path().join(format!("rank-{rank}.order"));
                assert_eq!(path.exists(), is_there, "{rank}");
            }
            let facts = std::fs::read_to_string(folder.path().join("rank-2.facts"));
            assert_eq!(facts.is_ok_and(|facts| facts.contains("size 3\n")), others);
        }
    }

    #[test]
    fn orders_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.refrain");
        let rank = |rank| RankOrder {
            rank,
            size: 2,
            finalized: rank == 0,
            pid: 7,
            program: "/bin/app one".to_owned(),
            unsupported: vec!["MPI_Fetch_and_op".to_owned()],
            panics: vec!["src/order/mod.rs:12".to_owned()],
            frames: frames(),
            ..RankOrder::default()
        };
        let orders = Orders {
            refrain: "0.1".to_owned(),
            command: vec!["mpirun".to_owned(), "a\\b\nc".to_owned()],
            time: 5,
            exit_code: Some(3),
            ranks: vec![rank(0), rank(1)],
            sites: BTreeMap::from([(0x1f, "/bin/app one+1a".to_owned())]),
            redacted: false,
            is_recovered: false,
        };
        orders.write(&path).unwrap();
        let read = Orders::open(&path).unwrap();
        assert_eq!(read.command, orders.command);
        assert_eq!((read.exit_code, read.size()), (Some(3), 2));
        assert_eq!(read.sites, orders.sites);
        for (read, written) in read.ranks.iter().zip(&orders.ranks) {
            assert_eq!(read.facts(), written.facts());
            assert_eq!(read.panics, written.panics);
            assert_eq!(read.frames.bytes(), written.frames.bytes());
        }
        let mut redacted = orders.clone();
        redacted.redact();
        redacted.write(&path).unwrap();
        let read = Orders::open(&path).unwrap();
        assert!(read.redacted);
        assert_eq!((read.command.join(" ").as_str(), &*read.ranks[1].host), ("redacted", "host0"));
        assert_eq!((&*read.ranks[0].program, &*read.sites[&0x1f]), ("app one", "app one+1a"));
    }
}
