//! Requests and communicators of the program, by their handles.
//!
//! Only those are listed whose handles are theirs alone: receives. MPICH gives one handle to
//! several sends that were complete at once; such a handle is in no list, and nothing is to be
//! said of them.

use super::{line, mpi};
use refrain_bytes::table;
use refrain_order::Handles;

/// By handle, or address.
pub type Map<T> = table::Map<usize, T>;

/// Receives of the program by request handle.
pub struct Requests<T> {
    all: Handles<T>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { all: Handles::default() }
    }
}

impl<T> Requests<T> {
    /// Whether nothing is known of any.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    /// A request was made. If one of that handle is listed, it is gone.
    #[inline]
    pub fn add(&mut self, handle: usize, known: T) {
        if handle != mpi::request_null() {
            self.all.add(handle, known);
        }
    }

    /// What is known of a request.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        self.all.get(handle)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.all.get_mut(handle)
    }

    /// A request is gone.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        self.all.remove(handle)
    }

    /// All of them, with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter()
    }
}

/// Numbers of communicators, in the order of their first use, which is the same in every run
/// unless threads share them.
#[derive(Default)]
pub struct Comms {
    numbers: Map<u32>,
    count: u32,
    last: Option<(usize, u32)>,
}

impl Comms {
    /// A communicator's number.
    #[inline]
    pub fn number(&mut self, handle: usize) -> u32 {
        match self.last {
            Some((last, number)) if last == handle => number,
            _ => self.look_up(handle),
        }
    }

    fn look_up(&mut self, handle: usize) -> u32 {
        let number = *self.numbers.entry(handle).or_insert_with(|| {
            if line::is_shared() {
                return line::communicator(handle).unwrap_or(0);
            }
            self.count += 1;
            self.count - 1
        });
        self.last = Some((handle, number));
        number
    }

    /// A communicator is gone; another may get its handle.
    pub fn remove(&mut self, handle: usize) {
        self.numbers.remove(&handle);
        self.last = None;
    }
}
