//! The members of a communicator that was just created, as ranks in `MPI_COMM_WORLD`.
//!
//! A handle means nothing outside its process. Members do: together with the parent and the order of
//! creation they identify the communicator in all processes. The agent asks MPI for them by local
//! functions, on the new handle, between Init and Finalize. A process that only uses sessions has no
//! `MPI_COMM_WORLD` to compare with, and its log has no members.

use crate::inside::library::{abi, library};
use crate::inside::memory::Handles;
use crate::inside::process::{self, Quiet};
use crate::inside::{clock, memory};
use crate::table;
use crate::trace::call::Call;
use crate::trace::{objects, thread_log};
use refrain_format::record::Tag;
use std::ffi::c_int;

/// The output argument of a call that creates a communicator.
///
/// A call that returns success need not have created one: an error handler of the program may have turned
/// an error into success, and then the output still holds what was there before. So MPI writes to
/// `created`, and the agent copies it to the program's variable. If MPI wrote nothing, nothing was
/// created.
pub struct NewComm {
    programs: Handles,
    created: usize,
}

/// No handle of any MPI.
const UNTOUCHED: usize = 0xa5a5_a5a5_a5a5_a5a5;

impl NewComm {
    /// Takes the address of the program's variable.
    pub fn new(programs: Handles) -> NewComm {
        NewComm { programs, created: UNTOUCHED }
    }

    /// The address that MPI writes to.
    pub fn destination(&mut self) -> Handles {
        if self.programs.is_null() { self.programs } else { (&raw mut self.created).cast() }
    }

    /// Copies what MPI wrote to the program's variable.
    ///
    /// # Safety
    /// The program's address must be null, or that of a handle.
    pub unsafe fn hand_over(&self) {
        let bytes = abi().handle_bytes;
        if self.created != UNTOUCHED && !self.programs.is_null() {
            // SAFETY: the caller's promise.
            unsafe { self.programs.copy_from((&raw const self.created).cast(), bytes) };
        }
    }

    /// The new communicator.
    fn comm(&self) -> Option<usize> {
        let created = (self.created != UNTOUCHED).then(|| abi().handle(self.created));
        created.filter(|&comm| !objects::is_null_comm(comm))
    }
}

impl Call {
    /// Records the members of a new communicator. The record of the call is complete.
    pub fn members(&mut self, new_comm: &NewComm, result: c_int) {
        if let Some(comm) = new_comm.comm().filter(|_| result == 0) {
            write(comm, comm);
        }
    }

    /// The same for a communicator that cannot be used yet, and has the members of `other`. MPI may
    /// write its handle now or later; it has if the variable no longer holds `before`.
    pub fn members_like(&mut self, at: Handles, before: usize, other: usize, result: c_int) {
        let comm = handle_at(at);
        if result == 0 && comm != before && ![comm, other].into_iter().any(objects::is_null_comm) {
            write(comm, other);
        }
    }
}

/// The handle in a variable of the program.
pub fn handle_at(at: Handles) -> usize {
    // SAFETY: the table says this argument is the address of a handle.
    unsafe { memory::handle(at, 0, abi().handle_bytes) }.unwrap_or(0)
}

/// The ranks in `MPI_COMM_WORLD` of a communicator's local or remote group; -1 for processes that are
/// not in it.
pub fn world_ranks(comm: usize, remote: bool) -> Option<Vec<c_int>> {
    let world = Group::of(table::MPI_Comm_group, abi().comm_world)?;
    let function = if remote { table::MPI_Comm_remote_group } else { table::MPI_Comm_group };
    Group::of(function, comm)?.ranks_in(&world)
}

/// Records the members of a communicator, which are those of `asked`.
fn write(comm: usize, asked: usize) {
    if !process::is_between_init_and_finalize() {
        return;
    }
    let _quiet = Quiet::keep();
    // A panic is a defect of the agent; the log continues without the record.
    let content = std::panic::catch_unwind(|| content(comm, asked)).ok().flatten();
    if let Some(content) = content {
        thread_log::write_between_calls(|log| log.write_record(Tag::Members, &[&content]));
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

/// A group that the agent asked for, and frees.
struct Group(usize);

impl Group {
    /// The group of a communicator.
    fn of(function: usize, comm: usize) -> Option<Group> {
        let mut group = 0usize;
        let words = [comm, &raw mut group as usize];
        // SAFETY: local functions of this form, on a valid communicator; a handle has at most 8 bytes.
        let error = unsafe { library().call_words(function, &words) };
        (error == 0).then_some(Group(group))
    }

    /// The ranks that its processes have in another group; -1 for those that are not in it.
    fn ranks_in(&self, other: &Group) -> Option<Vec<c_int>> {
        let [size] = objects::ask::<1>(table::MPI_Group_size, self.0)?;
        let (mut ranks_here, mut ranks) = (Vec::new(), Vec::new());
        let n = memory::count(size);
        ranks_here.try_reserve_exact(n).ok()?;
        ranks_here.extend(0..size);
        ranks.try_reserve_exact(n).ok()?;
        ranks.resize(n, -1);
        let words = [self.0, n, ranks_here.as_ptr() as usize, other.0, ranks.as_mut_ptr() as usize];
        // SAFETY: a local function of this form, on valid groups and ranks.
        let error = unsafe { library().call_words(table::MPI_Group_translate_ranks, &words) };
        ranks.iter_mut().filter(|rank| **rank < 0).for_each(|rank| *rank = -1);
        (error == 0).then_some(ranks)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: a local function of this form, on a group that the agent created.
        unsafe { library().call_words(table::MPI_Group_free, &[&raw mut self.0 as usize]) };
    }
}
