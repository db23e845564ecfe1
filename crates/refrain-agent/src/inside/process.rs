//! What is common to the process: where logs go, which MPI this is, which rank.

use crate::inside::locked::{Lazy, Locked};
use crate::inside::{absent, clock, memory, modules, next, panics, permissions, redaction};
use crate::trace::{compress, device, filter, heap, sites, stream};
use crate::{order, table};
use refrain_format::part::{self, PartHeader, flags};
use refrain_mpi::abi::{Family, Layout, Source};
use refrain_mpi::names;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The folder for parts, copied when the library is loaded: a program may change its
/// environment before it calls MPI. Null without one; then the agent only forwards.
static FOLDER: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// The same where only receive orders are recorded, or replayed.
static ORDER_FOLDER: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this library's turn to be initialised has come. Those that the program needs come
/// first, and may call MPI by then.
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
    filter::prepare();
    sites::prepare();
    compress::prepare();
    // SAFETY: getenv gives null or a NUL-terminated string, which is copied.
    unsafe {
        let folder = libc::getenv(FOLDER_VARIABLE.as_ptr());
        if !folder.is_null() && *folder != 0 {
            let place = if order::is_on() { &ORDER_FOLDER } else { &FOLDER };
            place.store(libc::strdup(folder), Ordering::Relaxed);
            let raw = !libc::getenv(RAW_VARIABLE.as_ptr()).is_null();
            KEEPS_RECORDS.store(raw, Ordering::Relaxed);
        }
    }
}

/// The environment variable that says that records are to be kept when they are encoded.
const RAW_VARIABLE: &CStr = c"REFRAIN_RAW";

static KEEPS_RECORDS: AtomicBool = AtomicBool::new(false);

/// Whether records are to be kept when they are encoded.
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

/// Whether a call is none of the program's, but of the C++ bindings of Open MPI: these ask
/// whether MPI is initialised while they are initialised themselves.
pub fn is_from_bindings_at_load(caller: usize) -> bool {
    let is_binding = || modules::find(caller).is_some_and(modules::Module::is_cxx_binding);
    !LOADED.load(Ordering::Relaxed) && std::panic::catch_unwind(is_binding).unwrap_or(false)
}

/// Values of this MPI that wrappers look at, with symbols resolved to addresses.
#[derive(Clone, Copy, Debug)]
pub struct Abi {
    /// The family.
    pub family: Family,
    /// Bytes of a handle in memory (but for files, which are pointers everywhere).
    pub handle_bytes: usize,
    /// Bytes of an `MPI_Status`.
    pub status_bytes: usize,
    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: usize,
    /// `MPI_STATUSES_IGNORE`.
    pub statuses_ignore: usize,
    /// `MPI_IN_PLACE`.
    pub in_place: usize,
    /// Addresses that stand for something else than an array.
    pub special: [usize; 3],
    /// `MPI_ANY_SOURCE`.
    pub any_source: c_int,
    /// `MPI_ANY_TAG`.
    pub any_tag: c_int,
    /// `MPI_PROC_NULL`.
    pub proc_null: c_int,
    /// `MPI_ROOT`.
    pub root: c_int,
    /// `MPI_ERR_IN_STATUS`.
    pub err_in_status: c_int,
    /// `MPI_COMM_NULL`.
    pub comm_null: usize,
    /// `MPI_COMM_WORLD`.
    pub comm_world: usize,
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: usize,
    /// `MPI_REQUEST_NULL`.
    pub request_null: usize,
}

/// This MPI's values, found out at the first call.
pub fn abi() -> &'static Abi {
    static ABI: Lazy<Abi> = Lazy::new();
    ABI.get_or_make(detect)
}

/// `MPI_ERR_UNSUPPORTED_OPERATION` of this MPI.
pub fn unsupported_operation() -> c_int {
    Layout::of(abi().family).err_unsupported_operation
}

fn detect() -> Abi {
    // In this order: a later Open MPI has the symbols of its own ABI behind the standard one.
    let family = if standard_abi_version() >= 1 {
        Family::StandardAbi
    } else if next::data("ompi_mpi_comm_world").is_some() {
        Family::OpenMpi
    } else {
        Family::Mpich
    };
    let layout = Layout::of(family);
    Abi {
        family,
        handle_bytes: layout.handle_bytes,
        status_bytes: layout.status.bytes,
        status_ignore: address_of(layout.status_ignore),
        statuses_ignore: address_of(layout.statuses_ignore),
        in_place: address_of(layout.in_place),
        special: [
            address_of(layout.unweighted),
            address_of(layout.weights_empty),
            address_of(layout.errcodes_ignore),
        ],
        any_source: layout.any_source,
        any_tag: layout.any_tag,
        proc_null: layout.proc_null,
        root: layout.root,
        err_in_status: layout.err_in_status,
        comm_null: address_of(layout.comm_null),
        comm_world: address_of(layout.comm_world),
        datatype_null: address_of(layout.datatype_null),
        request_null: address_of(layout.request_null),
    }
}

