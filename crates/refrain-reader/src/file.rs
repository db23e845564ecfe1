//! A `.refrain` file of any kind.

use crate::error::TraceError;
use crate::orders::Orders;
use crate::run::Run;
use crate::trace::CallTrace;
use refrain_container::Container;
use refrain_memtrace::MemoryTrace;
use std::path::Path;

/// What a `.refrain` file holds.
#[derive(Debug)]
pub enum File {
    /// MPI calls (`refrain trace`).
    Calls(Box<CallTrace>),
    /// MPI's nondeterministic choices, for replay (`refrain record`).
    Orders(Box<Orders>),
    /// Loads and stores (`refrain mem`).
    Memory(Box<MemoryTrace>),
}

/// Opens a file of any kind.
pub fn open(path: &Path) -> Result<File, TraceError> {
    File::of(Container::open(path)?)
}

/// Whether a file is one of Refrain's, of whatever kind; it may be damaged.
pub fn is_one(path: &Path) -> bool {
    Container::is_one(path)
}

impl File {
    /// What a container holds.
    pub fn of(container: Container) -> Result<File, TraceError> {
        if MemoryTrace::is_in(&container) {
            let path = container.path().to_owned();
            let memory = MemoryTrace::of(container);
            let memory = memory.map_err(|why| TraceError::Memory { path, why: why.to_string() })?;
            return Ok(File::Memory(Box::new(memory)));
        }
        if Orders::are_in(&container) {
            return Ok(File::Orders(Box::new(Orders::read(&container)?)));
        }
        Ok(File::Calls(Box::new(CallTrace::of(container)?)))
    }

    /// Whether the end of the file is missing, and the sections before it were recovered.
    pub fn is_recovered(&self) -> bool {
        match self {
            File::Calls(trace) => trace.container().is_recovered(),
            File::Orders(orders) => orders.is_recovered,
            File::Memory(memory) => memory.container().is_recovered(),
        }
    }

    /// The run that was recorded.
    pub fn run(&self) -> Run {
        match self {
            File::Calls(trace) => trace.run(),
            File::Orders(orders) => Run::of_orders(orders),
            File::Memory(memory) => Run::of_memory(memory.facts()),
        }
    }

    /// The trace of memory references, if it is one.
    pub fn memory(self) -> Option<MemoryTrace> {
        match self {
            File::Memory(trace) => Some(*trace),
            File::Calls(_) | File::Orders(_) => None,
        }
    }

    /// The trace of calls, if it is one.
    pub fn calls(self) -> Option<CallTrace> {
        match self {
            File::Calls(trace) => Some(*trace),
            File::Orders(_) | File::Memory(_) => None,
        }
    }
}
