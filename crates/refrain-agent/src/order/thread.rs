//! Per-thread state: whether a call is the program's, its call site, and the thread's stream in the record.

use crate::inside::bindings;
use crate::inside::entry::{Entry, thread_block};
use crate::inside::locked::{Lazy, Locked};
use crate::inside::modules::{self, Verdict};
use crate::inside::next;
use crate::inside::process::{self, Quiet};
use crate::inside::reentrant::Reentrant;
use crate::table;
use crate::trace::sites::{self, Sites};
use refrain_bytes::stable;
use std::cell::Cell;
use std::ops::Range;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::requests::Map;
use super::role::Origin;
use super::{Task, clocked, files, replay, task, thread_level};

/// How many modules of the program are cached.
const MODULES: usize = 4;
/// How many call sites are in the fast cache.
const RECENT_SITES: usize = 64;

/// The state of a thread.
///
/// There are only shared references to it: signal handlers and callbacks may call MPI in the middle of a call,
/// on the same thread. Every call needs the fields in cells; the caches are borrowed briefly through
/// [`Reentrant`].
pub struct Thread {
    /// The number of its event stream in the record.
    stream: Cell<u32>,
    /// The module of the program that the last call returns to: start address and length.
    module: [Cell<usize>; 2],
    /// Recently used addresses and their call sites. An address is the return address of a call; for calls
    /// through Fortran's bindings, it is the complement of the return address in the program.
    recent_sites: [(Cell<usize>, Cell<u64>); RECENT_SITES],
    caches: Reentrant<Caches>,
    /// The addresses of the thread's stack.
    memory: Range<usize>,
    fork_mark: *const u8,
    /// In a replay: the function of the call in progress, and its site.
    current_call: Cell<Option<(usize, u64)>>,
    /// In a replay: how many waits of this thread the board counts, and the stack address of the first.
    waits: Cell<(u32, usize)>,
}

// A panic leaves at worst an incomplete cache.
impl RefUnwindSafe for Thread {}

/// Cached facts about the callers of a thread.
struct Caches {
    /// Address ranges of the program's modules.
    program: [Range<usize>; MODULES],
    oldest: usize,
    /// Sites by address.
    known: Map<u64>,
    /// Stacks by the innermost address.
    stacks: Map<Vec<Stack>>,
    /// Finds the return address in the program of a call through Fortran's bindings.
    sites: Box<Sites>,
}

/// A call stack that was walked before.
struct Stack {
    /// Return addresses, and how far above the stack pointer each is stored.
    frames: Vec<(usize, usize)>,
    site: u64,
}

/// The most frames that identify a stack.
const DEEP: usize = 24;

/// The stream of a thread that has none yet.
const UNKNOWN: u32 = u32::MAX;

/// The number of streams that are assigned.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// In a replay: recorded streams that are assigned to a thread.
static TAKEN: Locked<Vec<u32>> = Locked::new(Vec::new());

/// The thread that makes a call, if the call is the program's.
#[inline]
pub fn of_call(entry: &Entry) -> Option<&'static Thread> {
    let thread = this();
    if thread.is_in_forked_child() {
        return None;
    }
    if thread.is_in_last_module(entry.caller) || thread.judge(entry) {
        if thread.stream() == UNKNOWN {
            thread.assign_stream();
        }
        Some(thread)
    } else {
        None
    }
}

/// The origin of a call, if the call is the program's.
#[inline(always)]
pub fn origin_of(entry: &Entry) -> Option<Origin> {
    let thread = this();
    let site = thread.recent_site(entry.caller);
    if let Some(site) = site
        && !thread.is_in_forked_child()
    {
        return Some(Origin { stream: thread.stream(), site });
    }
    find_origin(*entry)
}

#[inline(never)]
fn find_origin(entry: Entry) -> Option<Origin> {
    let thread = of_call(&entry)?;
    // Before MPI is initialized the site is not used.
    let site = if thread.stream() == UNKNOWN { 0 } else { thread.site(&entry) };
    Some(Origin { stream: thread.stream(), site })
}

/// The kernel's numbers of the threads that have called MPI.
static CALLING: Locked<Vec<libc::pid_t>> = Locked::new(Vec::new());

