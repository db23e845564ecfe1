//! The state of the process: the shared memory, the ledger and its lock.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};
use refrain_rings::layout::{
    CHUNK_WORDS, CHUNKS, COMPILED, CONTROL_BYTES, Hello, LEDGER_BYTES, MAGIC, RING_BYTES, RingHead,
};
use refrain_rings::producer::{Gone, Ledger, Ring};
use refrain_rings::record::{NO_CONTEXT, Record};

use crate::hot::thread_block;
use crate::table::{Table, unmap};
use crate::{calls, heap, modules, threads, window};

/// The number of rings: of threads that live at the same time.
const RINGS: usize = 4096;
const RINGS_AT: usize = CONTROL_BYTES + LEDGER_BYTES;
const MEMORY: usize = RINGS_AT + RINGS * RING_BYTES;

/// Whether references are recorded: there is a compressor, and recording is not switched off.
pub static RECORDING: AtomicBool = AtomicBool::new(false);
/// Whether there is a compressor.
static CONNECTED: AtomicBool = AtomicBool::new(false);
/// The number of thread numbers that were assigned.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// Blocks by (return address, kind and size, 0).
pub static BLOCKS: Table = Table::new();
/// Contexts by (parent, call, function).
pub static CONTEXTS: Table = Table::new();

/// What the lock protects.
pub struct Shared {
    /// The ledger.
    pub ledger: Ledger,
    memory: *mut u8,
    /// The number of blocks and contexts.
    pub blocks: u32,
    /// Rings assigned to threads; rings of ended threads are in `free`.
    rings: usize,
    free: [u16; RINGS],
    freed: usize,
}

struct Global(UnsafeCell<Option<Shared>>);
// SAFETY: only the holder of the lock accesses it.
unsafe impl Sync for Global {}
static SHARED: Global = Global(UnsafeCell::new(None));
static LOCK: AtomicU32 = AtomicU32::new(0);

/// The lock of the ledger; while it is held all signals are blocked.
pub struct Locked {
    mask: libc::sigset_t,
}

impl Locked {
    /// Takes the lock.
    pub fn new() -> Self {
        // SAFETY: blocks signals of this thread, and keeps the old mask.
        let mask = unsafe {
            let (mut all, mut mask) = (core::mem::zeroed(), core::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut mask);
            mask
        };
        while LOCK.swap(1, Acquire) != 0 {
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
        }
        Self { mask }
    }

    /// What the lock protects; `None` if nothing is recorded.
    pub fn shared(&mut self) -> Option<&mut Shared> {
        // SAFETY: the lock is held.
        unsafe { (*SHARED.0.get()).as_mut() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.store(0, Release);
        // SAFETY: restores the mask that `new` found.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, null_mut()) };
    }
}

impl Shared {
    /// Appends to the ledger. If the compressor has ended, recording ends.
    pub fn append(&mut self, record: &Record<'_>) {
        if CONNECTED.load(Relaxed)
            && let Err(gone) = self.ledger.append(record)
        {
            lost(gone);
        }
    }

    /// Adds a block of one or two references.
    pub fn add_block(&mut self, references: &[u8]) -> u32 {
        let block = self.blocks;
        self.blocks += 1;
        self.append(&Record::Block { block, references });
        block
    }

    /// Adds a context.
    pub fn add_context(&mut self, parent: u32, call: u64, function: u64) -> u32 {
        let block = self.blocks;
        self.blocks += 1;
        self.append(&Record::Context { block, parent, call, function });
        block
    }

    /// A ring for a thread, and its index.
    pub fn add_ring(&mut self, thread: u32) -> Option<(Ring, usize)> {
        let index = match self.freed.checked_sub(1) {
            Some(last) => {
                self.freed = last;
                usize::from(*self.free.get(last)?)
            }
            None if self.rings < RINGS => {
                self.rings += 1;
                self.rings - 1
            }
            None => return None,
        };
        let at = RINGS_AT + index * RING_BYTES;
        // SAFETY: inside the shared memory; no thread uses this ring.
        let ring = unsafe {
            let memory = self.memory.add(at);
            memory.write_bytes(0, refrain_rings::layout::RING_HEAD_BYTES);
            Ring::create(memory, thread, CHUNK_WORDS, CHUNKS)
        };
        // SAFETY: no arguments.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let (ring_at, ring_bytes) = (at as u64, RING_BYTES as u64);
        self.append(&Record::Thread { thread, tid, ring: ring_at, ring_bytes });
        Some((ring, index))
    }

