//! The hot path: from a compiler's call to the ring.
//!
//! `__tsan_read8(address)` and similar entries look up the number of their block by the return address, in a
//! table that all threads share, and write two words: the number and the address. All other cases go to
//! [`crate::access::slow`].
//!
//! An entry uses no stack, preserves `rdi`, and commits its record with its last store. So a signal handler
//! that interrupts it before that store can restart it ([`crate::signals`]). The section `refrain_stubs`
//! holds the first and last address of each entry.

use core::arch::{asm, global_asm};
use core::sync::atomic::AtomicU64;
use refrain_rings::layout::RingHead;

use crate::threads::Thread;

/// The state of a thread, in the static TLS block: one load away.
#[repr(C)]
pub struct ThreadBlock {
    /// The thread's ring; null while it records nothing.
    pub ring: *const RingHead,
    /// The rest of its state.
    pub thread: *mut Thread,
    /// The return address of the call in progress, for entries that continue in Rust.
    pub caller: usize,
    /// The stack pointer of that call.
    pub stack: usize,
    /// Not 0 while this thread is inside this library.
    pub busy: usize,
}

/// How many bits of a return address choose its slot in the table.
pub const TABLE_BITS: u32 = 18;

/// Blocks by return address: the address without its last [`TABLE_BITS`] in the upper half, the
/// number of the block in the lower.
pub static BLOCKS: [AtomicU64; 1 << TABLE_BITS] = [const { AtomicU64::new(0) }; 1 << TABLE_BITS];

global_asm!(
    ".pushsection .tbss.refrain_thread,\"awT\",@nobits",
    ".p2align 3",
    ".globl refrain_thread",
    ".hidden refrain_thread",
    ".type refrain_thread,@object",
    ".size refrain_thread,40",
    "refrain_thread:",
    ".zero 40",
    ".popsection",
);

/// This thread's block.
#[inline(always)]
pub fn thread_block() -> *mut ThreadBlock {
    let block;
    // SAFETY: reads the block's offset from the GOT and adds the thread pointer, which is at fs:0 on x86-64.
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

/// An entry for references of one size: its name, kind and size.
macro_rules! entries {
    ($($name:ident $kind:literal $size:literal)*) => {
        $(
            /// Called before a load or store.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(address: usize) {
                core::arch::naked_asm!(
                    "3:",
                    "mov r11, qword ptr [rip + refrain_thread@GOTTPOFF]",
                    "mov rdx, qword ptr [rsp]",
                    "mov rax, qword ptr fs:[r11]",
                    "lea rcx, [rip + {blocks}]",
                    "mov r8d, edx",
                    "and r8d, {mask}",
                    "shr rdx, {bits}",
                    "mov rcx, qword ptr [rcx + 8 * r8]",
                    "mov r10d, ecx",
                    "shr rcx, 32",
                    "test rax, rax",
                    "jz 2f",
                    "mov r8, qword ptr [rax]",
                    "lea r9, [r8 + 16]",
                    "cmp rcx, rdx",
                    "jne 2f",
                    "cmp r9, qword ptr [rax + 8]",
                    "ja 2f",
                    "mov qword ptr [r8], r10",
                    "mov qword ptr [r8 + 8], rdi",
                    "mov qword ptr [rax], r9",
                    "4:",
                    "ret",
                    "2:",
                    "cmp byte ptr [rip + {recording}], 0",
                    "je 4b",
                    "mov rsi, qword ptr [rsp]",
                    "mov edx, {form}",
                    "mov rcx, rsp",
                    "jmp {slow}",
                    ".pushsection refrain_stubs,\"awR\",@progbits",
                    ".quad 3b, 4b",
                    ".popsection",
                    blocks = sym BLOCKS,
                    bits = const TABLE_BITS,
                    mask = const (1 << TABLE_BITS) - 1,
                    form = const $kind * 65536 + $size,
                    recording = sym crate::process::RECORDING,
                    slow = sym crate::access::slow,
                )
            }
        )*
    };
}

entries! {
    __tsan_read1 0 1
    __tsan_read2 0 2
    __tsan_read4 0 4
    __tsan_read8 0 8
    __tsan_read16 0 16
    __tsan_write1 1 1
    __tsan_write2 1 2
    __tsan_write4 1 4
    __tsan_write8 1 8
    __tsan_write16 1 16
    __tsan_unaligned_read2 0 2
    __tsan_unaligned_read4 0 4
    __tsan_unaligned_read8 0 8
    __tsan_unaligned_read16 0 16
    __tsan_unaligned_write2 1 2
    __tsan_unaligned_write4 1 4
    __tsan_unaligned_write8 1 8
    __tsan_unaligned_write16 1 16
    __tsan_volatile_read1 0 1
    __tsan_volatile_read2 0 2
    __tsan_volatile_read4 0 4
    __tsan_volatile_read8 0 8
    __tsan_volatile_read16 0 16
    __tsan_volatile_write1 1 1
    __tsan_volatile_write2 1 2
    __tsan_volatile_write4 1 4
    __tsan_volatile_write8 1 8
    __tsan_volatile_write16 1 16
    __tsan_unaligned_volatile_read2 0 2
    __tsan_unaligned_volatile_read4 0 4
    __tsan_unaligned_volatile_read8 0 8
    __tsan_unaligned_volatile_read16 0 16
    __tsan_unaligned_volatile_write2 1 2
    __tsan_unaligned_volatile_write4 1 4
    __tsan_unaligned_volatile_write8 1 8
    __tsan_unaligned_volatile_write16 1 16
    __tsan_vptr_read 0 8
    __tsan_vptr_update 1 8
}

// The linker defines these symbols. They are not exported.
global_asm!(".hidden __start_refrain_stubs", ".hidden __stop_refrain_stubs");

unsafe extern "C" {
    #[link_name = "__start_refrain_stubs"]
    safe static STUBS_BEGIN: [usize; 2];
    #[link_name = "__stop_refrain_stubs"]
    safe static STUBS_END: [usize; 2];
}

/// The first address of the entry that an instruction belongs to, if its record is not committed yet.
pub fn interrupted(instruction: usize) -> Option<usize> {
    let (first, end) = (&raw const STUBS_BEGIN, &raw const STUBS_END);
    // SAFETY: the linker puts these symbols around the pairs of addresses that the entries define.
    let stubs = unsafe { core::slice::from_raw_parts(first, end.offset_from(first) as usize) };
    stubs.iter().find(|stub| (stub[0]..stub[1]).contains(&instruction)).map(|stub| stub[0])
}