/// How many threads that have called MPI are still running; one unless threads call MPI concurrently.
pub fn count() -> u32 {
    if !thread_level::is_multiple() {
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
    // SAFETY: the block belongs to this thread; what it points to is never freed, and there are only shared
    // references to it.
    unsafe {
        let block = thread_block();
        if (*block).order.is_null() {
            (*block).order = Thread::new();
        }
        &*(*block).order
    }
}

impl Thread {
    /// Whether this is a forked child process, whose calls do not belong to the rank.
    #[inline]
    pub fn is_in_forked_child(&self) -> bool {
        // SAFETY: the mark is never unmapped.
        unsafe { self.fork_mark.read_volatile() == 0 }
    }

    /// The number of its event stream in the record.
    #[inline]
    pub fn stream(&self) -> u32 {
        self.stream.get()
    }

    /// In a replay: the function of the call in progress, and its site.
    pub fn current_call(&self) -> Option<(usize, u64)> {
        self.current_call.get()
    }

    /// Sets the call in progress: its function and call site.
    #[inline]
    pub fn set_current_call(&self, current_call: Option<(usize, u64)>) {
        self.current_call.set(current_call);
    }

    /// A wait of this thread begins.
    pub fn enter_wait(&self) {
        let marker = 0u8;
        let (count, first) = self.waits.get();
        let here = &raw const marker as usize;
        self.waits.set((count + 1, if count == 0 { here } else { first }));
    }

    /// A wait of this thread ends. Returns how many waits the board has to remove: none, if the wait was taken
    /// for abandoned.
    pub fn leave_wait(&self) -> u32 {
        let (count, first) = self.waits.get();
        self.waits.set((count.saturating_sub(1), first));
        count.min(1)
    }

    /// A call with that stack pointer begins. Returns how many waits were left by `longjmp`: the new call's
    /// stack pointer is above theirs. A call from a callback inside a wait has a lower stack pointer.
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
            recent_sites: [const { (Cell::new(0), Cell::new(0)) }; RECENT_SITES],
            caches: Reentrant::new(caches),
            memory: thread_stack(),
            fork_mark: process::fork_mark(),
            current_call: Cell::new(None),
            waits: Cell::new((0, 0)),
        }))
    }

    /// Whether an address is in the module that the last call came from.
    #[inline(always)]
    fn is_in_last_module(&self, address: usize) -> bool {
        let [low, length] = &self.module;
        address.wrapping_sub(low.get()) < length.get()
    }

    /// The call site of an address, if the fast cache has it.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "`cell` gives less than the length")]
    fn recent_site(&self, key: usize) -> Option<u64> {
        let (address, site) = &self.recent_sites[cell(key)];
        (address.get() == key).then(|| site.get())
    }

    /// Assigns a stream to this thread once MPI is initialized: the next number when recording, and in a replay
    /// the stream of the recorded thread with the same creation path.
    #[cold]
    pub fn assign_stream(&self) {
        if files::rank() < 0 || self.stream() != UNKNOWN {
            return;
        }
        let _quiet = Quiet::keep();
        // SAFETY: the block belongs to this thread.
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
        let known =
            self.caches.with(|caches| caches.program.iter().find(is_there).cloned()).flatten();
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
                self.caches.with(|caches| {
                    if let Some(oldest) = caches.program.get_mut(caches.oldest) {
                        *oldest = range;
                    }
                    caches.oldest = (caches.oldest + 1) % MODULES;
                });
                true
            }
            Verdict::ByFortran => true,
            Verdict::Foreign => false,
        }
    }

    /// Sets the module that the last call came from. A signal handler that interrupts this finds no module.
    fn set_module(&self, range: &Range<usize>) {
        let [low, length] = &self.module;
        length.set(0);
        compiler_fence(Ordering::SeqCst);
        low.set(range.start);
        compiler_fence(Ordering::SeqCst);
        length.set(range.len());
    }

    /// The call site of a call: the same number in every run.
    #[inline]
    pub fn site(&self, entry: &Entry) -> u64 {
        let direct = self.is_in_last_module(entry.caller);
        let address = if direct { entry.caller } else { self.own_return(entry) };
        let key = if direct { address } else { !address };
        self.recent_site(key).unwrap_or_else(|| self.look_up(address, key))
    }

    /// The return address of a call in the program, past Fortran's bindings.
    fn own_return(&self, entry: &Entry) -> usize {
        let found = self.caches.with(|caches| caches.sites.program_return(entry));
        found.unwrap_or_else(|| Sites::new().program_return(entry))
    }

    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "`cell` gives less than the length")]
    fn look_up(&self, address: usize, key: usize) -> u64 {
        let known = self.caches.with(|caches| caches.known.get(&address).copied()).flatten();
        let site = known.unwrap_or_else(|| self.name(address));
        if self.stream() != UNKNOWN {
            let (address, of_address) = &self.recent_sites[cell(key)];
            // A signal handler that interrupts this must not find the address with another one's site.
            address.set(0);
            compiler_fence(Ordering::SeqCst);
            of_address.set(site);
            compiler_fence(Ordering::SeqCst);
            address.set(key);
        }
        site
    }

    /// The call site of a call by its whole stack: the same number in every run.
    ///
    /// Each stack is walked once. A later call has the same stack if the same return addresses are stored at
    /// the same distances above its stack pointer.
    pub fn stack(&self, entry: &Entry) -> u64 {
        let known = self.caches.with(|caches| {
            let is_there = |(address, above): &(usize, usize)| {
                let stored_at = entry.stack + above;
                self.memory.contains(&entry.stack)
                    && self.memory.contains(&(stored_at + 7))
                    // SAFETY: a word of this thread's stack, above the call in progress.
                    && unsafe { (stored_at as *const usize).read_unaligned() } == *address
            };
            let mut stacks = caches.stacks.get(&entry.caller)?.iter();
            stacks.find(|stack| stack.frames.iter().all(is_there)).map(|stack| stack.site)
        });
        known.flatten().unwrap_or_else(|| self.walk(entry))
    }

    #[cold]
    fn walk(&self, entry: &Entry) -> u64 {
        let _quiet = Quiet::keep();
        let mut frames: Vec<(usize, usize)> = Vec::new();
        sites::unwind_with(entry, |address, stored_at| {
            frames.push((address, stored_at.wrapping_sub(entry.stack)));
            frames.len() == DEEP
        });
        let innermost = self.site(entry);
        let name = |(address, _): &(usize, usize)| {
            let name = std::panic::catch_unwind(|| name(*address)).ok().flatten();
            let (file, offset) = name.unwrap_or((b"?", 0));
            let short = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            [short, &offset.to_le_bytes()].concat()
        };
        // The stack of a callback has frames of MPI and of the agent, which may differ in a replay.
        let of_program: Vec<&(usize, usize)> =
            frames.iter().filter(|(address, _)| !is_agent_or_mpi(*address)).collect();
        let names: Vec<Vec<u8>> = of_program.iter().copied().map(name).collect();
        let site = if of_program.len() < 2 { innermost } else { hash(&names.concat()) };
        if site != innermost {
            let innermost = frames.first().map(|(address, _)| located(*address));
            note_site(site, &innermost.unwrap_or_default());
        }
        let stack = Stack { frames, site };
        self.caches.with(|caches| caches.stacks.entry(entry.caller).or_default().push(stack));
        site
    }

    /// The call site of a new address.
    #[cold]
    fn name(&self, address: usize) -> u64 {
        let _quiet = Quiet::keep();
        let name = std::panic::catch_unwind(|| name(address)).ok().flatten();
        let (file, offset) = name.unwrap_or((b"?", 0));
        // The folder may differ from run to run.
        let short = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let site = hash(&[short, &offset.to_le_bytes()].concat());
        note_site(site, &located(address));
        self.caches.with(|caches| caches.known.insert(address, site));
        site
    }
}

