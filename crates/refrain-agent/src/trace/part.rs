//! The file of a log: a mapped header and a mapped window, and behind them what is appended.
//!
//! No descriptor stays open, because a program may close descriptors that it does not know, and
//! reuse their numbers. So the file is opened again for every write, and must still be the same
//! file.

use crate::inside::file_size::file_size_limit;
use crate::inside::header_page::HeaderPage;
use crate::inside::stalls::{self, Cause};
use crate::inside::{clock, permissions};
use refrain_format::part::{BODY, EXTENSION, HEADER_BYTES, PartHeader};
use std::ffi::{CString, c_int};
use std::ptr::null_mut;

/// A part that is being written; see [`refrain_format::part`].
pub struct Part {
    page: HeaderPage,
    path: CString,
    identity: (libc::dev_t, libc::ino_t),
    /// The most bytes that the body ever had.
    most: u64,
}

impl Part {
    /// Creates the part of a new thread under a name of its own, and maps it.
    pub fn create(folder: &CString, header: &PartHeader) -> Option<Part> {
        let host = refrain_format::part::text(&header.host);
        // A process that replaces itself by exec keeps its process number, so further names are
        // tried.
        for attempt in 0..100 {
            let (pid, thread) = (header.pid, header.thread);
            let name = format!("/{host}.{pid}.{attempt}.{thread}.{EXTENSION}");
            let path = CString::new([folder.as_bytes(), name.as_bytes()].concat()).ok()?;
            // SAFETY: a valid path; the header is copied into a page that is mapped until `unmap`, and
            // used only by way of `HeaderPage` from then on.
            unsafe {
                let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
                let fd = libc::open(path.as_ptr(), flags, permissions::at_creation());
                if fd < 0 {
                    if last_errno() == libc::EEXIST {
                        continue;
                    }
                    return None;
                }
                let file = File(fd);
                permissions::set(file.0);
                let Ok(page) = map(file.0) else {
                    libc::unlink(path.as_ptr());
                    return None;
                };
                let page = page.cast::<PartHeader>();
                page.copy_from_nonoverlapping(header, 1);
                let identity = identity_of(file.0).ok()?;
                let page = HeaderPage::new(page);
                return Some(Part { page, path, identity, most: 0 });
            }
        }
        None
    }

    /// Its header.
    pub fn header(&self) -> HeaderPage {
        self.page
    }

    /// Its window.
    pub fn window(&self) -> *mut u8 {
        self.page.address().cast::<u8>().wrapping_add(HEADER_BYTES)
    }

    /// Frees the disk blocks of the window behind `used` bytes, when the thread ends: there may be
    /// thousands of threads.
    pub fn free_unused(&self, used: usize) {
        let first = (HEADER_BYTES + used + 8).next_multiple_of(4096);
        if let Some(length) = BODY.checked_sub(first).filter(|length| *length > 0) {
            // SAFETY: whole pages of the part's own mapping, which contain only zeros and are read
            // as zeros afterwards. If the file system does not support it, nothing happens.
            unsafe {
                let at = self.page.address().cast::<u8>().add(first);
                libc::madvise(at.cast(), length, libc::MADV_REMOVE);
            }
        }
    }

    /// Stores the current time on both clocks in the header.
    pub fn note_time(&mut self) {
        self.page.set_last_time(clock::ticks(), clock::wall_nanos());
    }

    /// The position in the log where the body ends.
    pub fn position(&self) -> u64 {
        self.page.body_end()
    }

    /// The position in the log where the body begins.
    pub fn base(&self) -> u64 {
        self.page.body_end() - self.page.body_bytes()
    }

    /// The thread's number.
    pub fn thread(&self) -> u32 {
        self.page.thread()
    }

    /// The file for the state of its process.
    pub fn state_path(&self) -> Option<CString> {
        self.beside(refrain_format::state::file_name)
    }

    /// The file for the sealed data of its process.
    pub fn sealed_path(&self) -> Option<CString> {
        self.beside(refrain_format::state::sealed_file_name)
    }

