//! Functions entered and left: the tree of stack signatures (ScalaMemTrace §4.1).
//!
//! Each thread keeps a shadow stack: the contexts of the functions it is in, with their stack pointers. A
//! function that was left by an exception or `longjmp` does not report its end; its frame lies below the
//! current stack pointer, and is dropped then. A recursive call gets the node of the same call further up
//! in the tree, so recursion does not grow the tree.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::access::{caller, enter, entry, leave, push};
use crate::hot::thread_block;
use crate::next::Next;
use crate::process::{self, CONTEXTS, Locked};
use crate::table::Table;
use crate::threads::{CALLS, FRAMES, Thread};
use crate::{modules, window};

/// A function that was entered.
#[derive(Clone, Copy)]
pub struct Frame {
    /// The stack pointer at its call.
    stack: usize,
    /// Its return address.
    call: u64,
    /// Its context.
    context: u64,
}

/// The context of threads that are in no recorded function.
const ROOT: u32 = 0;
/// When there are this many contexts, further calls get the context of their caller.
const MAX_CONTEXTS: u32 = 1 << 16;
/// A thread that leaves its outermost function publishes its words, if there are at least this many.
const WORTH_PUBLISHING: u64 = 8 * 64;

/// Parents, calls and functions by context: (context, 0, n) for n = 0, 1, 2.
static NODES: Table = Table::new();
static CONTEXT_COUNT: AtomicU32 = AtomicU32::new(0);

impl Thread {
    fn frame(&self, at: usize) -> Frame {
        // SAFETY: callers pass an index below `depth`, and frames are mapped that far.
        unsafe { *self.frames.add(at) }
    }

    /// The context that the thread is in.
    pub fn context(&self) -> u32 {
        match self.depth {
            0 => ROOT,
            depth => self.frame(depth.min(FRAMES) - 1).context as u32,
        }
    }

    /// Removes the innermost frames that `is_gone` accepts. Returns the last of them.
    fn remove_frames(&mut self, is_gone: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let mut last = None;
        while self.depth > self.floor && self.depth <= FRAMES {
            let frame = self.frame(self.depth - 1);
            if !is_gone(&frame) {
                break;
            }
            self.depth -= 1;
            last = Some(frame);
        }
        last
    }
}

/// After a jump: drops the frames of functions that were left, and records the current context.
pub fn correct(thread: &mut Thread, stack: usize) {
    thread.jumped = false;
    if thread.remove_frames(|frame| frame.stack < stack).is_some() {
        let context = thread.context();
        push(thread, &[context.into()]);
    }
}

unsafe extern "C" fn entered(call: u64) {
    let (function, stack) = caller();
    window::entered(function);
    let Some((block, thread)) = enter() else { return };
    thread.jumped = false;
    thread.remove_frames(|frame| frame.stack <= stack);
    let parent = thread.context();
    let context = context_of(thread, parent, call, function);
    if thread.depth < FRAMES {
        // SAFETY: below the mapped number of frames.
        unsafe {
            *thread.frames.add(thread.depth) = Frame { stack, call, context: context.into() };
        }
    }
    thread.depth += 1;
    push(thread, &[context.into()]);
    leave(block);
}

unsafe extern "C" fn exited() {
    let (returns_to, stack) = caller();
    let Some((block, thread)) = enter() else { return };
    if thread.depth > FRAMES {
        thread.depth -= 1;
        return leave(block);
    }
    // A function that ends by a jump here is above the stack pointer already, like those that were left
    // without a report; but its return address is still its own.
    let gone = thread.remove_frames(|frame| frame.stack < stack);
    if gone.is_none_or(|frame| frame.call != returns_to) && thread.depth > thread.floor {
        thread.depth -= 1;
    }
    let context = thread.context();
    push(thread, &[context.into()]);
    if thread.depth == 0 && thread.number != 0 {
        publish(thread);
    }
    leave(block);
}