/// A value of the layout, by way of the library's symbol where it has one.
fn address_of(source: Source) -> usize {
    // SAFETY: the symbols named in the layouts are pointer variables of the MPI library.
    unsafe { source.resolve(|symbol| next::data(symbol).map(|a| a as usize)) }.unwrap_or(0)
}

/// MPICH 5 and Intel MPI have the function too, but say -1 unless they speak the standard ABI.
fn standard_abi_version() -> c_int {
    let Some(f) = next::mpi(table::MPI_Abi_get_version) else {
        return -1;
    };
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: the function has this form in every MPI that exports it, and may be called at
    // any time.
    unsafe {
        let f: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = std::mem::transmute(f);
        f(&mut major, &mut minor);
    }
    major
}

/// A predefined handle of this MPI, by name.
pub fn predefined(name: &str) -> Option<usize> {
    let mut all = names::predefined_handles(abi().family);
    let (.., source) = all.find(|(_, n, _)| *n == name)?;
    Some(address_of(source)).filter(|handle| *handle != 0)
}

/// Lines for the log that name what only this process knows: predefined handles that are
/// addresses, and named addresses.
pub fn handle_names() -> String {
    let mut text = String::new();
    for (kind, name, source) in names::predefined_handles(abi().family) {
        if matches!(source, Source::Value(_)) {
            continue;
        }
        let address = address_of(source);
        if address != 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{kind} {address:x} {name}");
        }
    }
    let [unweighted, empty, errcodes] = abi().special;
    let _ = writeln!(text, "address {unweighted:x} MPI_UNWEIGHTED");
    let _ = writeln!(text, "address {empty:x} MPI_WEIGHTS_EMPTY");
    let _ = writeln!(text, "address {errcodes:x} MPI_ERRCODES_IGNORE");
    text
}

