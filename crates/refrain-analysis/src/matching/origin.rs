//! Identifies communicators across processes.
//!
//! A handle is meaningless outside its process. Two communicators with the same members cannot be
//! distinguished by their members, nor by the order in which a process created them: each process may
//! call `MPI_Comm_idup` on several communicators in a different order, and threads may create
//! communicators concurrently. MPI only guarantees the order of collective calls on *one*
//! communicator. So a communicator is identified by its parent and by the number of the creating call
//! among those on the parent. Calls that are collective over a group instead of the parent are
//! identified by their members and the tag that the program passes for this purpose.
//!
//! Windows and files are identified in the same way, by the communicator that they were created from.

use super::Scope;
use refrain_bytes::stable;
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{Object, Op, Over};
use refrain_reader::{Event, Value};

/// How a communicator, window or file was created; the same on all its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// It is predefined, or the call that created it was not recorded.
    #[default]
    Unknown,
    /// All members of its parent created it.
    Child {
        /// The [identity](Scope::identity) of the parent.
        parent: u64,
        /// The number of earlier creating calls on the parent.
        number: u64,
    },
    /// Its members created it, with a common tag.
    Tagged {
        /// The [identity](Scope::identity) of the parent; 0 if there is none.
        parent: u64,
        /// A hash of the tag.
        tag: u64,
    },
}

/// Which processes create a communicator, window or file together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    /// All members of the parent: the call has a number among those on the parent.
    OfParent,
    /// Some members of the parent.
    AmongMembers,
    /// Members of two communicators, or of none: the parent is not the same for all of them.
    WithoutParent,
}

/// How a function creates communicators, windows or files; `None` if it does not.
pub(super) fn making(function: &Function) -> Option<Making> {
    match (function.op(), function.over()?) {
        (Op::Make(Object::Comm | Object::Window | Object::File), Over::Comm)
        | (Op::Connect, Over::CommAndRemote) => Some(Making::OfParent),
        (Op::Make(Object::Comm), Over::Group) => Some(Making::AmongMembers),
        (Op::Make(Object::Comm), Over::CommAndRemote) => Some(Making::WithoutParent),
        _ => None,
    }
}

/// A hash of the tag that a call passes to identify the new communicator.
pub(super) fn tag(event: &Event) -> u64 {
    let at = event.function.params.iter().position(|p| p.name == "tag" || p.name == "stringtag");
    match at.and_then(|at| event.inputs.get(at)?.as_ref()) {
        Some(Value::Int(tag)) => mix(1, *tag as u64),
        Some(Value::Text(tag)) => mix(2, stable::fnv1a_64(tag)),
        _ => 0,
    }
}

fn mix(hash: u64, value: u64) -> u64 {
    stable::mix::<25, 31>(hash, value)
}

impl Scope {
    /// A hash that is the same on all members and, with near certainty, different for other scopes.
    pub fn identity(&self) -> u64 {
        let (which, first, second) = match self.origin {
            Origin::Unknown => (0, 0, 0),
            Origin::Child { parent, number } => (1, parent, number),
            Origin::Tagged { parent, tag } => (2, parent, tag),
        };
        let head = [self.kind as u64, self.nth.into(), which, first, second];
        let members = self.members.iter().map(|rank| *rank as u64);
        head.into_iter().chain(members).fold(self.members.len() as u64, mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::Kind;
    use refrain_mpi::interface;
    use std::sync::Arc;

    fn making(name: &str) -> Option<Making> {
        super::making(interface::function(name).expect(name))
    }

    #[test]
    fn every_function_that_creates_communicators_has_its_participants() {
        assert_eq!(making("MPI_Comm_idup"), Some(Making::OfParent));
        assert_eq!(making("MPI_Cart_sub"), Some(Making::OfParent));
        assert_eq!(making("MPI_Intercomm_merge"), Some(Making::OfParent));
        assert_eq!(making("MPI_Win_allocate_c"), Some(Making::OfParent));
        assert_eq!(making("MPI_File_open"), Some(Making::OfParent));
        assert_eq!(making("MPI_Comm_create_group"), Some(Making::AmongMembers));
        assert_eq!(making("MPI_Comm_create_from_group"), Some(Making::AmongMembers));
        assert_eq!(making("MPI_Intercomm_create"), Some(Making::WithoutParent));
        assert_eq!(making("MPI_Comm_rank"), None);
        assert_eq!(making("MPI_Comm_group"), None);
        let makers = interface::functions().iter().filter(|f| f.op() == Op::Make(Object::Comm));
        makers.for_each(|f| assert!(making(&f.name).is_some(), "{}", f.name));
    }

    #[test]
    fn scopes_that_differ_in_anything_have_different_identities() {
        let base = Scope {
            kind: Kind::Communicator,
            members: Arc::from([0, 1]),
            origin: Origin::Child { parent: 7, number: 1 },
            nth: 0,
        };
        let others = [
            Scope { kind: Kind::Window, ..base.clone() },
            Scope { members: Arc::from([0, 2]), ..base.clone() },
            Scope { origin: Origin::Child { parent: 8, number: 1 }, ..base.clone() },
            Scope { origin: Origin::Child { parent: 7, number: 2 }, ..base.clone() },
            Scope { origin: Origin::Tagged { parent: 7, tag: 1 }, ..base.clone() },
            Scope { nth: 1, ..base.clone() },
        ];
        assert_eq!(base.identity(), base.clone().identity());
        others.iter().for_each(|other| assert_ne!(other.identity(), base.identity(), "{other:?}"));
    }
}