    /// A thread has ended: its ring can be reused.
    pub fn end_ring(&mut self, thread: u32, index: usize, is_drained: bool) {
        self.append(&Record::ThreadEnd { thread });
        if let Some(free) = self.free.get_mut(self.freed).filter(|_| is_drained) {
            *free = index as u16;
            self.freed += 1;
        }
    }
}

/// Whether references are to be recorded.
#[inline(always)]
pub fn is_recording() -> bool {
    RECORDING.load(Relaxed)
}

/// Switches recording on or off, if there is a compressor. This thread stops at once. Other threads stop
/// when they leave the hot path, which they are made to do soon.
pub fn set_recording(on: bool) {
    RECORDING.store(on && CONNECTED.load(Relaxed), Relaxed);
    if on {
        return;
    }
    // SAFETY: the block belongs to this thread.
    unsafe { (*thread_block()).ring = core::ptr::null() };
    if let Some(shared) = Locked::new().shared() {
        for index in 0..shared.rings {
            // SAFETY: rings that were made stay mapped, and this field is an atomic.
            let head =
                unsafe { &*shared.memory.add(RINGS_AT + index * RING_BYTES).cast::<RingHead>() };
            head.end.store(0, Relaxed);
        }
    }
}

/// A number for a new thread.
pub fn next_thread() -> u32 {
    THREADS.fetch_add(1, Relaxed)
}

/// The ledger, for publishing; `None` if nothing is recorded.
pub fn ledger() -> Option<Ledger> {
    // SAFETY: written before CONNECTED is set, and a Ledger is only a pointer to memory that is
    // not unmapped in this process.
    CONNECTED.load(Acquire).then(|| unsafe { (*SHARED.0.get()).as_ref().map(|s| s.ledger) })?
}

/// The compressor has died: prints a message once, and ends recording.
#[cold]
pub fn lost(_gone: Gone) {
    RECORDING.store(false, Relaxed);
    if CONNECTED.swap(false, Relaxed) {
        say(b"refrain: the compressor of this process has stopped; recording ends here, the program continues\n");
    }
}

/// Writes a line to stderr.
pub fn say(text: &[u8]) {
    // SAFETY: writes from a slice.
    unsafe { libc::syscall(libc::SYS_write, 2, text.as_ptr(), text.len()) };
}

/// Shares memory with a compressor, if a keeper listens.
fn start() {
    // SAFETY: getenv with a valid name.
    let name = unsafe { libc::getenv(c"REFRAIN_MEM_SOCKET".as_ptr()) };
    if name.is_null() {
        return;
    }
    let Some(memory) = share(name) else {
        say(b"refrain: cannot reach the compressor; nothing is recorded of this process\n");
        return;
    };
    // SAFETY: new, zeroed, shared memory of that size; no other thread records yet.
    unsafe {
        let pid = libc::getpid() as u32;
        let ledger = Ledger::create(memory, LEDGER_BYTES, pid, COMPILED);
        let shared = Shared { ledger, memory, blocks: 0, rings: 0, free: [0; RINGS], freed: 0 };
        *SHARED.0.get() = Some(shared);
    }
}

/// The shared memory, and how the compressor finds it.
struct Sharing {
    memory: *mut u8,
    /// A memfd, or -1.
    file: c_int,
    /// A System V segment; unused if there is a memfd.
    segment: i32,
}

/// Creates the shared memory and passes it to the compressor.
fn share(name: *const libc::c_char) -> Option<*mut u8> {
    let sharing = if MEMORY as u64 <= file_size_limit() { memory_file() } else { segment() }?;
    // SAFETY: new shared memory of that size. The control page must be filled in before the
    // compressor sees it. The descriptor is closed in any case.
    let is_connected = unsafe {
        let pid = libc::getpid() as u32;
        Ledger::create(sharing.memory, LEDGER_BYTES, pid, COMPILED);
        let is_connected = connect(name, &Hello::new(sharing.segment), sharing.file);
        if sharing.file >= 0 {
            libc::close(sharing.file);
        }
        is_connected
    };
    is_connected.then_some(sharing.memory)
}

/// The largest file that this process may make.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills in the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

/// Shared memory as a memfd. The limit on file sizes applies to it: past the limit, `ftruncate` would kill
/// the program by SIGXFSZ.
fn memory_file() -> Option<Sharing> {
    // SAFETY: system calls with valid arguments.
    unsafe {
        let file = libc::memfd_create(c"refrain".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return None;
        }
        let mut memory = libc::MAP_FAILED;
        if libc::ftruncate(file, MEMORY as i64) == 0 {
            let all = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            memory =
                libc::syscall(libc::SYS_mmap, 0usize, MEMORY, all, flags, file, 0usize) as *mut _;
        }
        if memory == libc::MAP_FAILED {
            libc::close(file);
            return None;
        }
        Some(Sharing { memory: memory.cast(), file, segment: 0 })
    }
}

/// Shared memory as a System V segment, to which the limit on file sizes does not apply. It is removed at
/// once: Linux keeps it as long as the program or the compressor has it attached.
fn segment() -> Option<Sharing> {
    // SAFETY: system calls with valid arguments.
    unsafe {
        let flags = libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600;
        let segment = libc::shmget(libc::IPC_PRIVATE, MEMORY, flags);
        if segment < 0 {
            return None;
        }
        let memory = libc::shmat(segment, core::ptr::null(), 0);
        libc::shmctl(segment, libc::IPC_RMID, null_mut());
        (memory as isize != -1).then(|| Sharing { memory: memory.cast(), file: -1, segment })
    }
}

/// Sends the hello with the memory file, if there is one, and waits for the answer.
unsafe fn connect(name: *const libc::c_char, hello: &Hello, file: c_int) -> bool {
    // SAFETY: system calls with valid structures.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return false;
        }
        let mut address: libc::sockaddr_un = core::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        let length = libc::strlen(name).min(address.sun_path.len() - 1);
        for (i, to) in address.sun_path.iter_mut().skip(1).take(length).enumerate() {
            *to = *name.add(i);
        }
        let size = core::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + length;
        let is_connected = libc::connect(socket, (&raw const address).cast(), size as u32) == 0
            && send(socket, hello, file)
            && {
                let mut answer = *hello;
                let bytes = size_of::<Hello>();
                loop {
                    let got = libc::recv(socket, (&raw mut answer).cast(), bytes, 0);
                    if got < 0 && *libc::__errno_location() == libc::EINTR {
                        continue;
                    }
                    break got == bytes as isize && answer.magic == MAGIC;
                }
            };
        libc::close(socket);
        is_connected
    }
}

