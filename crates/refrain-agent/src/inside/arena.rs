//! The agent's allocator.
//!
//! The encoder allocates while the program is inside an MPI call, where a signal handler of the
//! program may jump away. If that left the C library's allocator locked, the program itself would
//! hang at its next `malloc`. So the agent takes memory from the kernel directly: blocks in powers
//! of two, and a mapping for each larger block. That also leaves the program's heap as it would be
//! without the agent.
//!
//! If the lock is not available, because a handler jumped out of the agent or has interrupted it,
//! each block is a mapping of its own.

use crate::inside::abandon::Abandonable;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::time::Duration;

/// The smallest block.
const SMALLEST: usize = 16;
/// Larger blocks are mappings.
const LARGEST: usize = 32 << 10;
const CLASSES: usize = (LARGEST / SMALLEST).trailing_zeros() as usize + 1;
/// Blocks are cut from mappings of this size.
const CHUNK: usize = 256 << 10;
const PAGE: usize = 4096;

/// Another thread holds the lock for less than a microsecond, unless `siglongjmp` abandoned it.
const PATIENCE: Duration = Duration::from_millis(20);

struct Blocks {
    /// For each size class the first free block, which holds the address of the next one.
    free: [*mut u8; CLASSES],
    /// The rest of the last chunk.
    at: usize,
    end: usize,
}

/// The agent's allocator.
pub struct Arena {
    lock: Abandonable,
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: only the holder of the lock uses the blocks.
unsafe impl Sync for Arena {}

/// Memory from the kernel by a direct system call, because `mmap` may be interposed; null if there
/// is none.
fn map(bytes: usize) -> *mut u8 {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: maps new memory. An allocation must not change errno, so it is restored.
    unsafe {
        let errno = *libc::__errno_location();
        let at = libc::syscall(libc::SYS_mmap, 0usize, bytes, access, kind, -1isize, 0usize);
        *libc::__errno_location() = errno;
        if at == -1 { null_mut() } else { at as *mut u8 }
    }
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

/// The size class of a block for this layout; `None` if the block is a mapping.
fn class(layout: &Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST);
    (size <= LARGEST).then(|| (size.next_power_of_two() / SMALLEST).trailing_zeros() as usize)
}

impl Arena {
    /// An empty allocator.
    pub const fn new() -> Arena {
        let blocks = Blocks { free: [null_mut(); CLASSES], at: 0, end: 0 };
        Arena { lock: Abandonable::new(), blocks: UnsafeCell::new(blocks) }
    }

    /// Whether a block for this layout is a mapping of its own.
    pub fn is_mapping(layout: &Layout) -> bool {
        class(layout).is_none()
    }

    /// Allocates memory, which is not always zero; null if there is none.
    #[expect(clippy::indexing_slicing, reason = "`class` is less than the length")]
    pub fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(&layout) else {
            let aligned = layout.align() <= PAGE;
            return if aligned { map(pages(layout.size())) } else { null_mut() };
        };
        let size = SMALLEST << class;
        let Some(_held) = self.lock.take(PATIENCE) else {
            return map(pages(size));
        };
        // SAFETY: the lock is held; free blocks hold the next one's address.
        unsafe {
            let blocks = &mut *self.blocks.get();
            let first = blocks.free[class];
            if !first.is_null() {
                blocks.free[class] = first.cast::<*mut u8>().read();
                return first;
            }
            // Blocks are aligned to their size.
            let mut at = blocks.at.next_multiple_of(size);
            if at + size > blocks.end {
                let chunk = map(CHUNK) as usize;
                if chunk == 0 {
                    return null_mut();
                }
                (at, blocks.end) = (chunk.next_multiple_of(size), chunk + CHUNK);
            }
            blocks.at = at + size;
            at as *mut u8
        }
    }

    /// Frees memory.
    ///
    /// # Safety
    /// This allocator must have allocated it with this layout.
    #[expect(clippy::indexing_slicing, reason = "`class` is less than the length")]
    pub unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let Some(class) = class(&layout) else {
            // SAFETY: a mapping of that size.
            unsafe { libc::syscall(libc::SYS_munmap, at, pages(layout.size())) };
            return;
        };
        let Some(_held) = self.lock.take(PATIENCE) else { return };
        // SAFETY: the lock is held; the block is free, and large enough for an address.
        unsafe {
            let blocks = &mut *self.blocks.get();
            at.cast::<*mut u8>().write(blocks.free[class]);
            blocks.free[class] = at;
        }
    }

    /// Resizes a mapping, in place or by moving it. Returns null if the old or new block is not a
    /// mapping, or if the kernel refuses.
    ///
    /// # Safety
    /// This allocator must have allocated it with this layout.
    pub unsafe fn remap(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let new = Layout::from_size_align(size, layout.align());
        if class(&layout).is_some() || !new.is_ok_and(|new| class(&new).is_none()) {
            return null_mut();
        }
        // SAFETY: a mapping of that size.
        let moved = unsafe {
            let (old, new) = (pages(layout.size()), pages(size));
            libc::syscall(libc::SYS_mremap, at, old, new, libc::MREMAP_MAYMOVE)
        };
        if moved == -1 { null_mut() } else { moved as *mut u8 }
    }
}
