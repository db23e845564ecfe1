//! Findings: what is wrong, where, and what to do about it.

use refrain_reader::Call;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Ranks wait for each other, or for a rank that has ended.
    Deadlock,
    /// Ranks would wait for each other if MPI buffered no message.
    PotentialDeadlock,
    /// A wildcard receive could take a message that another receive needs.
    MessageRace,
    /// Members of a communicator call different collectives.
    CollectiveOrder,
    /// Members of a communicator pass different roots.
    RootMismatch,
    /// Members of a communicator pass different reduction operations.
    OperationMismatch,
    /// Counts of a collective do not fit each other.
    CountMismatch,
    /// Datatypes of a message or a collective do not fit each other.
    DatatypeMismatch,
    /// A receive waits for a tag that nobody sends, while a message with another tag is there.
    TagMismatch,
    /// Sender and receiver, or members of a collective, use different communicators.
    CommunicatorMismatch,
    /// A message is longer than the receive allows.
    Truncation,
    /// A message is never received.
    UnmatchedSend,
    /// An argument has a value that MPI does not allow.
    InvalidArgument,
    /// A handle is null, freed, or a datatype that was not committed.
    InvalidHandle,
    /// A request is never completed or freed.
    RequestLeak,
    /// A request is freed while its operation may go on.
    ActiveRequestFreed,
    /// A request is used against its life cycle.
    RequestState,
    /// A persistent request is completed, and was never started.
    NeverStarted,
    /// An object is never freed.
    ObjectLeak,
    /// Operations that are in flight at the same time use the same memory.
    BufferOverlap,
    /// Epochs of a window are not opened and closed as MPI asks.
    RmaEpoch,
    /// Accesses to a window conflict.
    RmaConflict,
    /// An access goes beyond the window.
    RmaRange,
    /// Threads call MPI beyond the thread level that MPI provides.
    ThreadLevel,
    /// A process ends without `MPI_Finalize`.
    MissingFinalize,
    /// A callback makes calls that MPI does not allow there.
    Callback,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 26] = [
        Class::Deadlock,
        Class::PotentialDeadlock,
        Class::MessageRace,
        Class::CollectiveOrder,
        Class::RootMismatch,
        Class::OperationMismatch,
        Class::CountMismatch,
        Class::DatatypeMismatch,
        Class::TagMismatch,
        Class::CommunicatorMismatch,
        Class::Truncation,
        Class::UnmatchedSend,
        Class::InvalidArgument,
        Class::InvalidHandle,
        Class::RequestLeak,
        Class::ActiveRequestFreed,
        Class::RequestState,
        Class::NeverStarted,
        Class::ObjectLeak,
        Class::BufferOverlap,
        Class::RmaEpoch,
        Class::RmaConflict,
        Class::RmaRange,
        Class::ThreadLevel,
        Class::MissingFinalize,
        Class::Callback,
    ];

    /// Its name in output and suppressions.
    pub fn name(self) -> &'static str {
        match self {
            Class::Deadlock => "deadlock",
            Class::PotentialDeadlock => "potential-deadlock",
            Class::MessageRace => "message-race",
            Class::CollectiveOrder => "collective-order",
            Class::RootMismatch => "root-mismatch",
            Class::OperationMismatch => "operation-mismatch",
            Class::CountMismatch => "count-mismatch",
            Class::DatatypeMismatch => "datatype-mismatch",
            Class::TagMismatch => "tag-mismatch",
            Class::CommunicatorMismatch => "communicator-mismatch",
            Class::Truncation => "truncation",
            Class::UnmatchedSend => "unmatched-send",
            Class::InvalidArgument => "invalid-argument",
            Class::InvalidHandle => "invalid-handle",
            Class::RequestLeak => "request-leak",
            Class::ActiveRequestFreed => "active-request-freed",
            Class::RequestState => "request-state",
            Class::NeverStarted => "never-started",
            Class::ObjectLeak => "object-leak",
            Class::BufferOverlap => "buffer-overlap",
            Class::RmaEpoch => "rma-epoch",
            Class::RmaConflict => "rma-conflict",
            Class::RmaRange => "rma-range",
            Class::ThreadLevel => "thread-level",
            Class::MissingFinalize => "missing-finalize",
            Class::Callback => "callback",
        }
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == name)
    }

    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            Class::PotentialDeadlock
            | Class::MessageRace
            | Class::RequestLeak
            | Class::ActiveRequestFreed
            | Class::NeverStarted
            | Class::ObjectLeak
            | Class::UnmatchedSend => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// What to do about it, in a sentence.
    pub fn remedy(self) -> &'static str {
        match self {
            Class::Deadlock => {
                "Let one of the ranks make its calls in another order, or add the call that is missing."
            }
            Class::PotentialDeadlock => {
                "Post receives first (MPI_Irecv), use MPI_Sendrecv, or let one of the ranks receive before it sends: \
                 how much MPI buffers depends on the library, the network and the size of messages."
            }
            Class::MessageRace => {
                "Give the messages different tags, or name the source, so that each receive can get its own message only."
            }
            Class::CollectiveOrder => {
                "All members of a communicator must call the same collectives in the same order: look for a branch that \
                 depends on the rank."
            }
            Class::RootMismatch => "All members must pass the same root.",
            Class::OperationMismatch => "All members must pass the same reduction operation.",
            Class::CountMismatch => {
                "Each process must receive exactly as many elements as are sent to it."
            }
            Class::DatatypeMismatch => {
                "Sender and receiver must pass datatypes with the same sequence of basic types (MPI_BYTE fits all)."
            }
            Class::TagMismatch => "Use the same tag on both sides, or MPI_ANY_TAG in the receive.",
            Class::CommunicatorMismatch => "Use the same communicator on all sides.",
            Class::Truncation => {
                "Receive with a larger count and buffer, or ask for the size with MPI_Probe and MPI_Get_count first."
            }
            Class::UnmatchedSend => "Add the receive, or remove the send.",
            Class::InvalidArgument => "Pass a value that MPI allows.",
            Class::InvalidHandle => {
                "Pass a handle of an object that exists: created, committed if it is a datatype, and not freed yet."
            }
            Class::RequestLeak => {
                "Complete every request (MPI_Wait, MPI_Test and their relatives), and free persistent requests \
                 (MPI_Request_free)."
            }
            Class::ActiveRequestFreed => {
                "Complete the request instead: after MPI_Request_free nothing says when its buffer may be used again."
            }
            Class::RequestState => {
                "Start a persistent request only when it is inactive, and use each request as the call that made it asks."
            }
            Class::NeverStarted => "Start the request (MPI_Start) before it is completed.",
            Class::ObjectLeak => "Free the object when it is no longer needed.",
            Class::BufferOverlap => {
                "Give each operation memory of its own, or complete one operation before the other begins."
            }
            Class::RmaEpoch => {
                "Open an epoch before the accesses (MPI_Win_fence, MPI_Win_lock, MPI_Win_start) and close it after them, \
                 on all ranks that the kind of epoch asks for."
            }
            Class::RmaConflict => {
                "Separate the accesses by a synchronization (MPI_Win_fence, or MPI_Win_unlock and a barrier), or use \
                 MPI_Accumulate with the same operation."
            }
            Class::RmaRange => "Make the window larger, or the displacement or count smaller.",
            Class::ThreadLevel => {
                "Ask for the thread level that the program needs with MPI_Init_thread, and look at what is provided."
            }
            Class::MissingFinalize => "Call MPI_Finalize on every rank before it ends.",
            Class::Callback => "Communicate before or after the call that calls the function back.",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The program is wrong, and works by luck or on this MPI only, or wastes resources.
    Warning,
    /// The program is wrong, and this run shows it.
    Error,
}

