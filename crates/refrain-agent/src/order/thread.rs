//! What is known of a thread: whose its calls are, where they are made, which stream it is.

use crate::inside::bindings;
use crate::inside::entry::{Entry, thread_block};
use crate::inside::locked::{Lazy, Locked};
use crate::inside::modules::{self, Verdict};
use crate::inside::process::{self, Quiet};
use crate::inside::reentrant::Reentrant;
use crate::inside::{next, redaction};
use crate::table;
use crate::trace::sites::{self, Sites};
use refrain_bytes::stable;
use std::cell::Cell;
use std::ops::Range;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::requests::Map;
use super::role::Origin;
use super::{Task, clocked, files, line, replay, task};

/// How many modules of the program are known at a time.
const MODULES: usize = 4;
/// How many places in the program are known at a time.
const PLACES: usize = 64;

/// What is known of a thread.
///
/// There are only shared references to it: signal handlers and callbacks call MPI in the middle of a
/// call, on the same thread. What a call needs every time is in cells; the rest is lent for a
/// moment by [`Reentrant`].
pub struct Thread {
    /// Its stream in the record.
    stream: Cell<u32>,
    /// The module of the program that the last call returns to: where it begins, and its length.
    module: [Cell<usize>; 2],
    /// Addresses and their sites, those used of late. The former are the return addresses of calls;
    /// for calls from Fortran's bindings, the complement of the program's own return address.
    places: [(Cell<usize>, Cell<u64>); PLACES],
    caches: Reentrant<Caches>,
    /// The thread's own stack.
    memory: Range<usize>,
    fork_mark: *const u8,
    /// In a replay: the function of the call in progress, and its site.
    doing: Cell<Option<(usize, u64)>>,
    /// In a replay: how many waits of this thread are on the board, and the stack address of the first.
    waits: Cell<(u32, usize)>,
}

// What a panic leaves behind is a cache that lacks something.
impl RefUnwindSafe for Thread {}

/// What was found out about the callers of a thread.
struct Caches {
    /// Return addresses that are the program's.
    program: [Range<usize>; MODULES],
    oldest: usize,
    /// Sites by address.
    known: Map<u64>,
    /// Stacks by the innermost address.
    stacks: Map<Vec<Stack>>,
    /// Finds the program's return address behind the bindings of Fortran.
    sites: Box<Sites>,
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
static TAKEN: Locked<Vec<u32>> = Locked::new(Vec::new());

/// The thread that makes a call, if the call is the program's.
#[inline]
pub fn of_call(entry: &Entry) -> Option<&'static Thread> {
    let thread = this();
    if thread.is_of_child() {
        return None;
    }
    if thread.is_in_last_module(entry.caller) || thread.judge(entry) {
        if thread.stream() == UNKNOWN {
            thread.announce();
        }
        Some(thread)
    } else {
        None
    }
}

/// Where a call is made, if it is the program's.
#[inline(always)]
pub fn place_of(entry: &Entry) -> Option<Origin> {
    let thread = this();
    let site = thread.recent_site(entry.caller);
    if let Some(site) = site
        && !thread.is_of_child()
    {
        return Some(Origin { stream: thread.stream(), site });
    }
    find_place(*entry)
}

#[inline(never)]
fn find_place(entry: Entry) -> Option<Origin> {
    let thread = of_call(&entry)?;
    // Before MPI has begun nobody asks for the site.
    let site = if thread.stream() == UNKNOWN { 0 } else { thread.site(&entry) };
    Some(Origin { stream: thread.stream(), site })
}

/// The system's numbers of threads that call MPI, where they share it.
static CALLING: Locked<Vec<libc::pid_t>> = Locked::new(Vec::new());

/// How many threads call MPI, and have not ended; one if threads do not share it.
pub fn count() -> u32 {
    if !line::is_shared() {
        return 1;
    }
    let _quiet = Quiet::keep();
    let count = CALLING.with(files::PATIENCE, |calling| {
        // SAFETY: plain system calls; no signal is sent.
        calling.retain(|thread| unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, 0) == 0
        });
        calling.len() as u32
    });
    count.unwrap_or(1)
}

/// This thread.
#[inline]
pub fn this() -> &'static Thread {
    // SAFETY: the block is this thread's own; what it points to is never freed, and there are only
    // shared references to it.
    unsafe {
        let block = thread_block();
        if (*block).order.is_null() {
            (*block).order = Thread::new();
        }
        &*(*block).order
    }
}

