//! A communicator that no other code uses, for what ranks have to exchange.
//!
//! It should exist only while it is needed, so that what a program can see of MPI does not change.

use crate::{Library, Opened, Symbols, function};
use std::ffi::c_int;

/// The most bytes of a message.
const PIECE: usize = 1 << 28;

/// A communicator of all ranks that no other code uses.
pub struct Comm<'l, S: Symbols = Opened> {
    mpi: &'l Library<S>,
    handle: usize,
    /// The rank of this process.
    pub rank: c_int,
    /// The number of ranks.
    pub size: c_int,
    byte: usize,
    unsigned: usize,
    sum: usize,
    min: usize,
}

impl<'l, S: Symbols> Comm<'l, S> {
    /// A new communicator of all ranks of `MPI_COMM_WORLD`. Errors in it are returned. All ranks take part.
    ///
    /// It is not a duplicate of `MPI_COMM_WORLD`: that would call the program's callbacks that copy
    /// attributes.
    pub fn of_world(mpi: &'l Library<S>) -> Option<Comm<'l, S>> {
        let (rank, size) = mpi.world()?;
        let world = mpi.abi().comm_world;
        let returning = mpi.predefined("MPI_ERRORS_RETURN")?;
        let mut comm = Comm {
            mpi,
            handle: 0,
            rank,
            size,
            byte: mpi.predefined("MPI_BYTE")?,
            unsigned: mpi.predefined("MPI_UINT64_T")?,
            sum: mpi.predefined("MPI_SUM")?,
            min: mpi.predefined("MPI_MIN")?,
        };
        // What goes wrong must not reach the program's error handler.
        let mut handler = 0usize;
        let at = &raw mut handler as usize;
        comm.call(function::MPI_Comm_get_errhandler, &[world, at])?;
        comm.call(function::MPI_Comm_set_errhandler, &[world, returning])?;
        let made = comm.make(world);
        comm.call(function::MPI_Comm_set_errhandler, &[world, handler])?;
        comm.call(function::MPI_Errhandler_free, &[at])?;
        made?;
        comm.call(function::MPI_Comm_set_errhandler, &[comm.handle, returning])?;
        Some(comm)
    }

    fn make(&mut self, world: usize) -> Option<()> {
        let (mut group, mut handle) = (0usize, 0usize);
        let (group_at, at) = (&raw mut group as usize, &raw mut handle as usize);
        self.call(function::MPI_Comm_group, &[world, group_at])?;
        let made = self.call(function::MPI_Comm_create, &[world, group, at]);
        self.call(function::MPI_Group_free, &[group_at])?;
        made?;
        self.handle = handle;
        Some(())
    }

    /// Calls a function of this file, with arguments that are valid for the call. A handle has at most
    /// the bytes of a word, so the address of a word is that of a handle.
    fn call(&self, number: usize, words: &[usize]) -> Option<()> {
        // SAFETY: as above.
        (unsafe { self.mpi.call_words(number, words) } == 0).then_some(())
    }

    /// Sends bytes to a rank.
    pub fn send(&self, to: c_int, bytes: &[u8]) -> Option<()> {
        let length = bytes.len() as u64;
        self.send_piece(to, &length.to_le_bytes())?;
        bytes.chunks(PIECE).try_for_each(|piece| self.send_piece(to, piece))
    }

    /// Sends bytes to a rank that knows their number.
    pub fn send_piece(&self, to: c_int, piece: &[u8]) -> Option<()> {
        let (at, n) = (piece.as_ptr() as usize, piece.len());
        self.call(function::MPI_Send, &[at, n, self.byte, to as usize, 0, self.handle])
    }

    /// Receives what a rank has sent.
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
        let (at, n) = (piece.as_mut_ptr() as usize, piece.len());
        let ignore = self.mpi.abi().status_ignore;
        self.call(function::MPI_Recv, &[at, n, self.byte, from as usize, 0, self.handle, ignore])
    }

    /// The sum of the numbers that the ranks before this one have. All ranks take part.
    pub fn offset(&self, number: u64) -> Option<u64> {
        let mut before = 0u64;
        let (given, at) = (&raw const number as usize, &raw mut before as usize);
        self.call(function::MPI_Exscan, &[given, at, 1, self.unsigned, self.sum, self.handle])?;
        // The result of rank 0 is undefined.
        Some(if self.rank == 0 { 0 } else { before })
    }

    /// Whether something holds in all ranks. All ranks take part.
    pub fn all(&self, here: bool) -> Option<bool> {
        let (given, mut least) = (u64::from(here), 0u64);
        let (given, at) = (&raw const given as usize, &raw mut least as usize);
        self.call(function::MPI_Allreduce, &[given, at, 1, self.unsigned, self.min, self.handle])?;
        Some(least == 1)
    }

    /// Frees the communicator. All ranks take part.
    pub fn free(mut self) -> Option<()> {
        let at = &raw mut self.handle as usize;
        self.call(function::MPI_Comm_free, &[at])
    }
}
