//! The program's requests and communicators, by handle.
//!
//! Only receives are listed: their handles are unique. MPICH gives the same handle to several sends that
//! complete immediately; nothing needs to be known about those.

use super::{mpi, thread_level, turn_key};
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
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a request. An entry with the same handle is replaced: that request no longer exists.
    #[inline]
    pub fn add(&mut self, handle: usize, receive: T) {
        if handle != mpi::request_null() {
            self.all.add(handle, receive);
        }
    }

    /// The receive with this handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        self.all.get(handle)
    }

    /// The receive with this handle, mutably.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.all.get_mut(handle)
    }

    /// Removes a request.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        self.all.remove(handle)
    }

    /// All receives with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter()
    }
}

/// Numbers of communicators, in the order of their first use. That order is the same in every run unless
/// threads call MPI concurrently; then [`turn_key::communicator`] gives the number.
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
            if thread_level::is_multiple() {
                return turn_key::communicator(handle).unwrap_or(0);
            }
            self.count += 1;
            self.count - 1
        });
        self.last = Some((handle, number));
        number
    }

    /// Removes a freed communicator; another one may get its handle.
    pub fn remove(&mut self, handle: usize) {
        self.numbers.remove(&handle);
        self.last = None;
    }
}