/// Most likely the end of a parallel region: publishes, so that the thread's references are separate from
/// later uses of the same memory.
fn publish(thread: &mut Thread) {
    let head = thread.ring.head();
    let written = head.at.load(Relaxed).wrapping_sub(head.first.load(Relaxed));
    if written >= WORTH_PUBLISHING
        && let Some(ledger) = process::ledger()
        && let Err(gone) = thread.ring.publish(&ledger)
    {
        process::lost(gone);
    }
}

entry!(__tsan_func_entry => entered);
entry!(__tsan_func_exit => exited);

/// The context of a call.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
fn context_of(thread: &mut Thread, parent: u32, call: u64, function: u64) -> u32 {
    let key = [parent.into(), call, function];
    let hash = (call ^ (call >> 12)).wrapping_add(u64::from(parent).wrapping_mul(0x9e5));
    let at = (hash ^ function) as usize % CALLS;
    if thread.calls[at].0 == key {
        return thread.calls[at].1;
    }
    let context = CONTEXTS.get(key).unwrap_or_else(|| new_context(key));
    thread.calls[at] = (key, context);
    context
}

#[cold]
fn new_context(key: [u64; 3]) -> u32 {
    let [parent, call, function] = key;
    let mut locked = Locked::new();
    let Some(shared) = locked.shared() else { return ROOT };
    if let Some(context) = CONTEXTS.get(key) {
        return context;
    }
    let context = match ancestor(parent as u32, call, function) {
        Some(known) => known,
        None if CONTEXT_COUNT.fetch_add(1, Relaxed) >= MAX_CONTEXTS => parent as u32,
        None => {
            let (call_pc, function_pc) =
                (modules::pc_of(call, shared), modules::pc_of(function, shared));
            let context = shared.add_context(parent as u32, call_pc, function_pc);
            let node = u64::from(context);
            NODES.insert([node, call, function], parent as u32);
            NODES.insert([node, 0, 0], parent as u32);
            context
        }
    };
    CONTEXTS.insert(key, context);
    context
}

/// The node of the same call further up, if there is one: recursion.
fn ancestor(parent: u32, call: u64, function: u64) -> Option<u32> {
    let mut node = parent;
    for _ in 0..FRAMES {
        if node == ROOT {
            return None;
        }
        if NODES.get([node.into(), call, function]).is_some() {
            return Some(node);
        }
        node = NODES.get([node.into(), 0, 0])?;
    }
    None
}

/// Forgets all contexts.
pub fn forget() {
    NODES.clear();
    CONTEXT_COUNT.store(0, Relaxed);
}

/// Notes a jump out of functions. The next reference finds out which ones were left.
extern "C" fn note_jump() {
    let block = thread_block();
    // SAFETY: the block belongs to this thread.
    unsafe {
        if let Some(thread) = (*block).thread.as_mut() {
            thread.jumped = true;
            thread.floor = 0;
            (*block).busy = 0;
            // Leaves the hot path until the next reference.
            (*block).ring = core::ptr::null();
        }
    }
}

type Jump = unsafe extern "C" fn(*mut u8, c_int) -> !;

macro_rules! jumping {
    ($($name:ident $next:ident $text:literal)*) => {
        $(
            static $next: Next<Jump> = Next::new($text);
            /// As in the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(buffer: *mut u8, value: c_int) -> ! {
                note_jump();
                match $next.get() {
                    // SAFETY: the caller's promise.
                    Some(next) => unsafe { next(buffer, value) },
                    // SAFETY: every C library has the function, so this is unreachable.
                    None => unsafe { libc::abort() },
                }
            }
        )*
    };
}

jumping! {
    longjmp LONGJMP c"longjmp"
    _longjmp LONGJMP_BARE c"_longjmp"
    siglongjmp SIGLONGJMP c"siglongjmp"
    __longjmp_chk LONGJMP_CHECKED c"__longjmp_chk"
}
