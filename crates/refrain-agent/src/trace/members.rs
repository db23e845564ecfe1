//! Who is in a communicator that was just created.
//!
//! A handle means nothing outside its process. The ranks in `MPI_COMM_WORLD` of all members do:
//! from them every process knows by itself which communicator of the others is the same. They
//! are asked for by local functions, on the handle that MPI has just given, between Init and
//! Finalize: only then is there a `MPI_COMM_WORLD` to compare with. (A process that uses sessions
//! only has none, and its communicators no members in the log.)

use crate::inside::memory::Handles;
use crate::inside::process::{self, Quiet, abi};
use crate::inside::{clock, memory, next};
use crate::table;
use crate::trace::call::Call;
use crate::trace::{objects, stream};
use refrain_format::record::Tag;
use std::ffi::c_int;

/// The output of a call that makes a communicator.
///
/// That the call succeeded is not enough to ask about what it has made: an error handler of the
/// program may have turned an error into success, and the output holds whatever was there
/// before. So MPI gets a place of our own to write to, and what it has written there is handed
/// over; if it has written nothing, nothing was made.
pub struct Made {
    theirs: Handles,
    own: usize,
}

/// No handle of any MPI.
const UNTOUCHED: usize = 0xa5a5_a5a5_a5a5_a5a5;

impl Made {
    /// With the place of the program.
    pub fn new(theirs: Handles) -> Made {
        Made { theirs, own: UNTOUCHED }
    }

    /// The place for MPI to write to.
    pub fn place(&mut self) -> Handles {
        if self.theirs.is_null() { self.theirs } else { (&raw mut self.own).cast() }
    }

    /// Gives the program what MPI has written.
    ///
    /// # Safety
    /// The program's place must be null, or that of a handle.
    pub unsafe fn hand_over(&self) {
        let bytes = abi().handle_bytes;
        if self.own != UNTOUCHED && !self.theirs.is_null() {
            // SAFETY: the caller's promise.
            unsafe { self.theirs.copy_from((&raw const self.own).cast(), bytes) };
        }
    }

    /// What was made.
    fn comm(&self) -> Option<usize> {
        let mask = if abi().handle_bytes == 4 { 0xffff_ffff } else { usize::MAX };
        (self.own != UNTOUCHED).then_some(self.own & mask).filter(|&c| !objects::is_null_comm(c))
    }
}

impl Call {
    /// Writes down who is in a new communicator. The record of the call is complete.
    pub fn members(&mut self, made: &Made, result: c_int) {
        if let Some(comm) = made.comm().filter(|_| result == 0) {
            write(comm, comm);
        }
    }

    /// The same for a communicator that may not be asked yet, and has the members of another.
    /// MPI writes its handle where and when it wants; it has done so if `before` is no longer
    /// there.
    pub fn members_like(&mut self, at: Handles, before: usize, other: usize, result: c_int) {
        let comm = handle_at(at);
        if result == 0 && comm != before && ![comm, other].into_iter().any(objects::is_null_comm) {
            write(comm, other);
        }
    }
}

/// A handle that the program has a place for.
pub fn handle_at(at: Handles) -> usize {
    // SAFETY: the table says this argument is the address of a handle.
    unsafe { memory::handle(at, 0, abi().handle_bytes) }.unwrap_or(0)
}

/// The ranks in `MPI_COMM_WORLD` of a communicator's processes, or of those on its other side; -1
/// for those that are not in it.
pub fn world_ranks(comm: usize, remote: bool) -> Option<Vec<c_int>> {
    let world = Group::of(table::MPI_Comm_group, abi().comm_world)?;
    let function = if remote { table::MPI_Comm_remote_group } else { table::MPI_Comm_group };
    Group::of(function, comm)?.ranks_in(&world)
}

/// Writes down the members of a communicator, which are those of `asked`.
fn write(comm: usize, asked: usize) {
    if !process::is_between_init_and_finalize() {
        return;
    }
    let _quiet = Quiet::keep();
    // A panic here would be a defect of ours; the log goes on without the record.
    let content = std::panic::catch_unwind(|| content(comm, asked)).ok().flatten();
    if let Some(content) = content {
        stream::write_between_calls(|log| log.write_record(Tag::Members, &[&content]));
    }
}

fn content(comm: usize, asked: usize) -> Option<Vec<u8>> {
    let local = world_ranks(asked, false)?;
    let remote = match objects::is_inter(asked) {
        true => world_ranks(asked, true)?,
        false => Vec::new(),
    };
    let mut content = Vec::new();
    content.try_reserve_exact(8 + 8 + 4 + 4 + 4 * (local.len() + remote.len())).ok()?;
    content.extend(clock::ticks().to_le_bytes());
    content.extend((comm as u64).to_le_bytes());
    for ranks in [local, remote] {
        content.extend((ranks.len() as u32).to_le_bytes());
        ranks.iter().for_each(|rank| content.extend(rank.to_le_bytes()));
    }
    Some(content)
}

/// A group that we have asked for, and give back.
struct Group(usize);

impl Group {
    /// That of a communicator.
    fn of(function: usize, comm: usize) -> Option<Group> {
        let f = next::mpi(function)?;
        let mut group = 0usize;
        // SAFETY: local functions of this form in every MPI, on a valid communicator; a handle
        // has at most 8 bytes.
        let error = unsafe {
            let f: unsafe extern "C" fn(usize, *mut usize) -> c_int = std::mem::transmute(f);
            f(comm, &mut group)
        };
        (error == 0).then_some(Group(group))
    }

    /// The ranks that its processes have in another group; -1 for those that are not in it.
    fn ranks_in(&self, other: &Group) -> Option<Vec<c_int>> {
        let [size] = objects::ask::<1>(table::MPI_Group_size, self.0)?;
        let (mut own, mut ranks) = (Vec::new(), Vec::new());
        let n = memory::count(size);
        own.try_reserve_exact(n).ok()?;
        own.extend(0..size);
        ranks.try_reserve_exact(n).ok()?;
        ranks.resize(n, -1);
        let f = next::mpi(table::MPI_Group_translate_ranks)?;
        // SAFETY: a local function of this form in every MPI, on valid groups and ranks.
        let error = unsafe {
            type Translate =
                unsafe extern "C" fn(usize, c_int, *const c_int, usize, *mut c_int) -> c_int;
            let f: Translate = std::mem::transmute(f);
            f(self.0, size, own.as_ptr(), other.0, ranks.as_mut_ptr())
        };
        ranks.iter_mut().filter(|rank| **rank < 0).for_each(|rank| *rank = -1);
        (error == 0).then_some(ranks)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(f) = next::mpi(table::MPI_Group_free) {
            // SAFETY: a local function of this form in every MPI, on a group of our own.
            unsafe {
                let f: unsafe extern "C" fn(*mut usize) -> c_int = std::mem::transmute(f);
                f(&mut self.0);
            }
        }
    }
}
