//! The requests of a completing call, and its outcome.

use crate::inside::memory::Statuses;
use refrain_order::{Choice, Completed, Kind};
use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::mpi::{self, STATUS_BYTES};
use super::role::{Hooked, Role};

/// So many statuses have room in a frame.
const FEW: usize = 16;
/// So many requests have; they are moved about, so it is fewer.
const FEW_REQUESTS: usize = 8;

/// Requests as they were before a call: what completes becomes null.
///
/// Calls may be left by `longjmp`; what is more than a few then stays allocated, and no more.
pub struct Requests {
    few: [MaybeUninit<usize>; FEW_REQUESTS],
    many: Vec<usize>,
    count: usize,
}

impl Requests {
    /// Those that a call is given.
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
        // SAFETY: the table says that so many handles are there, of that size.
        unsafe {
            match call.abi.handle_bytes {
                4 => requests.read(n, at.cast::<u32>(), |handle| handle as usize),
                _ => requests.read(n, at.cast::<usize>(), |handle| handle),
            }
        }
        requests
    }

    /// Reads so many handles of one size.
    ///
    /// # Safety
    /// There must be so many; Fortran does not promise alignment.
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

    /// All of them.
    #[inline(always)]
    pub fn all(&self) -> &[usize] {
        match self.few.get(..self.count) {
            // SAFETY: so many were written; uninitialised words have the form of words.
            Some(few) => unsafe { std::slice::from_raw_parts(few.as_ptr().cast(), few.len()) },
            None => &self.many,
        }
    }
}

/// Statuses of our own, where the program ignores them.
#[repr(C, align(8))]
pub struct Room {
    few: [MaybeUninit<u8>; FEW * STATUS_BYTES],
    many: Vec<u64>,
}

impl Room {
    /// No room yet.
    pub const fn new() -> Room {
        Room { few: [const { MaybeUninit::uninit() }; FEW * STATUS_BYTES], many: Vec::new() }
    }

    /// Room for so many.
    pub fn make(&mut self, n: usize) -> Statuses {
        if let Some(few) = self.few.get_mut(..n.saturating_mul(STATUS_BYTES)) {
            few.fill(MaybeUninit::new(0));
            return few.as_mut_ptr().cast();
        }
        self.many.resize(n * STATUS_BYTES / 8, 0);
        self.many.as_mut_ptr().cast()
    }
}

/// What a call completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Nothing yet.
    Failed,
    /// That.
    Completed(Completed<'a>),
}

impl<'a> Outcome<'a> {
    /// What a call that has returned completed; `index` has room for one.
    #[inline(always)]
    pub fn of(call: &Hooked<'_>, kind: Kind, result: c_int, index: &'a mut [u32; 1]) -> Self {
        let flag = call.role.flag == Role::NOWHERE || call.output(call.role.flag) != Some(0);
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
                    // SAFETY: the table says that so many indices are there, none negative.
                    let indices = unsafe { std::slice::from_raw_parts(at, n as usize) };
                    Outcome::Completed(Completed::These(indices))
                }
                _ => Outcome::Completed(Completed::Undefined),
            },
        }
    }

    /// Whether it may be more than one request.
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
        let these = these.iter().enumerate().map(|(address, index)| (*index as usize, address));
        (0..all).map(|n| (n, n)).chain(these)
    }
}
