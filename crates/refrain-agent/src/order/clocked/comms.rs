//! Numbers of communicators that are the same in all of their processes and in every run.
//!
//! A handle means nothing to another process. A communicator is identified by its members and by its number among the
//! communicators made from the same parent. If exactly its members took part in making it, it is identified by its
//! number among the communicators with the same members. So a communicator is numbered when it is made, not when it is
//! first used.

use crate::inside::library::abi;
use crate::table;
use crate::trace::members;
use crate::trace::objects;
use refrain_bytes::stable;
use std::collections::HashMap;
use std::ffi::c_int;

use super::super::mpi;
use super::super::requests::Map;

/// A communicator.
#[derive(Clone)]
pub struct Comm {
    /// Its number, the same in all of its processes.
    pub number: u32,
    /// This process's rank in it.
    pub rank: c_int,
    /// Ranks in `MPI_COMM_WORLD` of the processes that messages go to, by their ranks here; -1 for those that are not in
    /// `MPI_COMM_WORLD`.
    pub peers: Vec<c_int>,
    /// Other processes that take part in its collective operations, by rank in `MPI_COMM_WORLD`.
    pub others: Vec<u32>,
    /// Whether it is `MPI_COMM_WORLD`.
    pub is_world: bool,
    /// Whether it has processes that are not in this `MPI_COMM_WORLD`; its calls are then only forwarded.
    pub is_unsupported: bool,
    /// The number of collective operations so far.
    pub collectives: u64,
    /// The number of communicators that all of its processes have made from it.
    pub children: u64,
}

/// Which child of its parent a communicator is; the same in all processes that make it.
#[derive(Clone, Copy, Debug)]
pub struct Child(u64);

impl Comm {
    /// A communicator about which MPI cannot be asked.
    fn unknown() -> Comm {
        let (peers, others) = (Vec::new(), Vec::new());
        let (is_world, is_unsupported) = (false, true);
        let (collectives, children) = (0, 0);
        Comm {
            number: u32::MAX,
            rank: -1,
            peers,
            others,
            is_world,
            is_unsupported,
            collectives,
            children,
        }
    }

    /// The process with this rank.
    pub fn process(&self, rank: c_int) -> Option<u32> {
        u32::try_from(*self.peers.get(usize::try_from(rank).ok()?)?).ok()
    }
}

/// All communicators in use.
#[derive(Default)]
pub struct Comms {
    all: Map<Comm>,
    /// How many communicators were made with the same members.
    made: HashMap<u64, u64>,
}

fn mix(key: u64, value: u64) -> u64 {
    stable::mix::<21, 30>(key, value)
}

fn hash(ranks: &[c_int]) -> u64 {
    ranks.iter().fold(ranks.len() as u64, |hash, rank| mix(hash, *rank as u32 as u64))
}

/// The number of `MPI_COMM_WORLD`.
const WORLD: u32 = 0;

impl Comms {
    /// A communicator; numbers it if it has no number yet.
    pub fn get(&mut self, handle: usize) -> &mut Comm {
        if !self.all.contains_key(&handle) {
            let mut comm = self.describe(handle, None).unwrap_or_else(Comm::unknown);
            comm.is_world = handle == mpi::handle(abi().comm_world);
            comm.number = if comm.is_world { WORLD } else { comm.number };
            self.all.insert(handle, comm);
        }
        self.all.entry(handle).or_insert_with(Comm::unknown)
    }

    /// All processes of this communicator are about to make another one from it.
    pub fn next_child(&mut self, parent: usize) -> Child {
        let parent = self.get(parent);
        parent.children += 1;
        Child(mix(parent.number.into(), parent.children))
    }

    /// Adds a new communicator.
    pub fn add(&mut self, handle: usize, child: Option<Child>) {
        if let Some(comm) = self.describe(handle, child) {
            self.all.insert(handle, comm);
        }
    }

    /// Adds a new communicator that was described before.
    pub fn insert(&mut self, handle: usize, comm: Comm) {
        if !objects::is_null_comm(handle) {
            self.all.insert(handle, comm);
        }
    }

    /// Describes a new communicator with the same members as `like`.
    pub fn describe(&mut self, like: usize, child: Option<Child>) -> Option<Comm> {
        if objects::is_null_comm(like) {
            return None;
        }
        let local = members::world_ranks(like, false)?;
        let is_inter = objects::is_inter(like);
        let remote = if is_inter { members::world_ranks(like, true)? } else { Vec::new() };
        let mut sides = [hash(&local), hash(&remote)];
        if is_inter {
            // Both sides must get the same number.
            sides.sort_unstable();
        }
        let members = mix(sides[0], sides[1]);
        let which = match child {
            Some(Child(which)) => which,
            None => {
                let made = self.made.entry(members).or_default();
                *made += 1;
                *made
            }
        };
        let number = (mix(members, which) >> 16) as u32 | 1;
        let mut rank: c_int = -1;
        // SAFETY: a communicator of the program, and room for an int.
        unsafe { mpi::call(table::MPI_Comm_rank, &[like, &raw mut rank as usize]) };
        let me = usize::try_from(rank).ok().and_then(|rank| local.get(rank)).copied();
        let all = || local.iter().chain(&remote);
        let is_unsupported = all().any(|one| *one < 0);
        let others = all().filter(|one| Some(**one) != me);
        let others = others.filter_map(|one| u32::try_from(*one).ok()).collect();
        let peers = if is_inter { remote } else { local };
        let (is_world, collectives, children) = (false, 0, 0);
        Some(Comm { number, rank, peers, others, is_world, is_unsupported, collectives, children })
    }

    /// Removes a freed communicator; another one may get its handle.
    pub fn remove(&mut self, handle: usize) {
        self.all.remove(&handle);
    }

    /// The handle of the communicator with this number, unless it is unsupported.
    pub fn handle(&self, number: u32) -> Option<usize> {
        let known = self.all.iter().find(|(_, comm)| comm.number == number && !comm.is_unsupported);
        known.map(|(handle, _)| *handle)
    }
}
