//! The keeper: a process beside a rank that starts a compressor for each process to be recorded.
//!
//! The process that is about to become the program starts a keeper first. The keeper is not the
//! program's child, holds none of its descriptors, and does not get the terminal's signals. It listens
//! on a socket whose name the program and all its descendants inherit. For each process that connects,
//! it starts a compressor. It ends when the program and all compressors have ended. While it runs there is
//! a file `keeper.HOST.PID` in the folder of parts.

use crate::compress::{CompressorSettings, compress};
use crate::part::PartFiles;
use crate::state::without_folder;
use refrain_rings::consumer::{Program, SharedMemory};
use refrain_rings::layout::{GONE, Hello, MAGIC, VERSION};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// The settings of a keeper.
#[derive(Clone, Debug)]
pub struct KeeperSettings {
    /// The folder of parts.
    pub parts: PathBuf,
    /// The rank of the program.
    pub rank: Option<u32>,
    /// Whether raw words are kept.
    pub raw: bool,
    /// Whether host names and folders of files are left out.
    pub redact: bool,
    /// How many numbers a chunk holds before it is sealed.
    pub window: Option<usize>,
}

/// Starts a keeper for this process. Returns the name of its socket.
pub fn start(settings: KeeperSettings) -> io::Result<String> {
    let pid = std::process::id();
    let name = format!("refrain-{pid}-{:x}", nanoseconds());
    let socket = listen(&name)?;
    let program = watch(pid as i32);
    // SAFETY: this process has one thread, so the children may call any function.
    unsafe {
        match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                libc::setsid();
                match libc::fork() {
                    0 => {
                        let keeper = Keeper::new(settings, socket, program);
                        let code = keeper.map_or(1, |mut keeper| keeper.run());
                        libc::_exit(code)
                    }
                    _ => libc::_exit(0),
                }
            }
            child => {
                let mut status = 0;
                while libc::waitpid(child, &mut status, 0) < 0
                    && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                {
                }
            }
        }
    }
    Ok(name)
}

fn nanoseconds() -> u128 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos())
}

/// A process whose end can be observed.
#[derive(Debug)]
pub struct Watched {
    pid: i32,
    descriptor: Option<OwnedFd>,
}

impl Watched {
    /// Begins to watch a process.
    pub fn new(pid: i32) -> Self {
        Self { pid, descriptor: watch(pid) }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let Some(descriptor) = &self.descriptor else { return !is_alive(&self.pid.to_string()) };
        let (fd, events) = (descriptor.as_raw_fd(), libc::POLLIN);
        let mut poll = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: one descriptor, which is ours.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }
}

/// A descriptor that becomes readable when the process ends.
fn watch(pid: i32) -> Option<OwnedFd> {
    // SAFETY: a new descriptor, or none.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    }
}

/// Listens on an abstract socket that preserves message boundaries.
fn listen(name: &str) -> io::Result<OwnedFd> {
    // The address is built by hand: the standard library has stream sockets only.
    // SAFETY: system calls with structures that are filled in.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (place, byte) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        let size = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        let address = (&raw const address).cast();
        if libc::bind(socket.as_raw_fd(), address, size as u32) != 0
            || libc::listen(socket.as_raw_fd(), 128) != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

struct Keeper {
    settings: KeeperSettings,
    socket: OwnedFd,
    program: Option<OwnedFd>,
    /// Compressors by process id, each with the memory that it shares with its program.
    compressors: BTreeMap<i32, Option<Program>>,
    images: BTreeMap<u32, u32>,
    mark: PathBuf,
}

impl Keeper {
    fn new(
        settings: KeeperSettings,
        socket: OwnedFd,
        program: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let kept: Vec<RawFd> = [Some(&socket), program.as_ref()]
            .into_iter()
            .flatten()
            .map(AsRawFd::as_raw_fd)
            .collect();
        close_other_descriptors(&kept);
        // A write past the limit on file sizes then fails, like one on a full disk, and does not kill the process.
        // SAFETY: changes the disposition of one signal to a constant.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let host = host_name();
        let mark = settings.parts.join(format!("keeper.{host}.{}", std::process::id()));
        File::create(&mark)?;
        let (compressors, images) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { settings, socket, program, compressors, images, mark })
    }

    fn run(&mut self) -> i32 {
        let mut has_ended = false;
        // If the end of the program cannot be observed, the keeper waits this long for a first connection.
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let (calls, ended) = self.wait(has_ended);
            has_ended |= ended || (self.program.is_none() && Instant::now() > patience);
            if calls && let Err(error) = self.accept() {
                self.note(&error.to_string());
            }
            self.reap();
            if has_ended && !calls && self.compressors.is_empty() {
                let _ = std::fs::remove_file(&self.mark);
                return 0;
            }
        }
    }

    /// Waits briefly for a connection or, unless it `has_ended`, for the end of the program. Returns whether there
    /// is a connection, and whether the program ended.
    fn wait(&self, has_ended: bool) -> (bool, bool) {
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let program = self.program.as_ref().filter(|_| !has_ended);
        let program = program.map_or(-1, AsRawFd::as_raw_fd);
        let mut polled = [entry(self.socket.as_raw_fd()), entry(program)];
        // SAFETY: two entries; a negative descriptor is skipped.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, 20) };
        (polled[0].revents != 0, polled[1].revents != 0)
    }

    /// Collects compressors that have ended. If one has failed, its program is told not to wait for it.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: our own children.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            if let Some(program) = self.compressors.remove(&pid).flatten()
                && status != 0
            {
                program.set_state(GONE);
                // A compressor that failed by itself has written down the reason.
                if libc::WIFSIGNALED(status) {
                    self.note(&format!(
                        "the compressor of process {} was killed by {}",
                        program.control().pid.load(SeqCst),
                        signal_name(libc::WTERMSIG(status))
                    ));
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        // SAFETY: a new descriptor, or none.
        let caller = unsafe {
            let caller = libc::accept4(
                self.socket.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            if caller < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(caller)
        };
        let pid = peer(&caller)?;
        let memory = receive(&caller)?;
        let image = self.images.entry(pid as u32).or_insert(0);
        *image += 1;
        let settings = CompressorSettings {
            files: PartFiles::new(&self.settings.parts, self.settings.rank, pid as u32, *image - 1),
            rank: self.settings.rank,
            image: *image - 1,
            raw: self.settings.raw,
            redact: self.settings.redact,
            window: self.settings.window,
        };
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let result = Program::open(memory.clone()).and_then(|program| {
                    // The process is watched before the answer is sent, because it may end soon after the answer.
                    let process = Watched::new(pid);
                    answer(&caller)?;
                    drop(caller);
                    compress(program, process, settings)
                });
                if let Err(error) = &result {
                    self.note(&format!("process {pid} is not recorded to its end: {error}"));
                }
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(result.is_err())) }
            }
            child => {
                self.compressors.insert(child, Program::open(memory).ok());
                Ok(())
            }
        }
    }

    /// Appends a line to the file `problems`, which says why a trace is incomplete.
    fn note(&self, what: &str) {
        use std::io::Write;
        let path = self.settings.parts.join("problems");
        let what = match self.settings.redact {
            true => &without_folder(what, &self.settings.parts),
            false => what,
        };
        if let Ok(mut file) = File::options().create(true).append(true).open(path) {
            let _ = writeln!(file, "{what}");
        }
    }
}

