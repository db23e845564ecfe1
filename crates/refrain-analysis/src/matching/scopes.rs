//! Communicators, windows and files of a process.

use super::origin::{Making, Origin, making, tag};
use refrain_bytes::table::Map;
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::Argument;
use refrain_reader::Call;
use refrain_reader::items::CommMembers;
use std::collections::HashMap;
use std::sync::Arc;

/// The kind of a [`Scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All processes, in `MPI_Init` and `MPI_Finalize`.
    Runtime,
    /// A communicator.
    Communicator,
    /// An intercommunicator.
    Intercommunicator,
    /// A window.
    Window,
    /// A file.
    File,
}

/// A communicator, a window or a file, identified by facts that are the same on all its members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Its kind.
    pub kind: Kind,
    /// Its members as ranks in `MPI_COMM_WORLD`, in increasing order.
    pub members: Arc<[i32]>,
    /// How it was created.
    pub origin: Origin,
    /// The number of earlier scopes of the process with the same kind, members and origin.
    pub nth: u32,
}

/// The index of `MPI_COMM_WORLD` among a process's scopes.
const WORLD: usize = 0;
/// The index of the scope of `MPI_Init` and `MPI_Finalize`.
pub(super) const RUNTIME: usize = 1;
/// The index of `MPI_COMM_SELF`.
const SELF: usize = 2;

/// The kinds of handles that are scopes, with the argument that passes them.
const HANDLES: [(&str, Argument); 3] =
    [("comm", Argument::Comm), ("win", Argument::Window), ("file", Argument::File)];

/// The scopes of a process.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    all: Vec<Entry>,
    /// By kind of handle and handle.
    handles: Map<(&'static str, u64), usize>,
    /// How many scopes have the same kind, members and origin.
    made: HashMap<(Kind, Arc<[i32]>, Origin), u32>,
    /// Communicators whose members are not known yet, by handle: a note with them follows.
    origins: HashMap<u64, Origin>,
}

#[derive(Debug)]
struct Entry {
    scope: Scope,
    /// The ranks in `MPI_COMM_WORLD` of its ranks, for sources and destinations.
    peers: Arc<[i32]>,
    /// The number of collectives that have begun on it.
    collectives: u64,
    /// The number of calls on it that created a communicator, window or file.
    children: u64,
}

impl Scopes {
    /// The predefined scopes.
    pub fn new(rank: i32, ranks: usize) -> Scopes {
        let mut scopes = Scopes::default();
        let world: Arc<[i32]> = (0..ranks as i32).collect();
        let unknown = Origin::Unknown;
        scopes.add(Kind::Communicator, unknown, world.clone(), world.clone());
        scopes.add(Kind::Runtime, unknown, world.clone(), world);
        let alone: Arc<[i32]> = Arc::from([rank]);
        scopes.add(Kind::Communicator, unknown, alone.clone(), alone);
        scopes
    }

    /// All scopes, with the number of collectives that have begun on each.
    pub fn iter(&self) -> impl Iterator<Item = (&Scope, u64)> {
        self.all.iter().map(|entry| (&entry.scope, entry.collectives))
    }

    pub fn get(&self, index: usize) -> Option<&Scope> {
        Some(&self.all.get(index)?.scope)
    }

    /// Counts collectives that begin; returns the number of the last.
    pub fn count_collectives(&mut self, index: usize, times: u64) -> u64 {
        let Some(entry) = self.all.get_mut(index) else { return 0 };
        entry.collectives += times;
        entry.collectives
    }

    fn add(&mut self, kind: Kind, origin: Origin, members: Arc<[i32]>, peers: Arc<[i32]>) -> usize {
        let count = self.made.entry((kind, members.clone(), origin)).or_default();
        let scope = Scope { kind, members, origin, nth: *count };
        *count += 1;
        self.all.push(Entry { scope, peers, collectives: 0, children: 0 });
        self.all.len() - 1
    }

    /// Adds the communicators, windows or files that a call has created. Every member of the parent counts the call,
    /// including those that get `MPI_COMM_NULL`.
    pub fn observe(&mut self, call: &Call, function: &Function, times: u64) {
        let Some(making) = making(function) else { return };
        let parent = self.of(call).filter(|_| making != Making::WithoutParent);
        let parent = parent.and_then(|parent| self.all.get_mut(parent));
        let identity = parent.as_ref().map(|parent| parent.scope.identity());
        let origin = match (making, parent) {
            (Making::OfParent, Some(parent)) => {
                let number = parent.children;
                parent.children += times;
                Origin::Child { parent: identity.unwrap_or(0), number }
            }
            (Making::OfParent, None) => Origin::Unknown,
            _ => Origin::Tagged { parent: identity.unwrap_or(0), tag: tag(call.event()) },
        };
        if let Some(comm) = call.arguments().output_handle(Argument::NewComm) {
            self.origins.insert(comm, origin);
        }
        self.add_made(call, origin);
    }

    /// Adds a communicator from its note, which follows the call that created it.
    pub fn add_communicator(&mut self, CommMembers { comm, local, remote }: CommMembers) {
        let kind = if remote.is_empty() { Kind::Communicator } else { Kind::Intercommunicator };
        let mut members: Vec<i32> = local.iter().chain(&remote).copied().collect();
        members.sort_unstable();
        let peers = if remote.is_empty() { local } else { remote };
        let origin = self.origins.remove(&comm).unwrap_or_default();
        let scope = self.add(kind, origin, members.into(), peers.into());
        self.handles.insert(("comm", comm), scope);
    }

    /// Adds the windows and files that a call has created.
    fn add_made(&mut self, call: &Call, origin: Origin) {
        let arguments = call.arguments();
        for ((of, argument), kind) in HANDLES[1..].iter().zip([Kind::Window, Kind::File]) {
            // A handle that was also passed in is not new.
            let is_new = arguments.input(*argument).is_none();
            let made = arguments.output_handle(*argument).filter(|_| is_new);
            let Some(handle) = made else { continue };
            let Some(comm) = self.of(call).and_then(|comm| self.all.get(comm)) else { continue };
            let (members, peers) = (comm.scope.members.clone(), comm.peers.clone());
            let scope = self.add(kind, origin, members, peers);
            self.handles.insert((of, handle), scope);
        }
    }

    /// The communicator, window or file of a call.
    pub fn of(&self, call: &Call) -> Option<usize> {
        let arguments = call.arguments();
        let passed = |(kind, argument): &(&'static str, Argument)| {
            Some((*kind, arguments.handle(*argument)?))
        };
        let (kind, handle) = HANDLES.iter().find_map(passed)?;
        match call.handle_name(kind, handle) {
            Some("MPI_COMM_WORLD") => Some(WORLD),
            Some("MPI_COMM_SELF") => Some(SELF),
            Some(_) => None,
            None => self.handles.get(&(kind, handle)).copied(),
        }
    }

    /// The rank in `MPI_COMM_WORLD` of a rank of a scope.
    pub fn peer(&self, index: usize, rank: i64) -> Option<i32> {
        let peers = &self.all.get(index)?.peers;
        peers.get(usize::try_from(rank).ok()?).copied().filter(|rank| *rank >= 0)
    }
}