impl Severity {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A call that a finding names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// The thread.
    pub thread: u32,
    /// The number of the call in its thread.
    pub number: u64,
    /// The function.
    pub function: &'static str,
    /// The call site as the trace has it, if call sites were recorded.
    pub site: Option<Arc<str>>,
}

impl Place {
    /// The place of a call.
    pub fn of(rank: i32, thread: u32, call: &Call) -> Place {
        Place {
            rank,
            thread,
            number: call.number(),
            function: call.mpi().map_or("an unknown function", |function| function.name.as_str()),
            site: call.site().cloned(),
        }
    }
}

/// A finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its class.
    pub class: Class,
    /// What is wrong: one sentence or two, without ranks where several have the same finding.
    pub message: String,
    /// The calls, the culprit first: those of the first occurrence.
    pub places: Vec<Place>,
    /// The ranks, of all occurrences.
    pub ranks: BTreeSet<i32>,
    /// How often it was found.
    pub times: u64,
}

/// Collects findings, and counts those that differ in ranks and call numbers only.
#[derive(Debug, Default)]
pub struct Findings {
    all: Vec<Finding>,
    known: HashMap<Key, usize>,
    /// How often something was found.
    added: u64,
    /// Errors of calls that have not returned, by rank.
    fatal: BTreeMap<i32, usize>,
}

