//! What is known of a thread: whose its calls are, where they are made, which stream it is.

use crate::bindings;
use crate::entry::{Entry, thread_block};
use crate::modules::{self, Verdict};
use crate::process::{self, Quiet};
use crate::sites::Sites;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::requests::Map;
use super::{Task, files, line, replay, task};

/// How many modules of the program are known at a time.
const MODULES: usize = 4;
/// How many places in the program are known at a time.
const PLACES: usize = 64;

/// What is known of a thread.
pub struct Thread {
    /// Which stream of the record is its.
    pub stream: u32,
    /// Return addresses that are the program's.
    program: [Range<usize>; MODULES],
    oldest: usize,
    /// Addresses and their sites: those used of late, and all.
    places: [(usize, u64); PLACES],
    known: Map<u64>,
    /// Finds a way past the bindings of Fortran.
    sites: Box<Sites>,
    fork_mark: *const u8,
}

/// Not known yet.
const UNKNOWN: u32 = u32::MAX;

/// How many threads have streams.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// In a replay: streams that are taken.
static TAKEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The thread that makes a call, if the call is the program's.
pub fn of_call(entry: &Entry) -> Option<&'static mut Thread> {
    let thread = this();
    if thread.is_of_child() {
        return None;
    }
    if thread.program[0].contains(&entry.caller) || thread.judge(entry) {
        if thread.stream == UNKNOWN {
            thread.announce();
        }
        Some(thread)
    } else {
        None
    }
}

/// The system's numbers of threads that call MPI, where they share it.
static CALLING: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

/// How many threads call MPI, and have not ended; one if threads do not share it.
pub fn count() -> u32 {
    if !line::is_shared() {
        return 1;
    }
    let Ok(mut calling) = CALLING.lock() else { return 1 };
    // SAFETY: plain system calls; no signal is sent.
    calling.retain(|thread| unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, 0) == 0
    });
    calling.len() as u32
}

/// This thread.
pub fn this() -> &'static mut Thread {
    // SAFETY: the block is this thread's own; what it points to is never freed, and borrowed only
    // while no call is forwarded.
    unsafe {
        let block = thread_block();
        if (*block).order.is_null() {
            (*block).order = Thread::new();
        }
        &mut *(*block).order
    }
}

impl Thread {
    /// Whether it is a copy, in a process that was forked: what it does is not the rank's.
    #[inline]
    pub fn is_of_child(&self) -> bool {
        // SAFETY: the mark is never unmapped.
        unsafe { self.fork_mark.read_volatile() == 0 }
    }

    #[cold]
    fn new() -> *mut Thread {
        let _quiet = Quiet::keep();
        Box::into_raw(Box::new(Thread {
            stream: UNKNOWN,
            program: [const { 0..0 }; MODULES],
            oldest: 1,
            places: [(0, 0); PLACES],
            known: Map::default(),
            sites: Box::new(Sites::new()),
            fork_mark: process::fork_mark(),
        }))
    }

    /// Finds the stream of this thread, as soon as MPI has begun: when recording the next one, in
    /// a replay that of the thread whose maker was the same.
    #[cold]
    pub fn announce(&mut self) {
        if files::rank() < 0 || self.stream != UNKNOWN {
            return;
        }
        let _quiet = Quiet::keep();
        // SAFETY: the block is this thread's own.
        let path = unsafe { (*thread_block()).path };
        let recorded = if task() == Task::Replay { recorded(path) } else { None };
        self.stream = recorded.unwrap_or_else(|| THREADS.fetch_add(1, Ordering::Relaxed));
        if let Ok(mut calling) = CALLING.lock() {
            // SAFETY: a plain system call.
            calling.push(unsafe { libc::gettid() });
        }
        if task() == Task::Record {
            files::note(&format!("thread {} {path:x}", self.stream));
        }
    }

    #[inline(never)]
    fn judge(&mut self, entry: &Entry) -> bool {
        if let Some(known) = self.program.iter().position(|range| range.contains(&entry.caller)) {
            self.program.swap(0, known);
            return true;
        }
        let verdict = bindings::known(entry.caller).unwrap_or_else(|| {
            let _quiet = Quiet::keep();
            std::panic::catch_unwind(|| modules::judge(entry)).unwrap_or(Verdict::Foreign)
        });
        match verdict {
            Verdict::Program(range) => {
                self.program[self.oldest] = range;
                self.program.swap(0, self.oldest);
                self.oldest = self.oldest % (MODULES - 1) + 1;
                true
            }
            Verdict::ByFortran => true,
            Verdict::Foreign => false,
        }
    }

    /// The site of a call: the same number in every run.
    #[inline]
    pub fn site(&mut self, entry: &Entry) -> u64 {
        let direct = self.program[0].contains(&entry.caller);
        let address = if direct { entry.caller } else { self.sites.own_return(entry) };
        let place = &self.places[cell(address)];
        if place.0 == address { place.1 } else { self.look_up(address) }
    }

    #[inline(never)]
    fn look_up(&mut self, address: usize) -> u64 {
        let site = match self.known.get(&address) {
            Some(site) => *site,
            None => self.name(address),
        };
        self.places[cell(address)] = (address, site);
        site
    }

    /// The site of an address that was not seen before.
    #[cold]
    fn name(&mut self, address: usize) -> u64 {
        let _quiet = Quiet::keep();
        let name = std::panic::catch_unwind(|| name(address)).ok().flatten();
        let (file, offset) = name.unwrap_or((b"?", 0));
        // Folders may be others in another run.
        let short = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let site = hash(&[short, &offset.to_le_bytes()].concat());
        let place = format!("{}+{offset:x}", String::from_utf8_lossy(file));
        match task() {
            Task::Replay => replay::note_site(site, &place),
            _ => files::note(&format!("site {site:x} {place}")),
        }
        self.known.insert(address, site);
        site
    }
}

/// The stream of a recorded thread that nobody has taken yet. What was not recorded comes behind.
fn recorded(path: u64) -> Option<u32> {
    let facts = String::from_utf8(files::read("facts")?).ok()?;
    let streams = facts.lines().filter_map(|line| {
        let (stream, path) = line.strip_prefix("thread ")?.split_once(' ')?;
        Some((stream.parse::<u32>().ok()?, u64::from_str_radix(path, 16).ok()?))
    });
    let mut taken = TAKEN.lock().ok()?;
    let (mut found, mut behind) = (None, 0);
    for (stream, own) in streams {
        behind = behind.max(stream + 1);
        if found.is_none() && own == path && !taken.contains(&stream) {
            found = Some(stream);
        }
    }
    THREADS.fetch_max(behind, Ordering::Relaxed);
    taken.extend(found);
    found
}

fn cell(address: usize) -> usize {
    (address ^ address >> 6) % PLACES
}

/// The module's file and the offset in it. Code made at run time has no place of its own that
/// would be the same in another run.
fn name(address: usize) -> Option<(&'static [u8], usize)> {
    let module = modules::find(address)?;
    let file = if module.path.is_empty() { process::program() } else { &module.path };
    Some((file, address - module.base))
}

/// FNV-1a, then mixed.
fn hash(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    hash ^ hash >> 29
}
