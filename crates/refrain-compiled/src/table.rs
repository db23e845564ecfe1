//! Hash tables from keys to numbers, in mapped memory.
//!
//! A signal may have interrupted the program's allocator, so tables do not use it. One thread at a time
//! inserts; others may look up concurrently. The old slots of a table that has grown stay mapped, because
//! another thread may still read them.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

/// Maps zeroed memory; null if there is none.
pub fn map(bytes: usize) -> *mut u8 {
    let (all, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
    let flags = private | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // The system call itself: this library interposes mmap.
    // SAFETY: a new mapping.
    let memory =
        unsafe { libc::syscall(libc::SYS_mmap, 0usize, bytes, all, flags, -1, 0usize) as *mut u8 };
    if memory as isize == -1 { null_mut() } else { memory }
}

/// Unmaps memory.
pub unsafe fn unmap(memory: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_munmap, memory, bytes) };
}

struct Slot {
    key: [AtomicU64; 3],
    /// One more than the number; 0 for a free slot.
    number: AtomicU64,
}

/// The slots of a table; they follow this head.
struct Slots {
    capacity: usize,
    used: usize,
}

const SLOTS_AT: usize = 64;

impl Slots {
    fn new(capacity: usize) -> *mut Self {
        let slots: *mut Self = map(SLOTS_AT + capacity * size_of::<Slot>()).cast();
        if !slots.is_null() {
            // SAFETY: just mapped.
            unsafe { (*slots).capacity = capacity };
        }
        slots
    }

    /// The slot of a key, or the free slot to insert it into.
    fn slot(&self, key: [u64; 3]) -> &Slot {
        let mut hash = 0u64;
        for part in key {
            hash = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        let mut at = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 20;
        loop {
            at &= self.capacity - 1;
            // SAFETY: `at` is below the capacity; a quarter of the slots is always free.
            let slot =
                unsafe { &*(&raw const *self).cast::<u8>().add(SLOTS_AT).cast::<Slot>().add(at) };
            if slot.number.load(Acquire) == 0 || slot.holds(key) {
                return slot;
            }
            at += 1;
        }
    }
}

impl Slot {
    fn holds(&self, key: [u64; 3]) -> bool {
        self.key.iter().zip(key).all(|(stored, part)| stored.load(Relaxed) == part)
    }

    fn set(&self, key: [u64; 3], number: u64) {
        self.key.iter().zip(key).for_each(|(stored, part)| stored.store(part, Relaxed));
        self.number.store(number, Release);
    }
}

/// A table.
pub struct Table {
    slots: AtomicPtr<Slots>,
}

impl Table {
    /// An empty table.
    pub const fn new() -> Self {
        Self { slots: AtomicPtr::new(null_mut()) }
    }

    /// The number of a key.
    pub fn get(&self, key: [u64; 3]) -> Option<u32> {
        // SAFETY: slots are never unmapped.
        let slots = unsafe { self.slots.load(Acquire).as_ref()? };
        let slot = slots.slot(key);
        slot.number.load(Acquire).checked_sub(1).map(|number| number as u32)
    }

    /// Sets the number of a new key; false if there is no memory. By one thread at a time.
    pub fn insert(&self, key: [u64; 3], number: u32) -> bool {
        let mut slots = self.slots.load(Relaxed);
        // SAFETY: slots are never unmapped, and only one thread inserts.
        if unsafe { slots.as_ref() }.is_none_or(|slots| slots.used * 4 >= slots.capacity * 3) {
            slots = Self::grown(slots);
            if slots.is_null() {
                return false;
            }
            self.slots.store(slots, Release);
        }
        // SAFETY: as above.
        let slots = unsafe { &mut *slots };
        slots.slot(key).set(key, u64::from(number) + 1);
        slots.used += 1;
        true
    }

    fn grown(old: *mut Slots) -> *mut Slots {
        // SAFETY: slots are never unmapped.
        let old = unsafe { old.as_ref() };
        let grown = Slots::new(old.map_or(1024, |old| old.capacity * 2));
        // SAFETY: just mapped, if at all.
        if let (Some(old), Some(new)) = (old, unsafe { grown.as_mut() }) {
            for at in 0..old.capacity {
                // SAFETY: below the capacity.
                let slot = unsafe {
                    &*(&raw const *old).cast::<u8>().add(SLOTS_AT).cast::<Slot>().add(at)
                };
                let number = slot.number.load(Relaxed);
                if number != 0 {
                    let key = slot.key.each_ref().map(|word| word.load(Relaxed));
                    new.slot(key).set(key, number);
                }
            }
            new.used = old.used;
        }
        grown
    }

    /// Empties the table.
    pub fn clear(&self) {
        self.slots.store(null_mut(), Release);
    }
}
