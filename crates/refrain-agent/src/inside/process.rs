//! State of the process: where logs go, which rank.

use crate::inside::header_page::HeaderPage;
use crate::inside::locked::{Lazy, Locked};
use crate::inside::{absent, clock, forced, library, modules, panics, permissions, redaction};
use crate::order;
use crate::trace::{compress, device, filter, heap, sites, thread_log};
use refrain_format::part::{self, PartHeader, flags};
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The folder for parts, copied when the library is loaded, because a program may change its
/// environment before it calls MPI. Null if there is none; then the agent only forwards.
static FOLDER: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// The same if receive orders are recorded or replayed.
static ORDER_FOLDER: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this library is initialised. Libraries that the program needs are initialised first, and
/// may call MPI then.
static LOADED: AtomicBool = AtomicBool::new(false);

/// The environment variable that names the folder for parts.
const FOLDER_VARIABLE: &CStr = c"REFRAIN_PARTS";

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    panics::install(note_panic);
    heap::prepare();
    read_environment();
    LOADED.store(true, Ordering::Relaxed);
    absent::adapt_exports();
    device::prepare();
    order::prepare();
}

fn read_environment() {
    static IS_READ: AtomicBool = AtomicBool::new(false);
    if IS_READ.swap(true, Ordering::Relaxed) {
        return;
    }
    permissions::prepare();
    redaction::prepare();
    forced::prepare();
    filter::prepare();
    sites::prepare();
    compress::prepare();
    // SAFETY: getenv returns null or a NUL-terminated string, which is copied.
    unsafe {
        let folder = libc::getenv(FOLDER_VARIABLE.as_ptr());
        if !folder.is_null() && *folder != 0 {
            let copy = if order::is_on() { &ORDER_FOLDER } else { &FOLDER };
            copy.store(libc::strdup(folder), Ordering::Relaxed);
            let raw = !libc::getenv(RAW_VARIABLE.as_ptr()).is_null();
            KEEPS_RECORDS.store(raw, Ordering::Relaxed);
        }
    }
}

/// The environment variable that asks to keep records after they are encoded.
const RAW_VARIABLE: &CStr = c"REFRAIN_RAW";

static KEEPS_RECORDS: AtomicBool = AtomicBool::new(false);

/// Whether records are kept after they are encoded.
pub fn keeps_records() -> bool {
    KEEPS_RECORDS.load(Ordering::Relaxed)
}

/// The folder for parts.
pub fn folder() -> Option<CString> {
    copy_of(&FOLDER)
}

/// The folder for receive orders.
pub fn order_folder() -> Option<CString> {
    copy_of(&ORDER_FOLDER)
}

fn copy_of(folder: &AtomicPtr<c_char>) -> Option<CString> {
    if !LOADED.load(Ordering::Relaxed) {
        read_environment();
    }
    let folder = folder.load(Ordering::Relaxed);
    // SAFETY: null, or the copy made at load, which is never freed.
    (!folder.is_null()).then(|| unsafe { CStr::from_ptr(folder) }.to_owned())
}

/// Whether a call comes from Open MPI's C++ bindings while they are initialised: they ask whether
/// MPI is initialised, and the program did not make that call.
pub fn is_from_bindings_at_load(caller: usize) -> bool {
    let is_binding = || modules::find(caller).is_some_and(modules::Module::is_cxx_binding);
    !LOADED.load(Ordering::Relaxed) && std::panic::catch_unwind(is_binding).unwrap_or(false)
}

/// The header that every part of the process starts with, and the parts themselves.
struct Shared {
    header: Box<PartHeader>,
    /// First pages of all open parts. A listed page is mapped.
    pages: Vec<HeaderPage>,
    threads: u32,
}

static SHARED: Locked<Option<Shared>> = Locked::new(None);

/// A holder of [`SHARED`] has signals blocked, and copies a header or two.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a nonblocking or persistent wildcard receive was ever posted, or a request cancelled: then
/// statuses say what happened, even those that the program ignores.
pub static STATUS_NEEDED: AtomicBool = AtomicBool::new(false);

/// Whether `MPI_Init` has returned, and `MPI_Finalize` has not.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Whether `MPI_COMM_WORLD` exists.
pub fn is_between_init_and_finalize() -> bool {
    IS_INITIALIZED.load(Ordering::Acquire)
}

/// Records that `MPI_Init` or `MPI_Finalize` has returned.
pub fn set_initialized(is: bool) {
    IS_INITIALIZED.store(is, Ordering::Release);
}

