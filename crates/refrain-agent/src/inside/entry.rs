//! From an exported symbol to a wrapper.
//!
//! The return address shows whether the program made a call ([`crate::inside::modules`]), and Rust
//! has no way to read it. So every exported name is a few instructions of assembly. They store the
//! return address, the stack and frame pointers and the index of the called name in a thread-local
//! block, and jump to the wrapper. Registers and stack stay as the caller left them, and the jump
//! adds no frame that an unwinder would have to understand.
//!
//! A signal handler that calls MPI may overwrite the block before the wrapper has read it. So
//! nothing in the block decides which function is called: a wrapper knows its own function. The
//! block only says who called, and from which stack depth.

use crate::inside::{next, stalls};
use crate::order;
use crate::trace::call::Call;
use crate::trace::thread_log::{self, ThreadLog};
use core::arch::{asm, global_asm};

/// State of a thread. It lives in the static TLS block, so reading it is a single load.
#[repr(C)]
pub struct ThreadBlock {
    /// The return address of the call in progress.
    pub caller: usize,
    /// Which of the wrapper's names was called: 0 for `MPI_X`, 1 for `PMPI_X`; for a Fortran
    /// procedure, the index of the symbol.
    pub name: usize,
    /// The stack pointer at entry.
    pub stack: usize,
    /// The thread's log; null before its first call.
    pub log: *mut ThreadLog,
    /// The frame pointer at entry, if the caller has one.
    pub frame: usize,
    /// The thread's state in [`order`]; null before its first call.
    pub order: *const order::Thread,
    /// Creation path: a hash of the parent's path and the index of this child; 0 for the initial
    /// thread.
    pub path: u64,
    /// Number of threads that it has created.
    pub children: u64,
}

// Uses the initial-exec model, because LD_PRELOAD loads this library at start-up.
global_asm!(
    ".pushsection .tbss.refrain_thread,\"awT\",@nobits",
    ".p2align 3",
    ".globl refrain_thread",
    ".hidden refrain_thread",
    ".type refrain_thread,@object",
    ".size refrain_thread,64",
    "refrain_thread:",
    ".zero 64",
    ".popsection",
);

/// This thread's block.
#[inline(always)]
pub fn thread_block() -> *mut ThreadBlock {
    let block;
    // SAFETY: reads the block's offset from the GOT and adds the thread pointer, which is at fs:0
    // on x86-64.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + refrain_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) block,
            options(pure, readonly, nostack),
        );
    }
    block
}

/// Exports a symbol that jumps to a wrapper.
macro_rules! export {
    ($symbol:ident, $name:expr, $wrapper:path) => {
        /// # Safety
        /// As for the MPI function of that name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol() {
            core::arch::naked_asm!(
                "mov r11, qword ptr [rip + refrain_thread@GOTTPOFF]",
                "mov rax, qword ptr [rsp]",
                "mov qword ptr fs:[r11], rax",
                "mov qword ptr fs:[r11 + 8], {name}",
                "mov qword ptr fs:[r11 + 16], rsp",
                "mov qword ptr fs:[r11 + 32], rbp",
                "jmp {wrapper}",
                name = const $name,
                wrapper = sym $wrapper,
            )
        }
    };
}
pub(crate) use export;

/// Which of the wrapper's names was called. A wrapper reads it before anything else.
pub fn name() -> usize {
    // SAFETY: the block belongs to this thread and lives as long as it does.
    unsafe { (*thread_block()).name }
}

/// A call that the program has just made.
#[derive(Clone, Copy)]
pub struct Entry {
    block: *mut ThreadBlock,
    /// Its return address.
    pub caller: usize,
    /// The called symbol: twice the function's number, plus one for `PMPI_`.
    pub slot: usize,
    /// The stack pointer at entry.
    pub stack: usize,
    /// The frame pointer at entry, if the caller has one.
    pub frame: usize,
}

impl Entry {
    /// The call of this function that is in progress. A wrapper reads it before anything else.
    #[inline(always)]
    pub fn new(function: usize) -> Entry {
        let block = thread_block();
        // SAFETY: the block belongs to this thread and lives as long as it does.
        let ThreadBlock { caller, name, stack, frame, .. } = unsafe { &*block };
        let slot = function * 2 + (*name & 1);
        Entry { block, caller: *caller, slot, stack: *stack, frame: *frame }
    }

    /// A call with a known return address, slot and stack pointer.
    pub fn of(caller: usize, slot: usize, stack: usize) -> Entry {
        Entry { block: thread_block(), caller, slot, stack, frame: 0 }
    }

    /// The function to forward the call to.
    #[inline(always)]
    pub fn next(self) -> *const () {
        next::function(self.slot)
    }

    /// Begins to record the call, if it is the program's and the thread has a log.
    #[inline(always)]
    pub fn begin(self) -> Option<Call> {
        // SAFETY: as in `new`.
        let log = unsafe { (*self.block).log };
        stalls::begin();
        let is_new = log.is_null();
        match thread_log::is_open(log) || is_new && thread_log::open_for_thread(self.block) {
            // SAFETY: as in `new`; the log is open and belongs to this thread.
            true => Call::begin(self, unsafe { (*self.block).log }),
            false => None,
        }
    }
}