impl Thread {
    /// Whether it is a copy, in a process that was forked: what it does is not the rank's.
    #[inline]
    pub fn is_of_child(&self) -> bool {
        // SAFETY: the mark is never unmapped.
        unsafe { self.fork_mark.read_volatile() == 0 }
    }

    /// Its stream in the record.
    #[inline]
    pub fn stream(&self) -> u32 {
        self.stream.get()
    }

    /// In a replay: the function of the call in progress, and its site.
    pub fn doing(&self) -> Option<(usize, u64)> {
        self.doing.get()
    }

    /// A call of that function at that site is in progress, or none.
    #[inline]
    pub fn set_doing(&self, doing: Option<(usize, u64)>) {
        self.doing.set(doing);
    }

    /// A wait of this thread begins.
    pub fn enter_wait(&self) {
        let marker = 0u8;
        let (count, first) = self.waits.get();
        let here = &raw const marker as usize;
        self.waits.set((count + 1, if count == 0 { here } else { first }));
    }

    /// A wait of this thread ends; gives how many do: none, if it was taken to be abandoned.
    pub fn leave_wait(&self) -> u32 {
        let (count, first) = self.waits.get();
        self.waits.set((count.saturating_sub(1), first));
        count.min(1)
    }

    /// A call with that stack pointer begins; gives how many waits were left by `longjmp`. A call from
    /// a callback enters below the wait that it is inside of.
    #[inline]
    pub fn abandoned_waits(&self, stack: usize) -> u32 {
        match self.waits.get() {
            (count, first) if count > 0 && stack > first => {
                self.waits.set((0, 0));
                count
            }
            _ => 0,
        }
    }

    #[cold]
    fn new() -> *const Thread {
        let _quiet = Quiet::keep();
        let caches = Caches {
            program: [const { 0..0 }; MODULES],
            oldest: 0,
            known: Map::default(),
            stacks: Map::default(),
            sites: Box::new(Sites::new()),
        };
        Box::into_raw(Box::new(Thread {
            stream: Cell::new(UNKNOWN),
            module: [const { Cell::new(0) }; 2],
            places: [const { (Cell::new(0), Cell::new(0)) }; PLACES],
            caches: Reentrant::new(caches),
            memory: own_stack(),
            fork_mark: process::fork_mark(),
            doing: Cell::new(None),
            waits: Cell::new((0, 0)),
        }))
    }

    /// Whether an address is in the module of the program that the last call came from.
    #[inline(always)]
    fn is_in_last_module(&self, address: usize) -> bool {
        let [low, length] = &self.module;
        address.wrapping_sub(low.get()) < length.get()
    }

    /// The site of an address that was used of late.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "`cell` gives less than the length")]
    fn recent_site(&self, key: usize) -> Option<u64> {
        let (address, site) = &self.places[cell(key)];
        (address.get() == key).then(|| site.get())
    }

    /// Finds the stream of this thread, as soon as MPI has begun: when recording the next one, in
    /// a replay that of the thread whose maker was the same.
    #[cold]
    pub fn announce(&self) {
        if files::rank() < 0 || self.stream() != UNKNOWN {
            return;
        }
        let _quiet = Quiet::keep();
        // SAFETY: the block is this thread's own.
        let path = unsafe { (*thread_block()).path };
        let recorded = if task() == Task::Replay { recorded(path) } else { None };
        let stream = recorded.unwrap_or_else(|| THREADS.fetch_add(1, Ordering::Relaxed));
        self.stream.set(stream);
        // SAFETY: a plain system call.
        let number = unsafe { libc::gettid() };
        CALLING.with(files::PATIENCE, |calling| calling.push(number));
        if task() == Task::Record {
            files::note(&format!("thread {stream} {path:x}"));
        }
    }

    #[inline(never)]
    fn judge(&self, entry: &Entry) -> bool {
        let is_there = |range: &&Range<usize>| range.contains(&entry.caller);
        let known = self.caches.with(|own| own.program.iter().find(is_there).cloned()).flatten();
        if let Some(known) = known {
            self.set_module(&known);
            return true;
        }
        let verdict = bindings::known(entry.caller).unwrap_or_else(|| {
            let _quiet = Quiet::keep();
            std::panic::catch_unwind(|| modules::judge(entry)).unwrap_or(Verdict::Foreign)
        });
        match verdict {
            Verdict::Program(range) => {
                self.set_module(&range);
                let _quiet = Quiet::keep();
                self.caches.with(|own| {
                    if let Some(oldest) = own.program.get_mut(own.oldest) {
                        *oldest = range;
                    }
                    own.oldest = (own.oldest + 1) % MODULES;
                });
                true
            }
            Verdict::ByFortran => true,
            Verdict::Foreign => false,
        }
    }

