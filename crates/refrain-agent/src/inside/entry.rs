//! From an exported symbol to a wrapper.
//!
//! Whose call it is ([`crate::inside::modules`]) is told by the return address, which Rust
//! cannot ask for. So every exported name is a few instructions of assembly that note the
//! return address, the stack and frame pointers and which of the wrapper's names was called in a
//! thread-local block and jump to the wrapper; registers and stack stay as the caller left
//! them, and the jump leaves no frame behind for an unwinder to trip over.
//!
//! A signal handler that calls MPI may write to the block before the wrapper has read it. So
//! nothing there decides which function is called: a wrapper knows its own. The rest only
//! tells whose call it was, and how deep.

use crate::inside::next;
use crate::order;
use crate::trace::call::Call;
use crate::trace::stream;
use core::arch::{asm, global_asm};

/// What a thread knows of itself; lives in the static TLS block, so it costs one load.
#[repr(C)]
pub struct ThreadBlock {
    /// Where the call in progress returns to.
    pub caller: usize,
    /// Which of the wrapper's names was called: 0 for `MPI_X`, 1 for `PMPI_X`; of a Fortran
    /// procedure's, the first, the second and so on.
    pub name: usize,
    /// The stack pointer at entry.
    pub stack: usize,
    /// The thread's log; null before its first call.
    pub stream: *mut stream::Stream,
    /// The frame pointer at entry, if the caller has one.
    pub frame: usize,
    /// What [`order`] knows of the thread; null before its first call.
    pub order: *const order::Thread,
    /// Who made the thread, and as the how manieth of its threads: 0 for the first of all.
    pub path: u64,
    /// How many threads it has made.
    pub children: u64,
}

// The initial-exec model: this library is always loaded at start-up, by LD_PRELOAD.
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
    // SAFETY: reads the block's offset from the GOT and adds the thread pointer, which x86-64
    // keeps at fs:0.
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

/// Exports a name that goes to a wrapper.
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

/// Which of the wrapper's names was called; to be asked for before anything else.
pub fn name() -> usize {
    // SAFETY: the block belongs to this thread and lives as long as it does.
    unsafe { (*thread_block()).name }
}

/// A call that has just come in.
#[derive(Clone, Copy)]
pub struct Entry {
    block: *mut ThreadBlock,
    /// Where it returns to.
    pub caller: usize,
    /// Which exported name was called: twice the function's number, plus one for `PMPI_`.
    pub slot: usize,
    /// The stack pointer at entry.
    pub stack: usize,
    /// The frame pointer at entry, if the caller has one.
    pub frame: usize,
}

impl Entry {
    /// The call of this function that is in progress. To be asked for first of all in a
    /// wrapper.
    #[inline(always)]
    pub fn new(function: usize) -> Entry {
        let block = thread_block();
        // SAFETY: the block belongs to this thread and lives as long as it does.
        let ThreadBlock { caller, name, stack, frame, .. } = unsafe { &*block };
        let slot = function * 2 + (*name & 1);
        Entry { block, caller: *caller, slot, stack: *stack, frame: *frame }
    }

    /// A call whose particulars are at hand.
    pub fn of(caller: usize, slot: usize, stack: usize) -> Entry {
        Entry { block: thread_block(), caller, slot, stack, frame: 0 }
    }

    /// The function to forward the call to.
    #[inline(always)]
    pub fn next(self) -> *const () {
        next::function(self.slot)
    }

    /// Begins to write the call down, if it is the program's and there is a log.
    #[inline(always)]
    pub fn begin(self) -> Option<Call> {
        // SAFETY: as in `new`.
        let stream = unsafe { (*self.block).stream };
        let is_new = stream.is_null();
        match stream::is_open(stream) || is_new && stream::open_for_thread(self.block) {
            // SAFETY: as in `new`; the stream is open, and this thread's alone.
            true => Call::begin(self, unsafe { (*self.block).stream }),
            false => None,
        }
    }
}
