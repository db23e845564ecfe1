//! A communicator of our own, for what ranks have to tell each other.
//!
//! It exists only while it is needed: right after `MPI_Init`, and right before `MPI_Finalize`. So
//! nothing the program can see changes while it runs.

use crate::inside::process::{self, abi};
use crate::inside::{memory, next};
use crate::table;
use std::ffi::{c_int, c_void};

/// The largest message.
const PIECE: usize = 1 << 28;

/// A communicator of our own, of all ranks.
pub struct Comm {
    handle: usize,
    /// Our rank in it.
    pub rank: c_int,
    /// How many ranks there are.
    pub size: c_int,
    byte: usize,
    unsigned: usize,
    sum: usize,
    min: usize,
}

/// A function of MPI in the form it is called in here.
macro_rules! call {
    ($name:ident ( $($argument:expr => $type:ty),* )) => {{
        let f = next::mpi(table::$name)?;
        // SAFETY: the function has this form in every MPI: handles by value are at most as wide
        // as a register, and what is passed is valid for the call.
        unsafe {
            let f: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(f);
            (f($($argument),*) == 0).then_some(())
        }
    }};
}

impl Comm {
    /// One of all ranks of `MPI_COMM_WORLD`, in which errors are ours to deal with. All ranks take
    /// part; none where a rank is known to be without us.
    ///
    /// Not a copy, for which the program's callbacks would be called that copy attributes.
    pub fn of_world() -> Option<Comm> {
        if process::is_somebody_unseen() {
            return None;
        }
        let (rank, size) = memory::world()?;
        let world = abi().comm_world;
        let returning = process::predefined("MPI_ERRORS_RETURN")?;
        let mut comm = Comm { handle: 0, rank, size, byte: 0, unsigned: 0, sum: 0, min: 0 };
        comm.byte = process::predefined("MPI_BYTE")?;
        comm.unsigned = process::predefined("MPI_UINT64_T")?;
        (comm.sum, comm.min) = (process::predefined("MPI_SUM")?, process::predefined("MPI_MIN")?);
        // What goes wrong must not reach the program's error handler.
        let mut handler = 0usize;
        let place = &raw mut handler;
        call!(MPI_Comm_get_errhandler(world => usize, place => *mut usize))?;
        call!(MPI_Comm_set_errhandler(world => usize, returning => usize))?;
        let made = comm.make(world);
        call!(MPI_Comm_set_errhandler(world => usize, handler => usize))?;
        call!(MPI_Errhandler_free(place => *mut usize))?;
        made?;
        call!(MPI_Comm_set_errhandler(comm.handle => usize, returning => usize))?;
        Some(comm)
    }

    fn make(&mut self, world: usize) -> Option<()> {
        let (mut group, mut handle) = (0usize, 0usize);
        let (group_place, place) = (&raw mut group, &raw mut handle);
        call!(MPI_Comm_group(world => usize, group_place => *mut usize))?;
        let made =
            (|| call!(MPI_Comm_create(world => usize, group => usize, place => *mut usize)))();
        call!(MPI_Group_free(group_place => *mut usize))?;
        made?;
        self.handle = handle;
        Some(())
    }

    /// Sends bytes, as many as there are.
    pub fn send(&self, to: c_int, bytes: &[u8]) -> Option<()> {
        let length = bytes.len() as u64;
        self.send_piece(to, &length.to_le_bytes())?;
        bytes.chunks(PIECE).try_for_each(|piece| self.send_piece(to, piece))
    }

    /// Sends bytes, whose number the receiver knows.
    pub fn send_piece(&self, to: c_int, piece: &[u8]) -> Option<()> {
        let (at, n) = (piece.as_ptr().cast(), piece.len() as c_int);
        call!(MPI_Send(at => *const c_void, n => c_int, self.byte => usize, to => c_int,
                       0 => c_int, self.handle => usize))
    }

    /// Receives what was sent.
    pub fn receive(&self, from: c_int) -> Option<Vec<u8>> {
        let mut length = [0; 8];
        self.receive_piece(from, &mut length)?;
        let length = usize::try_from(u64::from_le_bytes(length)).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        bytes.chunks_mut(PIECE).try_for_each(|piece| self.receive_piece(from, piece))?;
        Some(bytes)
    }

    /// Receives bytes whose number is known.
    pub fn receive_piece(&self, from: c_int, piece: &mut [u8]) -> Option<()> {
        let (at, n) = (piece.as_mut_ptr().cast(), piece.len() as c_int);
        let ignore = abi().status_ignore;
        call!(MPI_Recv(at => *mut c_void, n => c_int, self.byte => usize, from => c_int,
                       0 => c_int, self.handle => usize, ignore => usize))
    }

    /// The sum of what the ranks before this one have.
    pub fn offset(&self, bytes: u64) -> Option<u64> {
        let mut before = 0u64;
        let (given, place) = (&raw const bytes, &raw mut before);
        call!(MPI_Exscan(given => *const u64, place => *mut u64, 1 => c_int,
                         self.unsigned => usize, self.sum => usize, self.handle => usize))?;
        // What rank 0 gets is not defined.
        Some(if self.rank == 0 { 0 } else { before })
    }

    /// Whether something holds everywhere.
    pub fn all(&self, here: bool) -> Option<bool> {
        let (given, mut least) = (u64::from(here), 0u64);
        let (given, place) = (&raw const given, &raw mut least);
        call!(MPI_Allreduce(given => *const u64, place => *mut u64, 1 => c_int,
                            self.unsigned => usize, self.min => usize, self.handle => usize))?;
        Some(least == 1)
    }

    /// Gives it back. All ranks take part.
    pub fn free(mut self) -> Option<()> {
        let place = &raw mut self.handle;
        call!(MPI_Comm_free(place => *mut usize))
    }
}
