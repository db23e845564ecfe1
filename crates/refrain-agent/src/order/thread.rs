//! What is known of a thread: whose its calls are, where they are made, which stream it is.

use crate::inside::bindings;
use crate::inside::entry::{Entry, thread_block};
use crate::inside::modules::{self, Verdict};
use crate::inside::process::{self, Quiet};
use crate::inside::{next, redaction};
use crate::table;
use crate::trace::sites::{self, Sites};
use refrain_bytes::stable;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use super::requests::Map;
use super::role::Place;
use super::{Task, clocked, files, line, replay, task};

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
    /// Addresses and their sites: those used of late, and all. The former are the return addresses of
    /// calls, unless these are those of bindings: then the program's own, complemented.
    places: [(usize, u64); PLACES],
    known: Map<u64>,
    /// Stacks by the innermost address.
    stacks: Map<Vec<Stack>>,
    /// The thread's own stack.
    memory: Range<usize>,
    /// Finds a way past the bindings of Fortran.
    sites: Box<Sites>,
    fork_mark: *const u8,
    /// In a replay: the function that it is in, and where.
    pub doing: Option<(usize, u64)>,
}

/// A stack that was seen before.
struct Stack {
    /// Return addresses, and how far above the stack pointer each stands.
    frames: Vec<(usize, usize)>,
    site: u64,
}

/// The most frames of a stack that tell it from others.
const DEEP: usize = 24;

/// Not known yet.
const UNKNOWN: u32 = u32::MAX;

/// How many threads have streams.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// In a replay: streams that are taken.
static TAKEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The thread that makes a call, if the call is the program's.
#[inline]
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

/// Where a call is made, if it is the program's.
#[inline(always)]
pub fn place_of(entry: &Entry) -> Option<Place> {
    let thread = this();
    let (address, site) = thread.places[cell(entry.caller)];
    if address == entry.caller && !thread.is_of_child() {
        return Some(Place { stream: thread.stream, site });
    }
    find_place(*entry)
}

#[inline(never)]
fn find_place(entry: Entry) -> Option<Place> {
    let thread = of_call(&entry)?;
    // Before MPI has begun nobody asks for the site.
    let site = if thread.stream == UNKNOWN { 0 } else { thread.site(&entry) };
    Some(Place { stream: thread.stream, site })
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
#[inline]
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
            stacks: Map::default(),
            memory: own_stack(),
            sites: Box::new(Sites::new()),
            fork_mark: process::fork_mark(),
            doing: None,
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
        let key = if direct { address } else { !address };
        let place = &self.places[cell(key)];
        if place.0 == key { place.1 } else { self.look_up(address, key) }
    }

    #[inline(never)]
    fn look_up(&mut self, address: usize, key: usize) -> u64 {
        let site = match self.known.get(&address) {
            Some(site) => *site,
            None => self.name(address),
        };
        if self.stream != UNKNOWN {
            self.places[cell(key)] = (key, site);
        }
        site
    }

    /// The site of a call by its whole stack: the same number in every run.
    ///
    /// A stack is walked once. Where its return addresses stand again, as far above the call as
    /// they stood then, it is the same.
    pub fn stack(&mut self, entry: &Entry) -> u64 {
        let known = self.stacks.get(&entry.caller).and_then(|stacks| {
            let is_there = |(address, above): &(usize, usize)| {
                let place = entry.stack + above;
                self.memory.contains(&entry.stack)
                    && self.memory.contains(&(place + 7))
                    // SAFETY: a word of this thread's stack, above the call in progress.
                    && unsafe { (place as *const usize).read_unaligned() } == *address
            };
            let found = stacks.iter().find(|stack| stack.frames.iter().all(is_there));
            found.map(|stack| stack.site)
        });
        known.unwrap_or_else(|| self.walk(entry))
    }

    #[cold]
    fn walk(&mut self, entry: &Entry) -> u64 {
        let _quiet = Quiet::keep();
        let mut frames: Vec<(usize, usize)> = Vec::new();
        sites::unwind_with(entry, |address, place| {
            frames.push((address, place.wrapping_sub(entry.stack)));
            frames.len() == DEEP
        });
        let innermost = self.site(entry);
        let name = |(address, _): &(usize, usize)| {
            let name = std::panic::catch_unwind(|| name(*address)).ok().flatten();
            let (file, offset) = name.unwrap_or((b"?", 0));
            let short = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            [short, &offset.to_le_bytes()].concat()
        };
        // In a callback there are frames of MPI and of ours, which need not be the same in a replay.
        let own: Vec<&(usize, usize)> =
            frames.iter().filter(|(address, _)| !is_between(*address)).collect();
        let names: Vec<Vec<u8>> = own.iter().copied().map(name).collect();
        let site = if own.len() < 2 { innermost } else { hash(&names.concat()) };
        if site != innermost {
            let named = |(address, _): &(usize, usize)| {
                let found = std::panic::catch_unwind(|| self::name(*address)).ok().flatten();
                found.map(|(file, offset)| located(file, offset))
            };
            note_site(site, &frames.first().and_then(named).unwrap_or_default());
        }
        self.stacks.entry(entry.caller).or_default().push(Stack { frames, site });
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
        note_site(site, &located(file, offset));
        self.known.insert(address, site);
        site
    }
}

/// A call site as it is recorded.
fn located(file: &[u8], offset: usize) -> String {
    format!("{}+{offset:x}", String::from_utf8_lossy(redaction::path(file)))
}

/// Whether code is MPI's, or stands between the program and it.
fn is_between(address: usize) -> bool {
    static FILES: OnceLock<[Option<&'static [u8]>; 2]> = OnceLock::new();
    let file = |address: usize| {
        let name = std::panic::catch_unwind(|| name(address)).ok().flatten();
        name.map(|(file, _)| file)
    };
    let files = FILES.get_or_init(|| {
        let mpi = next::mpi(table::MPI_Comm_rank).map(|function| function as usize);
        [file(is_between as *const () as usize), mpi.and_then(file)]
    });
    file(address).is_some_and(|file| files.contains(&Some(file)))
}

/// Where the thread's stack is; nothing if that is not known.
fn own_stack() -> Range<usize> {
    // SAFETY: plain calls that fill in what they are given.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return 0..0;
        }
        let (mut low, mut size) = (std::ptr::null_mut(), 0);
        let result = libc::pthread_attr_getstack(&attributes, &mut low, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        if result == 0 { low as usize..low as usize + size } else { 0..0 }
    }
}

/// A place in the program is seen for the first time.
fn note_site(site: u64, place: &str) {
    match task() {
        Task::Replay => {
            replay::note_site(site, place);
            clocked::replay::note_site(site, place);
        }
        _ => files::note(&format!("site {site:x} {place}")),
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
    let hash = stable::fnv1a_64(bytes);
    hash ^ hash >> 29
}