/// The class, and the functions and call sites of its places.
type Key = (Class, Vec<(&'static str, Option<Arc<str>>)>);

impl Findings {
    /// Adds a finding.
    pub fn add(&mut self, class: Class, message: impl Into<String>, places: Vec<Place>) {
        let key = places.iter().map(|place| (place.function, place.site.clone())).collect();
        let ranks = places.iter().map(|place| place.rank);
        self.added += 1;
        match self.known.get(&(class, key)).copied() {
            Some(at) => {
                if let Some(finding) = self.all.get_mut(at) {
                    finding.ranks.extend(ranks);
                    finding.times += 1;
                }
            }
            None => {
                let key = places.iter().map(|p| (p.function, p.site.clone())).collect();
                self.known.insert((class, key), self.all.len());
                let (ranks, message) = (ranks.collect(), message.into());
                self.all.push(Finding { class, message, places, ranks, times: 1 });
            }
        }
    }

    /// Notes that a call with an error has not returned: MPI has probably aborted the job there.
    pub fn note_fatal(&mut self, rank: i32) {
        *self.fatal.entry(rank).or_default() += 1;
    }

    /// Whether a call with an error has not returned.
    pub fn is_fatal(&self) -> bool {
        !self.fatal.is_empty()
    }

    /// How often something was found so far.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// How many findings there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there is a finding of a class.
    pub fn has(&self, class: Class) -> bool {
        self.all.iter().any(|finding| finding.class == class)
    }

    /// The findings: errors first, then by class, in the order in which they were found.
    pub fn into_sorted(mut self) -> Vec<Finding> {
        self.all.sort_by_key(|f| (std::cmp::Reverse(f.class.severity()), f.class));
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(rank: i32, number: u64) -> Place {
        Place { rank, thread: 0, number, function: "MPI_Send", site: Some("a+1".into()) }
    }

    #[test]
    fn findings_at_the_same_call_site_are_counted_once() {
        let mut findings = Findings::default();
        for rank in 0..3 {
            findings.add(Class::ObjectLeak, "a", vec![place(rank, 7)]);
        }
        findings.add(Class::Deadlock, "b", vec![place(0, 7)]);
        let all = findings.into_sorted();
        assert_eq!(
            all.iter().map(|f| f.class).collect::<Vec<_>>(),
            [Class::Deadlock, Class::ObjectLeak]
        );
        assert_eq!((all[1].times, all[1].ranks.len()), (3, 3));
    }

    #[test]
    fn names_of_classes_are_unique() {
        for class in Class::ALL {
            assert_eq!(Class::named(class.name()), Some(class));
        }
    }
}
