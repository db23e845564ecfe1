//! Files of receive orders, in the folder of a run. For each rank:
//!
//! * `rank-N.order`: frames, as they were sealed, or as they are to be replayed
//! * `rank-N.log`: while recording, the window in front of them ([`refrain_order::causal::log`])
//! * `rank-N.facts`: a line for each thing worth knowing: `size 4`, `site 1f3a /bin/app+1a2b`,
//!   `finalized`, or `cut` and why the record is not whole; `panicked` and where the agent did
//! * `rank-N.of-…`, of no bytes: the folder is still that of this run
//!
//! No descriptor stays open: the program may close those it does not know. So a folder can be removed
//! and made again by the next recording under the same name, while a rank of the one before still dies
//! (some launchers end before their ranks do): what is not ours is left alone.

use crate::inside::file_size::file_size_limit;
use crate::inside::locked::Locked;
use crate::inside::process::{self, Quiet, Uncancelled};
use crate::inside::{memory, permissions, redaction};
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

/// The rank is known from now on.
pub fn set_rank(rank: c_int) {
    RANK.store(rank, Ordering::Relaxed);
    let path = own("facts").and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    path.map(|path| FACTS.set(path));
}

/// The rank, or -1.
pub fn rank() -> c_int {
    RANK.load(Ordering::Relaxed)
}

/// A file in the folder.
pub fn path(name: &str) -> Option<PathBuf> {
    let folder: CString = process::order_folder()?;
    Some(Path::new(OsStr::from_bytes(folder.as_bytes())).join(name))
}

/// A file of this rank.
pub fn own(what: &str) -> Option<PathBuf> {
    path(&format!("rank-{}.{what}", rank()))
}

/// The file that says whose folder it is.
static OWNER: OnceLock<CString> = OnceLock::new();

/// Says that the folder is this run's.
fn own_folder() {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    let name = format!("of-{:x}-{now:x}", std::process::id());
    let path = own(&name).and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    if append(&name, &[]) {
        path.map(|path| OWNER.set(path));
    }
}

/// Whether the folder is not known to be another run's. May be asked in a handler.
fn is_ours() -> bool {
    // SAFETY: a path that is closed by a zero.
    OWNER.get().is_none_or(|path| unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 })
}

/// Appends to a file of this rank.
pub fn append(what: &str, bytes: &[u8]) -> bool {
    if !is_ours() {
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
    own(what).is_some_and(|path| write(path).is_ok())
}

/// Whether so many bytes can be appended to a file without SIGXFSZ, which would kill the program. May
/// be asked in a handler.
fn may_grow(file: c_int, bytes: usize) -> bool {
    // SAFETY: fstat fills in the structure, or fails and leaves it zero.
    let size = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(file, &mut stat);
        stat.st_size as u64
    };
    size.saturating_add(bytes as u64) <= file_size_limit()
}

/// What is in a file of this rank.
pub fn read(what: &str) -> Option<Vec<u8>> {
    let _uncancelled = Uncancelled::keep();
    std::fs::read(own(what)?).ok()
}

/// Adds a line to the facts of this rank.
pub fn note(fact: &str) {
    append("facts", format!("{fact}\n").as_bytes());
}

/// Where facts are, for those that are noted in a handler.
static FACTS: OnceLock<CString> = OnceLock::new();

/// Notes why the record holds nothing behind this point, or not all: the first reason. May be called in
/// a handler, so it allocates nothing.
#[cold]
pub fn note_cut(why: &CStr) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if FACTS.get().is_some() && !NOTED.swap(true, Ordering::Relaxed) {
        note_pieces([b"cut ", why.to_bytes(), b"\n"]);
    }
}

/// Notes that the agent has panicked, and where. May be called anywhere, so it allocates nothing.
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

/// Adds a line to the facts of this rank, by system calls alone: may be called in a handler.
pub fn note_pieces<const N: usize>(pieces: [&[u8]; N]) {
    let Some(path) = FACTS.get() else { return };
    if process::is_forked_child() || !is_ours() {
        return;
    }
    let _quiet = Quiet::keep();
    // SAFETY: plain system calls on a file of our own.
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

/// Writes a line to an open file in one piece, by a system call alone.
pub fn write_pieces<const N: usize>(file: c_int, pieces: [&[u8]; N]) {
    let pieces = pieces.map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    });
    // SAFETY: the pieces are only read, and are there for the call.
    unsafe { libc::writev(file, pieces.as_ptr(), pieces.len() as c_int) };
}

/// Why a record could not be written.
pub const NO_ROOM: &CStr = c"it could not be written; is the disk full?";

/// Why a record ends where the program has no memory left.
pub const NO_MEMORY: &CStr = c"there was no memory left to go on";

/// Memory that must be there when something is sealed: several times what a full window becomes.
pub const SPARE: usize = 8 << 20;

/// Says what is recorded here, and begins the record.
pub fn introduce(size: c_int) {
    own_folder();
    append("order", &[]);
    let mut host = [0u8; 64];
    // SAFETY: the buffer is writable for its length, and closed by a zero.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
    let library = memory::library_version();
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

/// Notes once that something happened which a record does not hold.
#[cold]
pub fn unsupported(what: &'static str) {
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

/// Whoever holds a lock of this folder has signals blocked, and writes a line at most.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Maps a file of so many words, which outlive the process. Its blocks are allocated first, so
/// that a full disk does not show as a signal later.
pub fn map(path: &Path, words: usize) -> Option<&'static [AtomicU64]> {
    let _uncancelled = Uncancelled::keep();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file: File = options.mode(permissions::at_creation()).open(path).ok()?;
    permissions::set(file.as_raw_fd());
    let bytes = words * 8;
    if bytes as u64 > file_size_limit() {
        return None;
    }
    // SAFETY: plain system calls on a file of our own; the mapping is never undone, and shared
    // words are atomic.
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
