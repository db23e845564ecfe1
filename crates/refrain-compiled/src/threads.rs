//! Threads: their numbers, rings and stacks.
//!
//! The creating thread assigns the number of a new thread. So numbers are in the order of creation, and
//! OpenMP's static schedules are functions of them.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use refrain_rings::producer::Ring;
use refrain_rings::record::Record;

use crate::calls::Frame;
use crate::hot::{ThreadBlock, thread_block};
use crate::next::Next;
use crate::process::{self, Locked};
use crate::table::{map, unmap};

const STACK_SEGMENT: u32 = 2;
/// The maximum number of frames of a shadow stack.
pub const FRAMES: usize = 1 << 17;
/// Remembered calls of a thread.
pub const CALLS: usize = 1 << 10;

/// The recording state of a thread.
pub struct Thread {
    /// Its ring.
    pub ring: Ring,
    /// Its number.
    pub number: u32,
    ring_index: usize,
    /// Functions that were entered and not left; [`FRAMES`] of them.
    pub frames: *mut Frame,
    /// The number of frames.
    pub depth: usize,
    /// Frames below this index belong to functions that a signal has interrupted.
    pub floor: usize,
    /// A jump may have left functions: frames must be compared with the stack pointer.
    pub jumped: bool,
    /// Contexts found before, by (parent, call, function).
    pub calls: [([u64; 3], u32); CALLS],
}

/// The key whose destructor ends a thread; `u32::MAX` before it is created.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Starts recording a thread; null if that is impossible.
#[cold]
pub fn begin(
    block: *mut ThreadBlock,
    number: Option<u32>,
    stack: Option<(usize, usize)>,
) -> *mut Thread {
    let number = number.unwrap_or_else(process::next_thread);
    let thread: *mut Thread = map(size_of::<Thread>()).cast();
    let frames: *mut Frame = map(FRAMES * size_of::<Frame>()).cast();
    if thread.is_null() || frames.is_null() {
        return null_mut();
    }
    let mut locked = Locked::new();
    let Some(shared) = locked.shared() else { return null_mut() };
    let Some((ring, ring_index)) = shared.add_ring(number) else {
        process::say(b"refrain: too many threads at once; one of them is not recorded\n");
        return null_mut();
    };
    if let Some((base, size)) = stack {
        let (base, size) = (base as u64, size as u64);
        shared.append(&Record::Segment { kind: STACK_SEGMENT, owner: number, base, size });
    }
    drop(locked);
    // SAFETY: mapped with that size; zeros are valid in `calls`.
    unsafe {
        (&raw mut (*thread).ring).write(ring);
        (*thread).number = number;
        (*thread).ring_index = ring_index;
        (*thread).frames = frames;
        (*block).thread = thread;
        (*block).ring = (*thread).ring.head();
        libc::pthread_setspecific(key(), thread.cast());
    }
    thread
}

/// The key whose destructor ends a thread.
fn key() -> libc::pthread_key_t {
    let known = KEY.load(Relaxed);
    if known != u32::MAX {
        return known;
    }
    let mut key = 0;
    // SAFETY: creates a key; if two threads do so at once, one key stays unused.
    unsafe { libc::pthread_key_create(&mut key, Some(end)) };
    match KEY.compare_exchange(u32::MAX, key, Relaxed, Relaxed) {
        Ok(_) => key,
        Err(other) => other,
    }
}

/// Ends a thread: publishes its words and frees its ring.
unsafe extern "C" fn end(thread: *mut c_void) {
    let block = thread_block();
    // SAFETY: the block belongs to this thread.
    unsafe {
        if (*block).thread != thread.cast() {
            return;
        }
        (*block).busy = 1;
        finish(block);
        (*block).busy = 0;
    }
}