/// Counts a panic of the agent. If the lock is held now, the next change of the header counts it.
fn note_panic(file: &str, line: u32) {
    update(|header| header.set_panics(panics::count()));
    order::files::note_panic(file, line);
}

static MISSING: AtomicU32 = AtomicU32::new(0);

/// Counts a call of a function that this MPI does not have. Signal handlers may call it.
pub fn note_missing() {
    MISSING.fetch_add(1, Ordering::Relaxed);
    update(|header| header.set_missing(MISSING.load(Ordering::Relaxed)));
}

/// A header for a new part of this process, with a new thread number. `None` if the lock is not
/// available.
pub fn new_header() -> Option<Box<PartHeader>> {
    let _quiet = Quiet::keep();
    let mut header = SHARED.with(PATIENCE, |shared| {
        let shared = shared.get_or_insert_with(|| {
            static IS_WATCHED: AtomicBool = AtomicBool::new(false);
            if !IS_WATCHED.swap(true, Ordering::Relaxed) {
                // SAFETY: the handler only resets the agent's state.
                unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
            }
            Shared { header: first_header(), pages: Vec::new(), threads: 0 }
        });
        let mut header = shared.header.clone();
        header.thread = shared.threads;
        shared.threads += 1;
        header
    })?;
    header.first_ticks = clock::ticks();
    header.first_nanos = clock::wall_nanos();
    Some(header)
}

fn first_header() -> Box<PartHeader> {
    let mut header = Box::new(PartHeader::empty());
    header.family = library::abi().family.code();
    // SAFETY: getpid cannot fail.
    header.pid = unsafe { libc::getpid() };
    header.process = clock::wall_nanos();
    if clock::is_system() {
        header.flags |= flags::NANOSECONDS;
    }
    header.flags |= filter::pause_flags();
    if let Some((rank, size)) = rank_from_launcher() {
        (header.rank, header.size) = (rank, size);
    }
    // SAFETY: the field is writable for its length. A truncated name lacks its NUL, which is added.
    unsafe { libc::gethostname(header.host.as_mut_ptr().cast(), header.host.len()) };
    header.host[63] = 0;
    part::set_text(&mut header.program, redaction::path(program()));
    part::set_text(&mut header.library, library::library().version().as_bytes());
    header
}

/// The path of the program's file; empty if it is unknown.
pub fn program() -> &'static [u8] {
    static PROGRAM: Lazy<Vec<u8>> = Lazy::new();
    PROGRAM.get_or_make(|| {
        let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        path.into_os_string().into_encoded_bytes()
    })
}

/// The rank according to the launcher's environment variables, for programs that never call
/// `MPI_Init` (sessions) or die before it.
pub fn rank_from_launcher() -> Option<(c_int, c_int)> {
    const VARIABLES: [(&CStr, &CStr); 4] = [
        (c"PMI_RANK", c"PMI_SIZE"),
        (c"OMPI_COMM_WORLD_RANK", c"OMPI_COMM_WORLD_SIZE"),
        (c"SLURM_PROCID", c"SLURM_NTASKS"),
        (c"PALS_RANKID", c"PALS_SIZE"),
    ];
    let number = |name: &CStr| -> Option<c_int> {
        // SAFETY: getenv returns null or a NUL-terminated string, read at once.
        let text = unsafe {
            let text = libc::getenv(name.as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text))?
        };
        text.to_str().ok()?.parse().ok()
    };
    VARIABLES.iter().find_map(|(rank, size)| Some((number(rank)?, number(size).unwrap_or(-1))))
}

/// Adds a part's first page to the list of pages that [`update`] changes.
pub fn add_page(page: HeaderPage) {
    with_shared(|shared| shared.pages.push(page));
}

/// Removes a page from the list; afterwards it may be unmapped.
pub fn remove_page(page: HeaderPage) {
    with_shared(|shared| shared.pages.retain(|p| *p != page));
}

/// Changes the header of every part of the process, and of later parts.
pub fn update(change: impl Fn(HeaderPage)) {
    with_shared(|shared| {
        // SAFETY: the header lives in its box, which this thread alone uses while it holds the lock.
        change(unsafe { HeaderPage::new(&raw mut *shared.header) });
        shared.pages.iter().for_each(|page| change(*page));
    });
}

/// Calls `work` with the shared state, if there is any.
fn with_shared(work: impl FnOnce(&mut Shared)) {
    let _quiet = Quiet::keep();
    SHARED.with(PATIENCE, |shared| shared.as_mut().map(work));
}

