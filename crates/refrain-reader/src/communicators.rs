//! The communicators of a process, and the processes in them.

use crate::event::Event;
use crate::items::CommMembers;
use std::collections::HashMap;
use std::sync::Arc;

/// The processes of a communicator, as ranks in `MPI_COMM_WORLD`; -1 for a process that is not in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// Its processes; of an intercommunicator, those of the local group.
    pub local: Vec<i32>,
    /// The remote group of an intercommunicator; empty otherwise.
    pub remote: Vec<i32>,
}

impl Members {
    /// The rank in `MPI_COMM_WORLD` of a peer. In an intercommunicator, peers are ranks of the remote group.
    pub fn world_rank(&self, peer: u32) -> Option<u32> {
        let group = if self.remote.is_empty() { &self.local } else { &self.remote };
        u32::try_from(*group.get(peer as usize)?).ok()
    }
}

impl From<CommMembers> for Members {
    fn from(CommMembers { local, remote, .. }: CommMembers) -> Members {
        Members { local, remote }
    }
}

/// The members of the communicators that the threads of a process make.
///
/// A freed communicator gives its handle to the next one. If two communicators with the same handle have different
/// members, the handle alone does not identify one, and its members are unknown here. The thread that makes them
/// knows them by its sequence of calls.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    /// By handle; none if communicators with this handle have different members.
    members: HashMap<u64, Option<Arc<Members>>>,
}

impl Communicators {
    /// From the notes of all threads.
    pub fn new<'e>(notes: impl IntoIterator<Item = &'e Event>) -> Communicators {
        let mut members: HashMap<u64, Option<Arc<Members>>> = HashMap::new();
        for note in notes.into_iter().filter_map(CommMembers::of) {
            let handle = note.comm;
            let new = Some(Arc::new(Members::from(note)));
            let known = members.entry(handle).or_insert_with(|| new.clone());
            if *known != new {
                *known = None;
            }
        }
        Communicators { members }
    }

    /// The members of the communicator with this handle.
    pub fn members(&self, handle: u64) -> Option<&Arc<Members>> {
        self.members.get(&handle)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Value;
    use refrain_format::define::FunctionDef;
    use refrain_signature::notes;

    fn note(comm: u64, local: &[i64], remote: &[i64]) -> Event {
        let definition = notes::DEFINITIONS.iter().find(|(number, _)| *number == notes::MEMBERS);
        let function = FunctionDef::from_text(definition.unwrap().1).unwrap();
        let ranks = |ranks: &[i64]| Value::List(ranks.iter().map(|r| Value::Int(*r)).collect());
        Event {
            number: 0,
            depth: 0,
            function: Arc::new(function),
            site: None,
            start: 0,
            end: None,
            result: Some(0),
            error_class: None,
            inputs: vec![Some(Value::Word(comm)), Some(ranks(local)), Some(ranks(remote))],
            outputs: vec![None; 3],
        }
    }

    #[test]
    fn a_handle_with_different_members_is_not_known() {
        let notes = [note(1, &[0, 2], &[]), note(2, &[0, 1], &[]), note(1, &[0, 2], &[])];
        let all = Communicators::new(&notes);
        assert_eq!(all.members(1).unwrap().local, [0, 2]);
        let again = [note(1, &[0, 2], &[]), note(2, &[0, 1], &[]), note(1, &[1, 2], &[])];
        let all = Communicators::new(&again);
        assert_eq!(all.members(1), None);
        assert_eq!(all.members(2).unwrap().local, [0, 1]);
    }

    #[test]
    fn peers_of_an_intercommunicator_are_in_its_remote_group() {
        let all = Communicators::new(&[note(1, &[0, 1], &[5, -1]), note(2, &[3, 4], &[])]);
        assert_eq!(all.members(1).unwrap().world_rank(0), Some(5));
        assert_eq!(all.members(1).unwrap().world_rank(1), None);
        assert_eq!(all.members(2).unwrap().world_rank(1), Some(4));
        assert_eq!(all.members(2).unwrap().world_rank(2), None);
    }
}
