//! Files of a record or replay, in the folder of the run. For each rank:
//!
//! * `rank-N.order`: frames, as they were sealed, or to be replayed
//! * `rank-N.log`: while recording, the window of events that are not sealed ([`refrain_order::causal::log`])
//! * `rank-N.facts`: lines of text: `size 4`, `site 1f3a /bin/app+1a2b`, `finalized`, `cut` and why the record
//!   is truncated, `panicked` and the line where the agent did
//! * `rank-N.of-…`, empty: exists while the folder belongs to this run
//!
//! No descriptor stays open: the program may close descriptors that it does not know. Some launchers end
//! before their ranks do. So the folder may be removed, and made again by a recording of the same name, while
//! a rank of the previous run is still ending; such a rank must not write to it.

use crate::inside::file_size::file_size_limit;
use crate::inside::library::library;
use crate::inside::locked::Locked;
use crate::inside::process::{self, Quiet, Uncancelled};
use crate::inside::{permissions, redaction};
use std::ffi::{CStr, CString, OsStr, c_int};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

static RANK: AtomicI32 = AtomicI32::new(-1);

/// Sets the rank.
pub fn set_rank(rank: c_int) {
    RANK.store(rank, Ordering::Relaxed);
    let path =
        of_rank("facts").and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    path.map(|path| FACTS.set(path));
}

/// The rank; -1 before it is known.
pub fn rank() -> c_int {
    RANK.load(Ordering::Relaxed)
}

/// A file in the folder.
pub fn path(name: &str) -> Option<PathBuf> {
    let folder: CString = process::order_folder()?;
    Some(Path::new(OsStr::from_bytes(folder.as_bytes())).join(name))
}

/// A file of this rank.
pub fn of_rank(what: &str) -> Option<PathBuf> {
    path(&format!("rank-{}.{what}", rank()))
}

/// The path of the file that exists while the folder belongs to this run.
static OWNER: OnceLock<CString> = OnceLock::new();

/// Makes the file that marks the folder as this run's.
fn claim_folder() {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    let name = format!("of-{:x}-{now:x}", std::process::id());
    let path = of_rank(&name).and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    if append(&name, &[]) {
        path.map(|path| OWNER.set(path));
    }
}

/// Whether the folder still belongs to this run, as far as known. May be called in a signal handler.
fn owns_folder() -> bool {
    // SAFETY: a NUL-terminated path.
    OWNER.get().is_none_or(|path| unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 })
}

/// Appends to a file of this rank.
pub fn append(what: &str, bytes: &[u8]) -> bool {
    if !owns_folder() {
        return false;
    }
    let _uncancelled = Uncancelled::keep();
    let write = |path: PathBuf| {
        let mode = permissions::at_creation();
        let mut file = OpenOptions::new().create(true).append(true).mode(mode).open(path)?;
        permissions::set(file.as_raw_fd());
        match may_grow(file.as_raw_fd(), bytes.len()) {
            true => file.write_all(bytes),
            false => Err(std::io::Error::from_raw_os_error(libc::EFBIG)),
        }
    };
    of_rank(what).is_some_and(|path| write(path).is_ok())
}

/// Whether this many bytes can be appended to a file without SIGXFSZ, which would kill the program. May be
/// called in a signal handler.
fn may_grow(file: c_int, bytes: usize) -> bool {
    // SAFETY: fstat fills in the structure, or fails and leaves it zero.
    let size = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(file, &mut stat);
        stat.st_size as u64
    };
    let may = size.saturating_add(bytes as u64) <= file_size_limit();
    if !may {
        IS_TOO_LARGE.store(true, Ordering::Relaxed);
    }
    may
}

/// The contents of a file of this rank.
pub fn read(what: &str) -> Option<Vec<u8>> {
    let _uncancelled = Uncancelled::keep();
    std::fs::read(of_rank(what)?).ok()
}

/// Adds a line to the facts of this rank.
pub fn note(fact: &str) {
    append("facts", format!("{fact}\n").as_bytes());
}

/// The path of the facts, for signal handlers.
static FACTS: OnceLock<CString> = OnceLock::new();

/// Notes why the record is truncated or incomplete; only the first reason is kept. May be called in a signal
/// handler, so it allocates nothing.
#[cold]
pub fn note_truncated(why: &CStr) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if FACTS.get().is_some() && !NOTED.swap(true, Ordering::Relaxed) {
        note_pieces([b"cut ", why.to_bytes(), b"\n"]);
    }
}

