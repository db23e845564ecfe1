//! The slow path: the first reference of a thread or of an instruction, references of any size, ranges.

use core::arch::naked_asm;
use core::sync::atomic::Ordering::Relaxed;
use refrain_rings::record::Reference;

use crate::calls;
use crate::hot::{BLOCKS, TABLE_BITS, ThreadBlock, thread_block};
use crate::process::{self, Locked, is_recording};
use crate::threads::{self, Thread};
use crate::{modules, process::BLOCKS as ALL_BLOCKS};

/// Kinds of references, as the ledger has them.
pub const LOAD: u32 = 0;
/// A store.
pub const STORE: u32 = 1;
/// An atomic load and store.
pub const ATOMIC: u32 = 2;
/// A load and a store of the same address: two references.
const BOTH: u32 = 3;

/// Ranges of up to this many sizes have a block each; further ranges are split into powers of two.
const MAX_SIZES: u32 = 1024;

/// This thread's state, if it records. The state is marked as busy until [`leave`].
#[inline(always)]
pub fn enter() -> Option<(*mut ThreadBlock, &'static mut Thread)> {
    let block = thread_block();
    // SAFETY: the block belongs to this thread.
    unsafe {
        if (*block).busy != 0 || !is_recording() {
            return None;
        }
        (*block).busy = 1;
        let mut thread = (*block).thread;
        if thread.is_null() {
            thread = threads::begin(block, None, None);
        }
        match thread.as_mut() {
            Some(thread) => {
                (*block).ring = thread.ring.head();
                Some((block, thread))
            }
            None => {
                (*block).busy = 0;
                None
            }
        }
    }
}

/// Ends what [`enter`] began.
#[inline(always)]
pub fn leave(block: *mut ThreadBlock) {
    // SAFETY: the block belongs to this thread.
    unsafe {
        (*block).busy = 0;
        if !is_recording() {
            (*block).ring = core::ptr::null();
        }
    }
}

/// Appends a record to the thread's stream.
#[inline(always)]
pub fn push(thread: &mut Thread, words: &[u64]) {
    if let Some(ledger) = process::ledger()
        && let Err(gone) = thread.ring.push(words, &ledger)
    {
        process::lost(gone);
    }
}

/// Records a reference whose block the hot path did not find, or for which the chunk has no room.
pub unsafe extern "C" fn slow(address: u64, pc: u64, form: u32, stack: usize) {
    record(address, pc, form >> 16, u64::from(form & 0xffff), stack);
}

/// Records a reference.
pub fn record(address: u64, pc: u64, kind: u32, size: u64, stack: usize) {
    let Some((block, thread)) = enter() else { return };
    if thread.jumped {
        calls::correct(thread, stack);
    }
    let number = block_of(pc, kind, size as u32);
    if kind == BOTH {
        push(thread, &[number.into(), address, address]);
    } else {
        push(thread, &[number.into(), address]);
    }
    leave(block);
}

/// The number of a block.
#[expect(clippy::indexing_slicing, reason = "masked to the length")]
fn block_of(pc: u64, kind: u32, size: u32) -> u32 {
    let key = [pc, u64::from(kind) << 32 | u64::from(size), 0];
    let number = ALL_BLOCKS.get(key).unwrap_or_else(|| new_block(key, kind, size));
    if kind < ATOMIC && size <= 16 {
        let entry = pc >> TABLE_BITS << 32 | u64::from(number);
        BLOCKS[pc as usize & ((1 << TABLE_BITS) - 1)].store(entry, Relaxed);
    }
    number
}

#[cold]
fn new_block(key: [u64; 3], kind: u32, size: u32) -> u32 {
    let mut locked = Locked::new();
    let Some(shared) = locked.shared() else { return 0 };
    if let Some(number) = ALL_BLOCKS.get(key) {
        return number;
    }
    // The return address lies after the call instruction, and may belong to the next source line.
    let pc = modules::pc_of(key[0] - 1, shared);
    let reference = |kind| Reference { pc, size, kind }.to_bytes();
    let number = match kind {
        BOTH => shared.add_block(&[reference(LOAD), reference(STORE)].concat()),
        kind => shared.add_block(&reference(kind)),
    };
    ALL_BLOCKS.insert(key, number);
    number
}

/// Records a range of bytes.
pub fn range(address: u64, size: u64, pc: u64, kind: u32, stack: usize) {
    use core::sync::atomic::AtomicU32;
    static SIZES: AtomicU32 = AtomicU32::new(0);
    let is_known = |size| ALL_BLOCKS.get([pc, u64::from(kind) << 32 | size, 0]).is_some();
    let mut left = size;
    let mut at = address;
    while left > 0 {
        let mut piece = left.min(1 << 30);
        if !is_known(piece) && SIZES.fetch_add(1, Relaxed) >= MAX_SIZES {
            piece = 1 << piece.ilog2();
        }
        record(at, pc, kind, piece, stack);
        at += piece;
        left -= piece;
    }
}

/// Defines entries that continue in Rust: they save the return address and the stack pointer for [`caller`].
macro_rules! entry {
    ($name:ident => $to:path) => {
        /// Called by compilers.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov r11, qword ptr [rip + refrain_thread@GOTTPOFF]",
                "mov rax, qword ptr [rsp]",
                "mov qword ptr fs:[r11 + 16], rax",
                "mov qword ptr fs:[r11 + 24], rsp",
                "jmp {to}",
                to = sym $to,
            )
        }
    };
}
pub(crate) use entry;

/// The return address and the stack pointer of the call in progress.
#[inline(always)]
pub fn caller() -> (u64, usize) {
    let block = thread_block();
    // SAFETY: the block belongs to this thread.
    unsafe { ((*block).caller as u64, (*block).stack) }
}

unsafe extern "C" fn read_range(address: u64, size: u64) {
    let (pc, stack) = caller();
    range(address, size, pc, LOAD, stack);
}

unsafe extern "C" fn write_range(address: u64, size: u64) {
    let (pc, stack) = caller();
    range(address, size, pc, STORE, stack);
}

entry!(__tsan_read_range => read_range);
entry!(__tsan_write_range => write_range);

/// Entries that load and store one address.
macro_rules! both {
    ($($name:ident $size:literal)*) => {
        $(
            /// Called before a load and a store of the same address.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(address: u64) {
                naked_asm!(
                    "mov rsi, qword ptr [rsp]",
                    "mov edx, {form}",
                    "mov rcx, rsp",
                    "jmp {slow}",
                    form = const BOTH * 65536 + $size,
                    slow = sym slow,
                )
            }
        )*
    };
}

both! {
    __tsan_read_write1 1
    __tsan_read_write2 2
    __tsan_read_write4 4
    __tsan_read_write8 8
    __tsan_read_write16 16
    __tsan_unaligned_read_write2 2
    __tsan_unaligned_read_write4 4
    __tsan_unaligned_read_write8 8
    __tsan_unaligned_read_write16 16
}
