//! Collective data movement and reduction.

/// The collective operations on communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Collective {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
}

/// What the root of a collective does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// Data come from it: the others wait for the root alone.
    Source,
    /// Data go to it: it waits for all others.
    Destination,
}

/// From which processes a process gets data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// All processes get data of one.
    OneToAll,
    /// One process gets data of all.
    AllToOne,
    /// All processes get data of all.
    AllToAll,
    /// Each process gets data of the processes before it.
    Prefix,
    /// Each process gets data of its neighbours in the communicator's topology.
    Neighbors,
}

impl Collective {
    /// What the root does; none if there is no root.
    pub fn root(self) -> Option<Root> {
        match self {
            Collective::Bcast | Collective::Scatter | Collective::Scatterv => Some(Root::Source),
            Collective::Gather | Collective::Gatherv | Collective::Reduce => {
                Some(Root::Destination)
            }
            _ => None,
        }
    }

    /// From which processes a process gets data.
    pub fn pattern(self) -> Pattern {
        use Collective::*;
        match self {
            Bcast | Scatter | Scatterv => Pattern::OneToAll,
            Gather | Gatherv | Reduce => Pattern::AllToOne,
            Scan | Exscan => Pattern::Prefix,
            NeighborAllgather | NeighborAllgatherv | NeighborAlltoall | NeighborAlltoallv
            | NeighborAlltoallw => Pattern::Neighbors,
            Barrier | Allgather | Allgatherv | Alltoall | Alltoallv | Alltoallw | Allreduce
            | ReduceScatter | ReduceScatterBlock => Pattern::AllToAll,
        }
    }

    /// Whether no process can complete it before all have started it, provided that it moves
    /// anything at all. Where counts differ by process (`v` and `w` forms, `MPI_Reduce_scatter`), some
    /// of them may be zero, and then it need not synchronize.
    pub fn synchronizes(self) -> bool {
        use Collective::*;
        matches!(self, Barrier | Allgather | Alltoall | Allreduce)
    }

    /// Whether it applies a reduction operation.
    pub fn reduces(self) -> bool {
        use Collective::*;
        matches!(self, Reduce | Allreduce | ReduceScatter | ReduceScatterBlock | Scan | Exscan)
    }
}