/// Whether some rank is known to run without the agent.
pub fn has_rank_without_agent() -> bool {
    let path = folder().and_then(|folder| {
        let name = [folder.as_bytes(), b"/", part::UNSEEN.as_bytes()].concat();
        CString::new(name).ok()
    });
    // SAFETY: a plain question about a path.
    path.is_none_or(|path| unsafe { libc::access(path.as_ptr(), libc::F_OK) } == 0)
}

/// Stores the current ticks and wall-clock time as the last pair.
pub fn update_clock() {
    let (ticks, nanos) = (clock::ticks(), clock::wall_nanos());
    update(|header| {
        header.set_last_time(ticks, nanos);
        header.set_panics(panics::count());
    });
}

/// A byte that is 1, and 0 in a forked child. It detects every kind of fork, including those that
/// do not run fork handlers. It is always 1 if the kernel does not support this.
pub fn fork_mark() -> *const u8 {
    static ONE: u8 = 1;
    static MARK: Lazy<usize> = Lazy::new();
    let mark = MARK.get_or_make(|| {
        // SAFETY: a new page, which the kernel clears in a child.
        unsafe {
            let (null, all) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(null, 4096, all, kind, -1, 0);
            if page == libc::MAP_FAILED || libc::madvise(page, 4096, libc::MADV_WIPEONFORK) != 0 {
                return &raw const ONE as usize;
            }
            page.cast::<u8>().write(1);
            page as usize
        }
    });
    *mark as *const u8
}

/// Whether this process was forked, in any way, from the one that began to record.
pub fn is_forked_child() -> bool {
    // SAFETY: the mark is never unmapped.
    unsafe { fork_mark().read_volatile() == 0 }
}

/// Handles a fork that ran no fork handlers.
pub fn after_silent_fork() {
    in_forked_child();
    // SAFETY: the page of `fork_mark`, which belongs to the agent. The static that stands in for it
    // is 1 and is not written to.
    unsafe {
        let mark = fork_mark().cast_mut();
        if *mark == 0 {
            mark.write(1);
        }
    }
}

/// A forked child is a process of its own: it must not write into its parent's logs.
extern "C" fn in_forked_child() {
    // Another thread of the parent may have held the lock; it does not exist here. Pages stay
    // mapped and are forgotten: unmapping them is not worth a system call.
    SHARED.renew_in_child(None);
    compress::forget_after_fork();
    thread_log::forget_after_fork();
}

/// Blocks signals and cancellation of the thread, and preserves `errno`, while the agent makes
/// system calls or holds a lock.
///
/// So no signal handler of the program finds the agent's state half changed or calls MPI in the
/// middle of a change, no system call is interrupted, and no system call becomes a cancellation
/// point inside an MPI call that has none. Signals that the thread raises by a fault stay
/// unblocked.
pub struct Quiet {
    signals: libc::sigset_t,
    cancellation: c_int,
    _errno: Errno,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

impl Quiet {
    /// Blocks signals and cancellation; dropping restores both.
    pub fn keep() -> Quiet {
        let errno = Errno::keep();
        // SAFETY: plain calls that fill in their arguments.
        unsafe {
            let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            let mut cancellation = 0;
            libc::sigfillset(&mut all);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
                libc::sigdelset(&mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancellation);
            Quiet { signals: old, cancellation, _errno: errno }
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: restores what `keep` found. Cancellation first, or a handler would run without
        // it.
        unsafe {
            pthread_setcancelstate(self.cancellation, std::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.signals, std::ptr::null_mut());
        }
    }
}

/// Blocks cancellation of the thread, and preserves `errno`, while the agent makes system calls
/// that signals may interrupt. Blocking signals for the duration of a disk write would deliver them
/// to other threads.
pub struct Uncancelled {
    cancellation: c_int,
    _errno: Errno,
}

impl Uncancelled {
    /// Blocks cancellation; dropping restores it.
    pub fn keep() -> Uncancelled {
        let _errno = Errno::keep();
        let mut cancellation = 0;
        // SAFETY: a plain call that fills in its argument.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancellation) };
        Uncancelled { cancellation, _errno }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: restores what `keep` found.
        unsafe { pthread_setcancelstate(self.cancellation, std::ptr::null_mut()) };
    }
}

/// Preserves the program's `errno` over a slow path.
pub struct Errno(c_int);

impl Errno {
    /// Saves `errno`; dropping restores it.
    pub fn keep() -> Errno {
        // SAFETY: errno is this thread's own.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as in `keep`.
        unsafe { *libc::__errno_location() = self.0 }
    }
}