    /// A file of its process, in the same folder.
    fn beside(&self, name: fn(&str, i32, u64) -> String) -> Option<CString> {
        let (pid, host, process) = self.page.process();
        let name = name(&refrain_format::part::text(&host), pid, process);
        let path = self.path.as_bytes();
        let folder = path.iter().rposition(|byte| *byte == b'/')?;
        CString::new([path.get(..=folder)?, name.as_bytes()].concat()).ok()
    }

    /// Empties the body, which then begins at `position` of the log: the state on disk covers
    /// everything before.
    pub fn restart_body(&mut self, position: u64) {
        self.page.restart_body(position);
    }

    /// Unmaps header and window.
    ///
    /// # Safety
    /// Neither header nor window may be used afterwards.
    pub unsafe fn unmap(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(self.page.address().cast(), BODY) };
    }

    /// Appends bytes to the file behind the window.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), c_int> {
        stalls::note(Cause::Append);
        let file = self.reopen()?;
        let appended = self.page.body_bytes();
        let total = appended + bytes.len() as u64;
        if BODY as u64 + total > file_size_limit() {
            // A write would raise SIGXFSZ in the program.
            return Err(libc::EFBIG);
        }
        let mut at = BODY as u64 + appended;
        while !bytes.is_empty() {
            // SAFETY: the part's own file, and valid bytes.
            let n = unsafe {
                libc::pwrite(file.0, bytes.as_ptr().cast(), bytes.len(), at as libc::off_t)
            };
            match n {
                -1 if last_errno() == libc::EINTR => {}
                n if n <= 0 => {
                    let errno = if n == 0 { libc::ENOSPC } else { last_errno() };
                    // Frees what was partly written: the program needs the disk space.
                    // SAFETY: the part's own file.
                    unsafe { libc::ftruncate(file.0, (BODY as u64 + appended) as libc::off_t) };
                    self.most = appended;
                    return Err(errno);
                }
                n => {
                    bytes = bytes.get(n as usize..).unwrap_or_default();
                    at += n as u64;
                }
            }
        }
        self.page.set_body_bytes(total);
        self.most = self.most.max(total);
        self.note_time();
        Ok(())
    }

    /// How many bytes are worth appending: enough to be worth opening the file, but few enough to take
    /// less than 10 µs. Pages that the body had before it was restarted cost a fifth of new ones.
    pub fn next_append(&self) -> u64 {
        const NEW: u64 = 8 << 10;
        const OLD: u64 = 64 << 10;
        if self.page.body_bytes() + OLD <= self.most { OLD } else { NEW }
    }

    /// Opens the part again, and checks that it is still the same file.
    fn reopen(&self) -> Result<File, c_int> {
        // SAFETY: a valid path; the status is written before it is read.
        unsafe {
            let fd = loop {
                match libc::open(self.path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) {
                    -1 if last_errno() == libc::EINTR => {}
                    -1 => return Err(last_errno()),
                    fd => break fd,
                }
            };
            let file = File(fd);
            if identity_of(fd)? != self.identity {
                return Err(libc::ESTALE);
            }
            Ok(file)
        }
    }
}