/// Notes the source line where the agent panicked. May be called anywhere, so it allocates nothing.
#[cold]
pub fn note_panic(file: &str, line: u32) {
    note_pieces([b"panicked ", file.as_bytes(), b":", decimal(line, &mut [0; DIGITS]), b"\n"]);
}

/// The most digits of a number.
pub const DIGITS: usize = 10;

/// A number as text, without an allocation.
pub fn decimal(number: u32, room: &mut [u8; DIGITS]) -> &[u8] {
    let mut rest = number;
    for digit in room.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let first = room.iter().position(|digit| *digit != b'0').unwrap_or(DIGITS - 1);
    room.get(first..).unwrap_or_default()
}

/// Adds a line to the facts of this rank, with system calls only. May be called in a signal handler.
pub fn note_pieces<const N: usize>(pieces: [&[u8]; N]) {
    let Some(path) = FACTS.get() else { return };
    if process::is_forked_child() || !owns_folder() {
        return;
    }
    let _quiet = Quiet::keep();
    // SAFETY: plain system calls on the agent's file.
    unsafe {
        let how = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
        let file = libc::open(path.as_ptr(), how, permissions::at_creation());
        if file >= 0 {
            if may_grow(file, pieces.iter().map(|piece| piece.len()).sum()) {
                write_pieces(file, pieces);
            }
            libc::close(file);
        }
    }
}

/// Writes pieces to an open file in one system call.
pub fn write_pieces<const N: usize>(file: c_int, pieces: [&[u8]; N]) {
    let pieces = pieces.map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    });
    // SAFETY: the pieces are only read, and are valid during the call.
    unsafe { libc::writev(file, pieces.as_ptr(), pieces.len() as c_int) };
}

/// Whether a file would have become larger than the limit on file sizes allows.
static IS_TOO_LARGE: AtomicBool = AtomicBool::new(false);

/// The reason of truncation if writing failed.
pub fn no_room() -> &'static CStr {
    match IS_TOO_LARGE.load(Ordering::Relaxed) {
        true => c"the limit on file sizes is reached, see ulimit -f",
        false => c"it could not be written; is the disk full?",
    }
}

/// The reason of truncation if memory ran out.
pub const NO_MEMORY: &CStr = c"there was no memory left to go on";

/// Memory that must be available to seal events: several times the size of a full window's frame.
pub const SPARE: usize = 8 << 20;

/// Writes the facts of the run, and begins the record.
pub fn begin_record(size: c_int) {
    claim_folder();
    append("order", &[]);
    let mut host = [0u8; 64];
    // SAFETY: the buffer is writable for its length, and its last byte stays zero.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
    let library = library().version();
    note(&format!(
        "size {size}\nhost {}\npid {}\nprogram {}\nlibrary {}",
        String::from_utf8_lossy(host),
        std::process::id(),
        String::from_utf8_lossy(redaction::path(process::program())),
        library.lines().next().unwrap_or_default()
    ));
    if std::env::var_os("REFRAIN_RAND").is_some() {
        note("rand");
    }
    if std::env::var_os("REFRAIN_NO_CLOCK").is_some() {
        note("no-clock");
    }
}

/// Notes, once, that the program used an operation that is not recorded.
#[cold]
pub fn note_unsupported(what: &'static str) {
    static NOTED: Locked<Vec<&'static str>> = Locked::new(Vec::new());
    if process::is_forked_child() {
        return;
    }
    let _quiet = Quiet::keep();
    NOTED.with(PATIENCE, |noted| {
        if !noted.contains(&what) {
            noted.push(what);
            note(&format!("outside {what}"));
        }
    });
}

/// How long to wait for a lock of the record's files. Its holder has signals blocked, and writes at most a line.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Maps a file of this many words, which outlives the process. Its blocks are allocated first: otherwise a
/// full disk would raise SIGBUS later.
pub fn map(path: &Path, words: usize) -> Option<&'static [AtomicU64]> {
    let _uncancelled = Uncancelled::keep();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file: File = options.mode(permissions::at_creation()).open(path).ok()?;
    permissions::set(file.as_raw_fd());
    let bytes = words * 8;
    if bytes as u64 > file_size_limit() {
        IS_TOO_LARGE.store(true, Ordering::Relaxed);
        return None;
    }
    // SAFETY: plain system calls on the agent's file; it is never unmapped, and its shared words are atomic.
    unsafe {
        if libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) != 0 {
            return None;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let null = std::ptr::null_mut();
        let at = libc::mmap(null, bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return None;
        }
        Some(std::slice::from_raw_parts(at.cast(), words))
    }
}