unsafe fn send(socket: c_int, hello: &Hello, file: c_int) -> bool {
    #[repr(C, align(8))]
    struct ControlBuffer([u8; 64]);
    let mut control = ControlBuffer([0; 64]);
    // SAFETY: a message with at most one descriptor, as described in cmsg(3).
    unsafe {
        let mut piece = libc::iovec {
            iov_base: (&raw const *hello).cast_mut().cast(),
            iov_len: size_of::<Hello>(),
        };
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        if file >= 0 {
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(file);
        }
        libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL) == size_of::<Hello>() as isize
    }
}

/// Sets up a process image: the tables, and its initial thread.
fn begin() {
    start();
    let mut locked = Locked::new();
    let Some(shared) = locked.shared() else { return };
    CONNECTED.store(true, Release);
    shared.add_context(NO_CONTEXT, 0, 0);
    modules::announce(shared);
    drop(locked);
    THREADS.store(1, Relaxed);
    threads::adopt_main();
    RECORDING.store(window::prepare(modules::main_base()), Relaxed);
}

/// A forked child starts with nothing of its parent's recording.
unsafe extern "C" fn forked() {
    RECORDING.store(false, Relaxed);
    CONNECTED.store(false, Relaxed);
    LOCK.store(0, Relaxed);
    // SAFETY: the child has one thread. It must not write to the parent's memory.
    unsafe {
        threads::forget();
        if let Some(shared) = (*SHARED.0.get()).take() {
            unmap(shared.memory, MEMORY);
        }
    }
    BLOCKS.clear();
    CONTEXTS.clear();
    crate::hot::BLOCKS.iter().for_each(|block| block.store(0, Relaxed));
    calls::forget();
    heap::forget();
    modules::forget();
    begin();
}

/// Runs at the start of the program, before its own constructors.
extern "C" fn load() {
    heap::prepare();
    // SAFETY: a handler that stays loaded as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    begin();
}

/// Runs at the end of the program, after its own destructors.
extern "C" fn unload() {
    let Some(ledger) = ledger() else { return };
    threads::finish_main();
    RECORDING.store(false, Relaxed);
    match ledger.end() {
        Ok(()) => CONNECTED.store(false, Relaxed),
        Err(gone) => lost(gone),
    }
}

/// As in the C library: ends the process without its destructors. A `vfork` child runs in its parent's memory;
/// its end is not the end of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(code: c_int) -> ! {
    // SAFETY: system calls.
    unsafe {
        let pid = libc::syscall(libc::SYS_getpid) as u32;
        if ledger().is_some_and(|ledger| ledger.control().pid.load(Relaxed) == pid) {
            unload();
        }
        loop {
            libc::syscall(libc::SYS_exit_group, code);
        }
    }
}

/// As in the C library; another name of `_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(code: c_int) -> ! {
    // SAFETY: the caller's promise.
    unsafe { _exit(code) }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

/// Compilers call this from every object; nothing is left to do.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_init() {}