/// The text of a call site in the record. Code made at run time has no address that another run would have.
fn located(address: usize) -> String {
    let located = std::panic::catch_unwind(|| sites::located(address)).ok().flatten();
    located.unwrap_or_else(|| "?+0".to_owned())
}

/// Whether an address is in the agent or in the MPI library.
fn is_agent_or_mpi(address: usize) -> bool {
    static FILES: Lazy<[Option<&'static [u8]>; 2]> = Lazy::new();
    let file = |address: usize| {
        let name = std::panic::catch_unwind(|| name(address)).ok().flatten();
        name.map(|(file, _)| file)
    };
    let files = FILES.get_or_make(|| {
        let mpi = next::mpi(table::MPI_Comm_rank).map(|function| function as usize);
        [file(is_agent_or_mpi as *const () as usize), mpi.and_then(file)]
    });
    file(address).is_some_and(|file| files.contains(&Some(file)))
}

/// The addresses of this thread's stack; empty if they are not known.
fn thread_stack() -> Range<usize> {
    // SAFETY: these functions fill in the structures they are given.
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

/// Notes the location of a call site that is used for the first time.
fn note_site(site: u64, location: &str) {
    match task() {
        Task::Replay => {
            replay::note_site(site, location);
            clocked::replay::note_site(site, location);
        }
        _ => files::note(&format!("site {site:x} {location}")),
    }
}

/// The first recorded stream with this creation path that no thread has taken. Threads that were not recorded
/// get numbers after all recorded ones.
fn recorded(path: u64) -> Option<u32> {
    let facts = String::from_utf8(files::read("facts")?).ok()?;
    let streams = facts.lines().filter_map(|line| {
        let (stream, path) = line.strip_prefix("thread ")?.split_once(' ')?;
        Some((stream.parse::<u32>().ok()?, u64::from_str_radix(path, 16).ok()?))
    });
    TAKEN.with(files::PATIENCE, |taken| {
        let (mut found, mut recorded) = (None, 0);
        for (stream, recorded_path) in streams {
            recorded = recorded.max(stream + 1);
            if found.is_none() && recorded_path == path && !taken.contains(&stream) {
                found = Some(stream);
            }
        }
        THREADS.fetch_max(recorded, Ordering::Relaxed);
        taken.extend(found);
        found
    })?
}

fn cell(address: usize) -> usize {
    (address ^ address >> 6) % RECENT_SITES
}

/// The file of the module, and the offset in it. Code that was generated at run time has neither.
fn name(address: usize) -> Option<(&'static [u8], usize)> {
    let module = modules::find(address)?;
    let file = if module.path.is_empty() { process::program() } else { &module.path };
    Some((file, address - module.base))
}

/// FNV-1a, with the high bits mixed into the low ones.
fn hash(bytes: &[u8]) -> u64 {
    let hash = stable::fnv1a_64(bytes);
    hash ^ hash >> 29
}