/// The usual name of a signal.
fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 8] = [
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGINT, "SIGINT"),
    ];
    let name = NAMES.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name);
    name.map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// The process at the other end.
fn peer(socket: &OwnedFd) -> io::Result<i32> {
    // SAFETY: the kernel fills in the structure.
    unsafe {
        let mut who: libc::ucred = std::mem::zeroed();
        let mut size = size_of::<libc::ucred>() as u32;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        match libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut who).cast(), &mut size) {
            0 => Ok(who.pid),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Receives the hello message and the shared memory that comes with it.
fn receive(socket: &OwnedFd) -> io::Result<SharedMemory> {
    #[repr(C, align(8))]
    struct Room([u8; 64]);
    let mut room = Room([0; 64]);
    let mut hello = Hello { magic: 0, version: 0, segment: 0 };
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "a process that is not a front end of this version connected",
        )
    };
    // SAFETY: a message with room for one descriptor, as cmsg(3) has it.
    unsafe {
        let mut piece =
            libc::iovec { iov_base: (&raw mut hello).cast(), iov_len: size_of::<Hello>() };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len();
        let got = libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
        let head = libc::CMSG_FIRSTHDR(&message);
        let file = (!head.is_null() && (*head).cmsg_type == libc::SCM_RIGHTS)
            .then(|| File::from_raw_fd(libc::CMSG_DATA(head).cast::<RawFd>().read_unaligned()));
        let is_hello = got == size_of::<Hello>() as isize && hello.magic == MAGIC;
        match file {
            _ if !is_hello || hello.version != VERSION => Err(wrong()),
            Some(file) => Ok(SharedMemory::File(Arc::new(file))),
            None => SharedMemory::attach(hello.segment),
        }
    }
}

fn answer(socket: &OwnedFd) -> io::Result<()> {
    let hello = Hello::new(0);
    // SAFETY: sends from a structure of that size.
    let sent = unsafe {
        let bytes = (&raw const hello).cast();
        libc::send(socket.as_raw_fd(), bytes, size_of::<Hello>(), libc::MSG_NOSIGNAL)
    };
    if sent == size_of::<Hello>() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes all descriptors but `kept`: a process that waits for the end of one of the program's pipes must
/// not wait for the keeper.
fn close_other_descriptors(kept: &[RawFd]) {
    // SAFETY: descriptors of this process; those that are used are kept.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            libc::dup2(nothing, standard);
        }
        let mut kept: Vec<u32> = kept.iter().map(|fd| *fd as u32).filter(|fd| *fd > 2).collect();
        kept.sort_unstable();
        let mut first = 3u32;
        for fd in kept.into_iter().chain([u32::MAX]) {
            if fd > first {
                libc::syscall(libc::SYS_close_range, first, fd - 1, 0);
            }
            first = fd.saturating_add(1);
        }
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().replace(['/', '.'], "-")
}

/// Waits until all keepers of a folder have ended. A keeper on this machine that was killed counts as ended.
/// Calls `meanwhile` repeatedly.
pub fn wait_for_all(parts: &Path, mut meanwhile: impl FnMut()) {
    let here = host_name();
    loop {
        let entries = std::fs::read_dir(parts).into_iter().flatten().flatten();
        let is_waited_for = |name: &str| {
            let Some((host, pid)) =
                name.strip_prefix("keeper.").and_then(|rest| rest.rsplit_once('.'))
            else {
                return false;
            };
            host != here || is_alive(pid)
        };
        let names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        if !names.iter().any(|name| is_waited_for(name)) {
            return;
        }
        meanwhile();
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_keeper_can_listen_on_a_name() {
        let name = format!("refrain-test-{}", std::process::id());
        let _first = listen(&name).unwrap();
        assert!(listen(&name).is_err());
    }
}
