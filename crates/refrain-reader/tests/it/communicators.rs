//! Communicators are known to every thread of a process, before their first use.

use crate::{golden, traces};
use refrain_mpi::semantics::Argument;
use refrain_reader::{CallTrace, Item, Peer, Source, open};
use std::collections::{BTreeSet, HashSet};

fn threads() -> CallTrace {
    open(&golden("threads-calls")).expect("a file that reads").calls().expect("a trace of calls")
}

#[test]
fn a_thread_knows_the_members_of_communicators_that_another_thread_made() {
    let trace = threads();
    let (mut sends, mut in_other_threads) = (0, 0);
    for task in trace.tasks() {
        for call in task.calls().expect("calls") {
            let call = call.expect("a call");
            let Some(Peer::Rank(dest)) = call.peer_in("dest") else { continue };
            // Its communicators are duplicates of MPI_COMM_WORLD.
            assert_eq!(call.world_rank_in("dest"), Some(dest), "{call}");
            assert_eq!(call.comm_size(), Some(2), "{call}");
            sends += 1;
            in_other_threads += usize::from(task.thread() > 0);
        }
    }
    assert!(sends > 0 && in_other_threads > 0, "{in_other_threads} of {sends} sends");
}

#[test]
fn the_size_of_a_communicator_is_what_the_program_was_told() {
    let mut asked = 0;
    for trace in traces() {
        for task in trace.tasks() {
            for call in task.calls().expect("calls") {
                let call = call.expect("a call");
                if call.name() == "MPI_Comm_size" && call.returned() {
                    let size = call.int("size").and_then(|size| u32::try_from(size).ok());
                    assert_eq!(call.comm_size(), size, "{call}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 5, "{asked}");
}

#[test]
fn without_times_a_call_knows_its_communicator_before_the_note_with_the_members() {
    let (mut uses, mut early) = (0, 0);
    for trace in traces() {
        for process in trace.processes() {
            let items = process.items(Source::Untimed).expect("items");
            let names = items.names().clone();
            let mut noted = HashSet::new();
            for item in items {
                match item.expect("an item").1 {
                    Item::Note(note) => noted.extend(note.members().map(|members| members.comm)),
                    Item::Call(call) => {
                        let Some(comm) = call.arguments().handle(Argument::Comm) else { continue };
                        if names.name("comm", comm).is_none() {
                            assert!(call.comm_size().is_some(), "{process:?}: {call}");
                            uses += 1;
                            early += usize::from(!noted.contains(&comm));
                        }
                    }
                }
            }
        }
    }
    assert!(uses > 100 && early > 0, "{uses} uses, {early} before the note");
}

#[test]
fn peers_of_a_structure_are_those_of_its_calls() {
    let mut peers = 0;
    for trace in traces() {
        for task in trace.tasks() {
            let Some(structure) = task.structure().expect("a structure") else { continue };
            let rank = trace.rank_index(task.index());
            let mut symbolic = BTreeSet::new();
            for signature in structure.signatures() {
                let name = &signature.function.name;
                for arguments in signature.variants().filter(|a| a.ranks.contains(rank)) {
                    if let Some(to) = arguments.world_rank_on("dest", rank) {
                        symbolic.insert((name.clone(), to));
                    }
                }
            }
            let mut decoded = BTreeSet::new();
            for call in task.calls().expect("calls") {
                let call = call.expect("a call");
                if let Some(to) = call.world_rank_in("dest") {
                    decoded.insert((call.name().to_owned(), to));
                }
            }
            assert_eq!(symbolic, decoded, "{task:?}");
            peers += symbolic.len();
        }
    }
    assert!(peers > 20, "{peers}");
}