/// Facts that every part of the process bears, and the parts themselves.
struct Shared {
    header: Box<PartHeader>,
    /// First pages of all live parts. A page stays mapped for as long as it is listed.
    pages: Vec<PagePointer>,
    threads: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct PagePointer(*mut PartHeader);

// SAFETY: the pages are mapped files, written field by field under the lock of `SHARED`.
unsafe impl Send for PagePointer {}

static SHARED: Locked<Option<Shared>> = Locked::new(None);

/// Whoever holds [`SHARED`] has signals blocked, and copies a header or two.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a receive with a wildcard was ever posted to complete later.
pub static WILDCARD_POSTED: AtomicBool = AtomicBool::new(false);

/// Whether `MPI_Init` has returned, and `MPI_Finalize` has not.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Whether there is a `MPI_COMM_WORLD`.
pub fn is_between_init_and_finalize() -> bool {
    IS_INITIALIZED.load(Ordering::Acquire)
}

/// Says that there is one from now on, or none.
pub fn set_initialized(is: bool) {
    IS_INITIALIZED.store(is, Ordering::Release);
}

/// The agent has panicked. Where the lock is held just now, the next change of the header counts it.
fn note_panic(file: &str, line: u32) {
    update(|header| header.panics = panics::count());
    order::files::note_panic(file, line);
}

static MISSING: AtomicU32 = AtomicU32::new(0);

/// Counts a call of a function that this MPI does not have. May be called in a handler.
pub fn note_missing() {
    MISSING.fetch_add(1, Ordering::Relaxed);
    update(|header| header.missing = MISSING.load(Ordering::Relaxed));
}

/// A header for a new part of this process, with the thread's number in it.
/// Nothing where that cannot be had now.
pub fn new_header() -> Option<Box<PartHeader>> {
    let _quiet = Quiet::keep();
    let mut header = SHARED.with(PATIENCE, |shared| {
        let shared = shared.get_or_insert_with(|| {
            static IS_WATCHED: AtomicBool = AtomicBool::new(false);
            if !IS_WATCHED.swap(true, Ordering::Relaxed) {
                // SAFETY: the handler only resets our own state.
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
    header.family = abi().family.code();
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
    // SAFETY: the field is writable for its length; a cut name lacks its NUL, which is added.
    unsafe { libc::gethostname(header.host.as_mut_ptr().cast(), header.host.len()) };
    header.host[63] = 0;
    part::set_text(&mut header.program, redaction::path(program()));
    part::set_text(&mut header.library, memory::library_version().as_bytes());
    header
}

/// The program's file; empty where the system does not say.
pub fn program() -> &'static [u8] {
    static PROGRAM: Lazy<Vec<u8>> = Lazy::new();
    PROGRAM.get_or_make(|| {
        let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        path.into_os_string().into_encoded_bytes()
    })
}

/// The rank as launchers tell it, for programs that never call `MPI_Init` (sessions) or die
/// before.
pub fn rank_from_launcher() -> Option<(c_int, c_int)> {
    const VARIABLES: [(&CStr, &CStr); 4] = [
        (c"PMI_RANK", c"PMI_SIZE"),
        (c"OMPI_COMM_WORLD_RANK", c"OMPI_COMM_WORLD_SIZE"),
        (c"SLURM_PROCID", c"SLURM_NTASKS"),
        (c"PALS_RANKID", c"PALS_SIZE"),
    ];
    let number = |name: &CStr| -> Option<c_int> {
        // SAFETY: getenv gives null or a NUL-terminated string, read at once.
        let text = unsafe {
            let text = libc::getenv(name.as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text))?
        };
        text.to_str().ok()?.parse().ok()
    };
    VARIABLES.iter().find_map(|(rank, size)| Some((number(rank)?, number(size).unwrap_or(-1))))
}

/// Lists a part's first page, to be kept up to date.
pub fn add_page(page: *mut PartHeader) {
    with_shared(|shared| shared.pages.push(PagePointer(page)));
}

/// Takes a page off the list; afterwards it may be unmapped.
pub fn remove_page(page: *mut PartHeader) {
    with_shared(|shared| shared.pages.retain(|p| *p != PagePointer(page)));
}

/// Changes the header of every part of the process, and of parts to come.
pub fn update(change: impl Fn(&mut PartHeader)) {
    with_shared(|shared| {
        change(&mut shared.header);
        for page in &shared.pages {
            // SAFETY: listed pages are mapped, and only this lock's holder and the owning
            // thread (other fields) write to them.
            change(unsafe { &mut *page.0 });
        }
    });
}

/// Does something to what the process has in common, if there is anything.
fn with_shared(work: impl FnOnce(&mut Shared)) {
    let _quiet = Quiet::keep();
    SHARED.with(PATIENCE, |shared| shared.as_mut().map(work));
}

/// Whether some rank is known to run without the agent.
pub fn is_somebody_unseen() -> bool {
    let path = folder().and_then(|folder| {
        let name = [folder.as_bytes(), b"/", part::UNSEEN.as_bytes()].concat();
        CString::new(name).ok()
    });
    // SAFETY: a plain question about a path.
    path.is_none_or(|path| unsafe { libc::access(path.as_ptr(), libc::F_OK) } == 0)
}

/// Sets ticks and time side by side, as late as possible.
pub fn update_clock() {
    let (ticks, nanos) = (clock::ticks(), clock::wall_nanos());
    update(|header| {
        (header.last_ticks, header.last_nanos) = (ticks, nanos);
        header.panics = panics::count();
    });
}

/// A byte that is 1, and 0 in a child that was forked in whatever way: not all of them run
/// handlers. Always 1 where the kernel cannot do that.
pub fn fork_mark() -> *const u8 {
    static ONE: u8 = 1;
    static MARK: Lazy<usize> = Lazy::new();
    let mark = MARK.get_or_make(|| {
        // SAFETY: a page of our own, which the kernel clears in a child.
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

/// Whether this process was forked from the one that began to record, in whatever way.
pub fn is_forked_child() -> bool {
    // SAFETY: the mark is never unmapped.
    unsafe { fork_mark().read_volatile() == 0 }
}

/// This process was forked from the one that opened the log, without a word.
pub fn after_silent_fork() {
    in_forked_child();
    // SAFETY: the page of `fork_mark`, which is ours; its other value is not written to.
    unsafe {
        let mark = fork_mark().cast_mut();
        if *mark == 0 {
            mark.write(1);
        }
    }
}

/// A forked child is a process of its own: it must not write into its parent's logs.
extern "C" fn in_forked_child() {
    // Another thread of the parent may have held the lock, and that thread is not here. Pages stay
    // mapped and are forgotten: unmapping is not worth a system call.
    SHARED.renew_in_child(None);
    compress::forget_after_fork();
    stream::forget_after_fork();
}

/// Keeps signals and cancellation away from the thread, and `errno` as it was, while the agent
/// makes system calls or holds a lock.
///
/// No handler of the program then finds our state half changed or calls MPI in the middle of
/// it, no system call comes back early, and none becomes a point at which the thread is
/// cancelled inside an MPI call that has none. Signals that the thread raises by a fault stay
/// as they are.
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
    /// Makes it quiet; dropping puts everything back.
    pub fn keep() -> Quiet {
        let errno = Errno::keep();
        // SAFETY: plain calls that fill in what they are given.
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
        // SAFETY: what `keep` found is put back. With cancellation first, or a handler would
        // run without it.
        unsafe {
            pthread_setcancelstate(self.cancellation, std::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.signals, std::ptr::null_mut());
        }
    }
}

/// Keeps cancellation away from the thread, and `errno` as it was, while the agent makes system
/// calls that signals may interrupt. To block signals for as long as a write to disk takes would
/// send them to other threads.
pub struct Uncancelled {
    cancellation: c_int,
    _errno: Errno,
}

impl Uncancelled {
    /// Puts cancellation off; dropping puts everything back.
    pub fn keep() -> Uncancelled {
        let _errno = Errno::keep();
        let mut cancellation = 0;
        // SAFETY: a plain call that fills in what it is given.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancellation) };
        Uncancelled { cancellation, _errno }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: what `keep` found is put back.
        unsafe { pthread_setcancelstate(self.cancellation, std::ptr::null_mut()) };
    }
}

/// Keeps `errno` as the program left it over a slow path.
pub struct Errno(c_int);

impl Errno {
    /// Takes note of `errno`; dropping puts it back.
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
