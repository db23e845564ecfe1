//! The requests of a completing call, and its outcome.

use crate::inside::memory::Statuses;
use refrain_order::{Choice, Completed, Kind};
use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::mpi::{self, Status};
use super::role::{Hooked, Role};

/// How many statuses fit without an allocation.
const FEW: usize = 16;
/// How many requests do. Fewer, because they are moved.
const FEW_REQUESTS: usize = 8;

/// The request handles before a call; MPI sets those that complete to null.
///
/// If `longjmp` leaves the call, the allocation for many requests leaks.
pub struct Requests {
    few: [MaybeUninit<usize>; FEW_REQUESTS],
    many: Vec<usize>,
    count: usize,
}

impl Requests {
    /// The requests of a call.
    #[inline(always)]
    pub fn of(call: &Hooked<'_>, kind: Kind) -> Requests {
        let few = [const { MaybeUninit::uninit() }; FEW_REQUESTS];
        let mut requests = Requests { few, many: Vec::new(), count: 1 };
        if kind == Kind::GetStatus {
            requests.few[0].write(mpi::handle(call.word(call.role.request)));
            return requests;
        }
        let (at, n) = call.requests();
        requests.count = n;
        // SAFETY: by the interface table, the argument points to that many handles of that size.
        unsafe {
            match call.abi.handle_bytes {
                4 => requests.read(n, at.cast::<u32>(), |handle| handle as usize),
                _ => requests.read(n, at.cast::<usize>(), |handle| handle),
            }
        }
        requests
    }

    /// Reads handles of one size.
    ///
    /// # Safety
    /// `at` must point to `n` handles; Fortran does not guarantee alignment.
    #[inline(always)]
    unsafe fn read<T: Copy>(&mut self, n: usize, at: *const T, word: fn(T) -> usize) {
        // SAFETY: the caller's promise.
        let handle = |i: usize| word(unsafe { at.add(i).read_unaligned() });
        match self.few.get_mut(..n) {
            Some(few) => few.iter_mut().enumerate().for_each(|(i, slot)| {
                slot.write(handle(i));
            }),
            None => self.many = (0..n).map(handle).collect(),
        }
    }

    /// All handles.
    #[inline(always)]
    pub fn all(&self) -> &[usize] {
        match self.few.get(..self.count) {
            // SAFETY: the first `count` were written; `MaybeUninit<usize>` has the layout of `usize`.
            Some(few) => unsafe { std::slice::from_raw_parts(few.as_ptr().cast(), few.len()) },
            None => &self.many,
        }
    }
}

/// The agent's statuses, for calls whose statuses the program ignores.
#[repr(C, align(8))]
pub struct StatusBuffer {
    few: [MaybeUninit<u8>; FEW * Status::BYTES],
    many: Vec<u64>,
}

impl StatusBuffer {
    /// Without statuses.
    pub const fn new() -> StatusBuffer {
        StatusBuffer {
            few: [const { MaybeUninit::uninit() }; FEW * Status::BYTES],
            many: Vec::new(),
        }
    }

    /// Memory for this many statuses, zeroed.
    pub fn reserve(&mut self, n: usize) -> Statuses {
        if let Some(few) = self.few.get_mut(..n.saturating_mul(Status::BYTES)) {
            few.fill(MaybeUninit::new(0));
            return few.as_mut_ptr().cast();
        }
        self.many.resize(n * Status::BYTES / 8, 0);
        self.many.as_mut_ptr().cast()
    }
}

/// The outcome of a completing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Nothing was complete.
    Failed,
    /// These requests were completed.
    Completed(Completed<'a>),
}

impl<'a> Outcome<'a> {
    /// The outcome of a call that has returned; `index` is memory for a single index.
    #[inline(always)]
    pub fn of(call: &Hooked<'_>, kind: Kind, result: c_int, index: &'a mut [u32; 1]) -> Self {
        let flag = call.role.flag == Role::ABSENT || call.output(call.role.flag) != Some(0);
        if result == 0 && !flag {
            return Outcome::Failed;
        }
        match kind.choice() {
            Choice::All => Outcome::Completed(Completed::All),
            Choice::One => {
                let found = call.output(call.role.index).and_then(|i| u32::try_from(i).ok());
                let Some(found) = found else { return Outcome::Completed(Completed::Undefined) };
                *index = [found];
                Outcome::Completed(Completed::These(index))
            }
            Choice::Some => match call.output(call.role.outcount) {
                Some(0) if kind.polls() && result == 0 => Outcome::Failed,
                Some(n @ 1..) => {
                    let at = call.word(call.role.index) as *const u32;
                    // SAFETY: MPI has written this many indices there, none negative.
                    let indices = unsafe { std::slice::from_raw_parts(at, n as usize) };
                    Outcome::Completed(Completed::These(indices))
                }
                _ => Outcome::Completed(Completed::Undefined),
            },
        }
    }

    /// Whether it may be of more than one request.
    pub fn is_of_several(&self) -> bool {
        match self {
            Outcome::Failed | Outcome::Completed(Completed::Undefined) => false,
            Outcome::Completed(Completed::All) => true,
            Outcome::Completed(Completed::These(indices)) => indices.len() > 1,
        }
    }

    /// The indices of the completed requests, each with the index of its status.
    pub fn completed(&self, count: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let (all, these): (usize, &'a [u32]) = match *self {
            Outcome::Completed(Completed::All) => (count, &[]),
            Outcome::Completed(Completed::These(indices)) => (0, indices),
            _ => (0, &[]),
        };
        let these = these.iter().enumerate().map(|(status, index)| (*index as usize, status));
        (0..all).map(|n| (n, n)).chain(these)
    }
}