/// Ends the recording of a thread's block.
pub unsafe fn finish(block: *mut ThreadBlock) {
    // SAFETY: the block belongs to this thread, and no other thread knows the memory.
    unsafe {
        let thread = (*block).thread;
        if thread.is_null() {
            return;
        }
        (*block).ring = core::ptr::null();
        (*block).thread = null_mut();
        if let Some(ledger) = process::ledger() {
            if let Err(gone) = (*thread).ring.publish(&ledger) {
                process::lost(gone);
            }
            let is_drained = wait_until_drained(&(*thread).ring);
            if let Some(shared) = Locked::new().shared() {
                shared.end_ring((*thread).number, (*thread).ring_index, is_drained);
            }
        }
        unmap((*thread).frames.cast(), FRAMES * size_of::<Frame>());
        unmap(thread.cast(), size_of::<Thread>());
    }
}

/// A ring that is not drained within this time is not reused.
fn wait_until_drained(ring: &Ring) -> bool {
    for _ in 0..200 {
        if ring.is_drained() {
            return true;
        }
        // SAFETY: sleeps.
        unsafe { libc::usleep(50) };
    }
    ring.is_drained()
}

/// The initial thread has number 0, and is recorded from the start.
pub fn adopt_main() {
    begin(thread_block(), Some(0), main_stack());
}

/// The initial thread's stack. Its address is random, and the environment takes a different part of it in
/// each process, so the segment starts where the program's own frames do.
fn main_stack() -> Option<(usize, usize)> {
    // The kernel keeps at least twice as much address space free below a stack.
    const BELOW: usize = 1 << 26;
    let here = main_frame();
    let first = here.checked_sub(BELOW)?;
    Some((first, BELOW + (1 << 23)))
}

/// The approximate frame of `main`: the frame of its caller in the C library.
fn main_frame() -> usize {
    unsafe extern "C" {
        static __libc_stack_end: *mut c_void;
    }
    // SAFETY: a variable of the loader.
    unsafe { __libc_stack_end as usize }
}

/// The end of the process: publishes the words of its last thread.
pub fn finish_main() {
    let block = thread_block();
    // SAFETY: the block belongs to this thread.
    unsafe {
        (*block).busy = 1;
        if let (Some(ledger), Some(thread)) = (process::ledger(), (*block).thread.as_mut())
            && let Err(gone) = thread.ring.publish(&ledger)
        {
            process::lost(gone);
        }
        (*block).ring = core::ptr::null();
        (*block).thread = null_mut();
        (*block).busy = 0;
    }
}

/// In a forked child: forgets the ring, which belongs to its parent.
pub unsafe fn forget() {
    let block = thread_block();
    // SAFETY: the block belongs to this thread.
    unsafe {
        (*block).ring = core::ptr::null();
        (*block).thread = null_mut();
    }
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> c_int;
static CREATE: Next<Create> = Next::new(c"pthread_create");

struct NewThread {
    start: Start,
    argument: *mut c_void,
    number: u32,
}

extern "C" fn start_thread(argument: *mut c_void) -> *mut c_void {
    // SAFETY: allocated in `pthread_create` below, for this thread alone.
    let (start, argument) = unsafe {
        let NewThread { start, argument: original, number } = argument.cast::<NewThread>().read();
        unmap(argument.cast(), size_of::<NewThread>());
        let block = thread_block();
        (*block).busy = 1;
        if process::ledger().is_some() {
            begin(block, Some(number), current_stack());
        }
        (*block).busy = 0;
        (start, original)
    };
    start(argument)
}

/// This thread's stack, according to the C library.
fn current_stack() -> Option<(usize, usize)> {
    // SAFETY: a query about this thread; the attributes are destroyed again.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut base, mut size) = (null_mut(), 0);
        let got = libc::pthread_attr_getstack(&attributes, &mut base, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        (got == 0).then_some((base as usize, size))
    }
}

/// A thread is created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(create) = CREATE.get() else { return libc::EAGAIN };
    let new_thread: *mut NewThread =
        if process::ledger().is_some() { map(size_of::<NewThread>()).cast() } else { null_mut() };
    // SAFETY: the caller's promise; the new thread frees the memory.
    unsafe {
        if new_thread.is_null() {
            return create(thread, attributes, start, argument);
        }
        new_thread.write(NewThread { start, argument, number: process::next_thread() });
        let result = create(thread, attributes, start_thread, new_thread.cast());
        if result != 0 {
            unmap(new_thread.cast(), size_of::<NewThread>());
        }
        result
    }
}
