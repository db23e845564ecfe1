//! A bounded queue with one producer and one consumer.
//!
//! The program's thread puts events in, the encoder takes them out (Sato et al., §4.2). There are no locks and no
//! wake-ups: putting an event in takes a store and no system call. If the queue is full the program waits; if it is
//! empty the encoder sleeps for a moment.

use std::mem::MaybeUninit;

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
#[cfg(not(loom))]
use std::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Gives what each side writes its own cache lines.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// How many elements were put in, modulo 2^64: written by the sender.
    put: Apart<AtomicUsize>,
    /// How many were taken out: written by the receiver.
    taken: Apart<AtomicUsize>,
    /// One side is gone.
    closed: AtomicBool,
}

// SAFETY: the sender accesses a slot while it is free, the receiver while it is not; the counters pass it on.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; elements are sent from one thread to another.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn slot(&self, count: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // A power of two, so that counting may wrap around.
        &self.slots[count & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (taken, put) =
            (self.taken.0.load(Ordering::Relaxed), self.put.0.load(Ordering::Relaxed));
        for count in 0..put.wrapping_sub(taken) {
            read(self.slot(taken.wrapping_add(count)), |slot| {
                // SAFETY: there are elements between the counters, and both ends are gone.
                drop(unsafe { (*slot).assume_init_read() });
            });
        }
    }
}

#[cfg(not(loom))]
fn read<T, R>(cell: &UnsafeCell<T>, with: impl FnOnce(*const T) -> R) -> R {
    with(cell.get())
}

#[cfg(not(loom))]
fn write<T, R>(cell: &UnsafeCell<T>, with: impl FnOnce(*mut T) -> R) -> R {
    with(cell.get())
}

#[cfg(loom)]
fn read<T, R>(cell: &UnsafeCell<T>, with: impl FnOnce(*const T) -> R) -> R {
    cell.with(with)
}

#[cfg(loom)]
fn write<T, R>(cell: &UnsafeCell<T>, with: impl FnOnce(*mut T) -> R) -> R {
    cell.with_mut(with)
}

/// The end where elements are put in.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
    /// This side's count, and the last known value of the other's.
    put: usize,
    taken: usize,
}

/// The end where they are taken out.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    taken: usize,
    put: usize,
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("put", &self.put).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("taken", &self.taken).finish_non_exhaustive()
    }
}

/// Why an element was not put in, with the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The queue is full.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// A queue for at least `capacity` elements.
pub fn queue<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let slots = (0..capacity.max(1).next_power_of_two())
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let shared = Arc::new(Shared {
        slots,
        put: Apart(AtomicUsize::new(0)),
        taken: Apart(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
    });
    let sender = Sender { shared: shared.clone(), put: 0, taken: 0 };
    (sender, Receiver { shared, taken: 0, put: 0 })
}

impl<T> Sender<T> {
    /// Puts an element in, if there is room.
    pub fn offer(&mut self, element: T) -> Result<(), Refused<T>> {
        let capacity = self.shared.slots.len();
        if self.put.wrapping_sub(self.taken) == capacity {
            self.taken = self.shared.taken.0.load(Ordering::Acquire);
            if self.put.wrapping_sub(self.taken) == capacity {
                let closed = self.shared.closed.load(Ordering::Relaxed);
                return Err(if closed { Refused::Closed(element) } else { Refused::Full(element) });
            }
        }
        write(self.shared.slot(self.put), |slot| {
            // SAFETY: the slot is free: the receiver has counted its last element, and does not access it before
            // the sender counts the new one.
            unsafe { (*slot).write(element) };
        });
        self.put = self.put.wrapping_add(1);
        self.shared.put.0.store(self.put, Ordering::Release);
        Ok(())
    }

    /// Puts an element in, and waits for room. Returns the element if the receiver is gone.
    #[cfg(not(loom))]
    pub fn put(&mut self, mut element: T) -> Result<(), T> {
        for tries in 0u32.. {
            element = match self.offer(element) {
                Ok(()) => return Ok(()),
                Err(Refused::Closed(element)) => return Err(element),
                Err(Refused::Full(element)) => element,
            };
            rest(tries);
        }
        Err(element)
    }
}

/// Waits, the longer the more tries were made.
#[cfg(not(loom))]
fn rest(tries: u32) {
    match tries {
        0..16 => std::hint::spin_loop(),
        16..32 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50 << (tries - 32).min(4))),
    }
}

impl<T> Receiver<T> {
    /// Takes the next element out, if there is one.
    pub fn poll(&mut self) -> Option<T> {
        if self.taken == self.put {
            self.put = self.shared.put.0.load(Ordering::Acquire);
            if self.taken == self.put {
                return None;
            }
        }
        let element = read(self.shared.slot(self.taken), |slot| {
            // SAFETY: the sender has put an element here and counted it; only this receiver takes it.
            unsafe { (*slot).assume_init_read() }
        });
        self.taken = self.taken.wrapping_add(1);
        self.shared.taken.0.store(self.taken, Ordering::Release);
        Some(element)
    }

    /// Whether the sender is gone and the queue is empty.
    pub fn is_over(&mut self) -> bool {
        // `closed` is loaded first: everything that was put in before is visible then.
        self.shared.closed.load(Ordering::Acquire)
            && self.shared.put.0.load(Ordering::Acquire) == self.taken
    }

    /// Takes the next element out, and waits for it. `None` if the sender is gone.
    #[cfg(not(loom))]
    pub fn take(&mut self) -> Option<T> {
        for tries in 0u32.. {
            if let Some(element) = self.poll() {
                return Some(element);
            }
            if self.is_over() {
                return None;
            }
            rest(tries);
        }
        None
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}