/// Writes a file, or replaces it, atomically.
pub fn replace_file(path: &CString, mut bytes: &[u8]) -> Result<(), c_int> {
    if bytes.len() as u64 > file_size_limit() {
        return Err(libc::EFBIG);
    }
    let new = CString::new([path.as_bytes(), b".new"].concat()).map_err(|_| libc::EINVAL)?;
    // SAFETY: plain system calls on a file of the agent.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let fd = libc::open(new.as_ptr(), flags, permissions::at_creation());
        if fd < 0 {
            return Err(last_errno());
        }
        let file = File(fd);
        permissions::set(file.0);
        while !bytes.is_empty() {
            match libc::write(file.0, bytes.as_ptr().cast(), bytes.len()) {
                -1 if last_errno() == libc::EINTR => {}
                n if n <= 0 => {
                    let errno = if n == 0 { libc::ENOSPC } else { last_errno() };
                    libc::unlink(new.as_ptr());
                    return Err(errno);
                }
                n => bytes = bytes.get(n as usize..).unwrap_or_default(),
            }
        }
        match libc::rename(new.as_ptr(), path.as_ptr()) {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}

/// Puts the file `new`, of which `length` bytes count, in the place of another one, which becomes `new` if there is one.
/// So its pages can be used again.
pub fn exchange_files(new: &CString, path: &CString, length: u64) -> Result<(), c_int> {
    // SAFETY: plain system calls on files of the agent.
    unsafe {
        if libc::truncate(new.as_ptr(), length as libc::off_t) != 0 {
            return Err(last_errno());
        }
        let (here, exchange) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
        let (from, to) = (new.as_ptr(), path.as_ptr());
        // Fails for the first one, and where the file system cannot exchange files.
        match libc::syscall(libc::SYS_renameat2, here, from, here, to, exchange) == 0
            || libc::rename(from, to) == 0
        {
            true => Ok(()),
            false => Err(last_errno()),
        }
    }
}

/// Removes a file.
pub fn remove_file(path: &CString) {
    // SAFETY: a valid path, of a file of the agent.
    unsafe { libc::unlink(path.as_ptr()) };
}

/// Writes bytes at an offset of a file that several processes write.
pub fn write_at(path: &CString, mut bytes: &[u8], offset: u64) -> Result<(), c_int> {
    if offset + bytes.len() as u64 > file_size_limit() {
        return Err(libc::EFBIG);
    }
    // SAFETY: plain system calls on a file of the agent.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        let fd = libc::open(path.as_ptr(), flags, permissions::at_creation());
        if fd < 0 {
            return Err(last_errno());
        }
        let file = File(fd);
        permissions::set(file.0);
        let mut at = offset as libc::off_t;
        while !bytes.is_empty() {
            match libc::pwrite(file.0, bytes.as_ptr().cast(), bytes.len(), at) {
                -1 if last_errno() == libc::EINTR => {}
                -1 => return Err(last_errno()),
                0 => return Err(libc::ENOSPC),
                n => {
                    bytes = bytes.get(n as usize..).unwrap_or_default();
                    at += n as libc::off_t;
                }
            }
        }
    }
    Ok(())
}

/// Reads `length` bytes at an offset of a file; `None` if it has fewer.
pub fn read_at(path: &CString, offset: u64, length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    bytes.resize(length, 0);
    // SAFETY: plain system calls on a file of the agent, into valid memory.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let file = File(fd);
        let mut read = 0;
        while read < length {
            let rest = bytes.get_mut(read..)?;
            let at = (offset + read as u64) as libc::off_t;
            match libc::pread(file.0, rest.as_mut_ptr().cast(), rest.len(), at) {
                -1 if last_errno() == libc::EINTR => {}
                n if n <= 0 => return None,
                n => read += n as usize,
            }
        }
    }
    Some(bytes)
}

/// A descriptor that is closed when it is dropped.
struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the value owns the descriptor, which is closed once.
        unsafe { libc::close(self.0) };
    }
}

fn identity_of(fd: c_int) -> Result<(libc::dev_t, libc::ino_t), c_int> {
    // SAFETY: fstat fills the structure or fails.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat>();
        if libc::fstat(fd, &mut stat) != 0 {
            return Err(last_errno());
        }
        Ok((stat.st_dev, stat.st_ino))
    }
}

/// Maps the header and the window of a new part, with blocks reserved for them, so that
/// storing into the mapping cannot fail.
fn map(fd: c_int) -> Result<*mut u8, c_int> {
    if BODY as u64 > file_size_limit() {
        return Err(libc::EFBIG);
    }
    // SAFETY: plain system calls on the part's own new file.
    unsafe {
        match libc::posix_fallocate(fd, 0, BODY as libc::off_t) {
            0 => {}
            errno => return Err(errno),
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(null_mut(), BODY, protection, libc::MAP_SHARED, fd, 0);
        if at == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(at.cast())
    }
}

/// The `errno` of this thread's last failed system call.
pub fn last_errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}