    /// Calls come from that module. A handler that interrupts this in between finds no module.
    fn set_module(&self, range: &Range<usize>) {
        let [low, length] = &self.module;
        length.set(0);
        compiler_fence(Ordering::SeqCst);
        low.set(range.start);
        compiler_fence(Ordering::SeqCst);
        length.set(range.len());
    }

    /// The site of a call: the same number in every run.
    #[inline]
    pub fn site(&self, entry: &Entry) -> u64 {
        let direct = self.is_in_last_module(entry.caller);
        let address = if direct { entry.caller } else { self.own_return(entry) };
        let key = if direct { address } else { !address };
        self.recent_site(key).unwrap_or_else(|| self.look_up(address, key))
    }

    /// Where a call returns to in the program: past the bindings of Fortran.
    fn own_return(&self, entry: &Entry) -> usize {
        let found = self.caches.with(|own| own.sites.own_return(entry));
        found.unwrap_or_else(|| Sites::new().own_return(entry))
    }

    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "`cell` gives less than the length")]
    fn look_up(&self, address: usize, key: usize) -> u64 {
        let known = self.caches.with(|own| own.known.get(&address).copied()).flatten();
        let site = known.unwrap_or_else(|| self.name(address));
        if self.stream() != UNKNOWN {
            let (address, of_address) = &self.places[cell(key)];
            // A handler that interrupts this in between finds no address, whose site would be wrong.
            address.set(0);
            compiler_fence(Ordering::SeqCst);
            of_address.set(site);
            compiler_fence(Ordering::SeqCst);
            address.set(key);
        }
        site
    }

    /// The site of a call by its whole stack: the same number in every run.
    ///
    /// A stack is walked once. Where its return addresses stand again, as far above the call as
    /// they stood then, it is the same.
    pub fn stack(&self, entry: &Entry) -> u64 {
        let known = self.caches.with(|own| {
            let is_there = |(address, above): &(usize, usize)| {
                let place = entry.stack + above;
                self.memory.contains(&entry.stack)
                    && self.memory.contains(&(place + 7))
                    // SAFETY: a word of this thread's stack, above the call in progress.
                    && unsafe { (place as *const usize).read_unaligned() } == *address
            };
            let mut stacks = own.stacks.get(&entry.caller)?.iter();
            stacks.find(|stack| stack.frames.iter().all(is_there)).map(|stack| stack.site)
        });
        known.flatten().unwrap_or_else(|| self.walk(entry))
    }

    #[cold]
    fn walk(&self, entry: &Entry) -> u64 {
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
        let stack = Stack { frames, site };
        self.caches.with(|own| own.stacks.entry(entry.caller).or_default().push(stack));
        site
    }

    /// The site of an address that was not seen before.
    #[cold]
    fn name(&self, address: usize) -> u64 {
        let _quiet = Quiet::keep();
        let name = std::panic::catch_unwind(|| name(address)).ok().flatten();
        let (file, offset) = name.unwrap_or((b"?", 0));
        // Folders may be others in another run.
        let short = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let site = hash(&[short, &offset.to_le_bytes()].concat());
        note_site(site, &located(file, offset));
        self.caches.with(|own| own.known.insert(address, site));
        site
    }
}

/// A call site as it is recorded.
fn located(file: &[u8], offset: usize) -> String {
    format!("{}+{offset:x}", String::from_utf8_lossy(redaction::path(file)))
}

/// Whether code is MPI's, or stands between the program and it.
fn is_between(address: usize) -> bool {
    static FILES: Lazy<[Option<&'static [u8]>; 2]> = Lazy::new();
    let file = |address: usize| {
        let name = std::panic::catch_unwind(|| name(address)).ok().flatten();
        name.map(|(file, _)| file)
    };
    let files = FILES.get_or_make(|| {
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
    TAKEN.with(files::PATIENCE, |taken| {
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
    })?
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
