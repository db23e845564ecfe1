//! `semantics.txt` against what the MPI standard states about each procedure (`standard.txt`, see
//! there), and against the forms of the functions themselves.

use refrain_mpi::interface::{Direction, Function, Param, function, functions};
use refrain_mpi::kind::Class;
use refrain_mpi::semantics::{
    Argument, Collective, Form, Meaning, Mode, Object, Op, Over, Root, op_and_form,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the standard states about one parameter.
#[derive(Clone, Copy, Default)]
struct Facts {
    asynchronous: bool,
    constant: bool,
    root: bool,
}

fn standard() -> BTreeMap<&'static str, BTreeMap<&'static str, Facts>> {
    let lines = include_str!("standard.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a function");
            let fact = |word: &'static str| {
                let (parameter, facts) = word.split_once('=').expect("parameter=facts");
                let has = |fact| facts.split('+').any(|f| f == fact);
                let facts = Facts {
                    asynchronous: has("asynchronous"),
                    constant: has("const"),
                    root: has("root"),
                };
                (parameter, facts)
            };
            (name, words.filter(|word| *word != "-").map(fact).collect())
        })
        .collect()
}

/// Each function of the standard in its form without large counts, with the standard's facts.
fn described() -> Vec<(&'static Function, BTreeMap<&'static str, Facts>)> {
    let mut standard = standard();
    let ours = functions().iter().filter(|f| !f.removed && !f.large);
    let all: Vec<_> = ours
        .map(|f| (f, standard.remove(f.name.as_str()).unwrap_or_else(|| panic!("no {}", f.name))))
        .collect();
    assert!(standard.is_empty(), "not in interface.txt: {:?}", standard.keys());
    assert_eq!(all.len(), 531);
    all
}

/// The facts about a function's buffers.
fn of_buffers<'f>(f: &'f Function, facts: &BTreeMap<&str, Facts>) -> Vec<(&'f Param, bool, Facts)> {
    let of = |p: &Param| facts.get(p.name).copied().unwrap_or_default();
    f.buffers().iter().map(|b| (b.param(f), b.at_root, of(b.param(f)))).collect()
}

/// Whether MPI keeps a buffer of the program's until something else happens: memory for buffered
/// sends, and memory of windows.
fn lends_memory(f: &Function) -> bool {
    let object = matches!(f.op(), Op::Make(Object::Window))
        || matches!(f.op(), Op::Change(Object::Window | Object::Buffering));
    object && f.params.iter().any(|p| p.class == Class::Memory && p.direction == Direction::In)
}

#[test]
fn memory_is_in_use_after_a_call_exactly_where_the_standard_says_so() {
    // The standard's data has no attribute for these, though their text demands it.
    let omitted = ["MPI_Psend_init", "MPI_Precv_init"];
    let mut checked = 0;
    for (f, facts) in described() {
        let stays = match f.form() {
            Form::Blocking => matches!(f.op(), Op::Rma(_)) || lends_memory(f),
            // The second half of a split collective is where the memory is given back.
            _ => true,
        };
        for (p, _, fact) in of_buffers(f, &facts) {
            // Not in use, but the compiler must not move accesses across these calls.
            let is_fence = f.op() == Op::Deallocate;
            let expected = (stays || is_fence) && !omitted.contains(&f.name.as_str());
            assert_eq!(fact.asynchronous, expected, "{}: {}", f.name, p.name);
            checked += 1;
        }
        let any = facts.values().any(|fact| fact.asynchronous);
        let is_special = ["MPI_Get_address", "MPI_Free_mem"].contains(&f.name.as_str());
        assert!(!any || stays || is_special, "{} is not over when it returns", f.name);
    }
    assert_eq!(checked, 228, "buffers");
}

#[test]
fn memory_that_mpi_only_reads_is_const_unless_it_is_lent() {
    for (f, facts) in described().iter().filter(|(f, _)| f.op() != Op::Tool) {
        for (p, _, fact) in of_buffers(f, facts) {
            let only_read = p.direction == Direction::In && !lends_memory(f);
            // To release memory, MPI need not write to it, but C says const for one of the two.
            let is_released = f.op() == Op::Deallocate;
            let expected = (only_read && !is_released) || f.name == "MPI_Win_detach";
            assert_eq!(fact.constant, expected, "{}: {}", f.name, p.name);
        }
    }
}

#[test]
fn buffers_count_at_the_root_exactly_where_the_standard_says_so() {
    for (f, facts) in described() {
        for (p, at_root, fact) in of_buffers(f, &facts) {
            // Every process receives in a scatter: the standard's data has a slip here.
            let slip = f.name == "MPI_Scatterv_init" && p.name == "recvbuf";
            assert_eq!(fact.root, at_root || slip, "{}: {}", f.name, p.name);
        }
        if facts.values().any(|fact| fact.root) {
            assert!(f.position(Argument::Root).is_some(), "{}", f.name);
            assert!(f.is_collective(), "{}", f.name);
        }
    }
}

#[test]
fn a_request_comes_from_nonblocking_and_persistent_calls_only() {
    for f in functions() {
        let gives = f.params.iter().any(|p| p.name == "request" && p.direction == Direction::Out);
        let form = matches!(f.form(), Form::Nonblocking | Form::Persistent | Form::Partitioned);
        let only_looks = matches!(
            f.op(),
            Op::Probe | Op::MatchedProbe | Op::Complete(_) | Op::Inspect(_) | Op::Arrived
        ) || f.name == "MPI_Win_test";
        let expected = (form && !only_looks) || f.op() == Op::Make(Object::Request);
        assert_eq!(gives, expected, "{}", f.name);
        if only_looks && form {
            assert!(f.position(Argument::Flag).is_some() || f.name.ends_with("some"), "{}", f.name);
        }
    }
}

#[test]
fn nonblocking_and_persistent_point_to_point_calls_are_local() {
    for f in functions() {
        match f.form() {
            Form::Nonblocking | Form::Partitioned => assert!(f.is_local(), "{}", f.name),
            Form::Persistent => assert_eq!(f.is_local(), !f.is_collective(), "{}", f.name),
            Form::SplitBegin | Form::SplitEnd => assert!(f.is_collective(), "{}", f.name),
            Form::Blocking if f.is_collective() => assert!(!f.is_local(), "{}", f.name),
            Form::Blocking => {}
        }
    }
    assert!(function("MPI_Bsend").unwrap().is_local());
    assert!(!function("MPI_Send").unwrap().is_local());
}

/// The blocking form's name for `MPI_Iallreduce` and `MPI_Allreduce_init`.
fn blocking_name(f: &Function) -> Option<String> {
    let name = f.name.strip_prefix("MPI_")?;
    let name = if f.large { name.strip_suffix("_c")? } else { name };
    let plain = match f.form() {
        Form::Nonblocking => match name.strip_prefix("File_i") {
            Some(rest) => format!("File_{rest}"),
            None => {
                let rest = name.strip_prefix('I')?;
                rest[..1].to_uppercase() + &rest[1..]
            }
        },
        Form::Persistent => name.strip_suffix("_init")?.to_owned(),
        _ => return None,
    };
    Some(format!("MPI_{plain}{}", if f.large { "_c" } else { "" }))
}

#[test]
fn forms_of_one_operation_differ_in_form_only() {
    let mut compared = 0;
    for f in functions() {
        let Some(blocking) = blocking_name(f).and_then(|name| function(&name)) else { continue };
        assert_eq!(f.op(), blocking.op(), "{}", f.name);
        assert_eq!(f.over(), blocking.over(), "{}", f.name);
        assert_eq!(blocking.form(), Form::Blocking, "{}", blocking.name);
        let names =
            |f: &'static Function| f.buffers().iter().map(|b| b.param(f).name).collect::<Vec<_>>();
        assert_eq!(names(f), names(blocking), "{}", f.name);
        compared += 1;
    }
    assert!(compared > 120, "{compared} pairs");
}

#[test]
fn operations_have_the_arguments_they_need() {
    for f in functions() {
        let has = |argument| f.position(argument).is_some();
        let name = &f.name;
        let is_send = matches!(f.op(), Op::Send(_) | Op::SendReceive);
        assert_eq!(has(Argument::Dest), is_send, "{name}");
        let input = |at: usize| f.params[at].direction == Direction::In;
        let is_receive =
            matches!(f.op(), Op::Receive | Op::SendReceive | Op::Probe | Op::MatchedProbe);
        let source = f.position(Argument::Source).filter(|at| input(*at));
        let is_status = matches!(f.op(), Op::Change(Object::Status));
        assert_eq!(source.is_some() && !is_status, is_receive, "{name}");
        if let Op::Collective(c) = f.op() {
            assert_eq!(c.root().is_some(), has(Argument::Root), "{name}");
            assert_eq!(c.reduces(), f.param("op").is_some(), "{name}");
            assert_eq!(f.over(), Some(Over::Comm), "{name}");
        }
        match f.over() {
            Some(Over::Comm | Over::CommAndRemote) => assert!(has(Argument::Comm), "{name}"),
            Some(Over::Window) => assert!(has(Argument::Window), "{name}"),
            Some(Over::File) => assert!(has(Argument::File), "{name}"),
            Some(Over::Group) => {
                assert!(f.params.iter().any(|p| p.kind.name == "GROUP"), "{name}");
            }
            Some(Over::Session) => assert!(f.param("session").is_some(), "{name}"),
            Some(Over::World) | None => {}
        }
        if f.op() == Op::Make(Object::Comm) {
            assert!(f.is_collective() && has(Argument::NewComm), "{name}");
        }
        if matches!(f.op(), Op::Complete(_) | Op::Inspect(_) | Op::Start | Op::Cancel) {
            assert!(has(Argument::Request), "{name}");
        }
    }
}

#[test]
fn every_buffer_of_a_communication_is_described() {
    for f in functions() {
        // MPI returns the address of memory, or is given it.
        let is_memory = |p: &&Param| p.class == Class::Memory || p.kind.name == "C_BUFFER";
        let memory = f.params.iter().filter(is_memory).map(|p| p.name);
        let memory: BTreeSet<&str> = memory.collect();
        let buffers: BTreeSet<&str> = f.buffers().iter().map(|b| b.param(f).name).collect();
        assert!(buffers.is_subset(&memory), "{}: {buffers:?}", f.name);
        if !matches!(f.op(), Op::Local | Op::Convert(_)) {
            assert_eq!(buffers, memory, "{}", f.name);
        }
        for buffer in f.buffers() {
            if let Some(datatype) = buffer.datatype {
                assert_eq!(f.params[datatype].kind.name, "DATATYPE", "{}", f.name);
            }
        }
    }
}

#[test]
fn handles_that_a_call_makes_and_frees_are_of_its_object() {
    let objects = |f: &Function, positions: Vec<usize>| -> Vec<&'static str> {
        positions.iter().map(|at| f.params[*at].kind.reads_as).collect()
    };
    let made = |name: &str| {
        let f = function(name).unwrap();
        objects(f, f.creates().collect())
    };
    let freed = |name: &str| {
        let f = function(name).unwrap();
        objects(f, f.frees().collect())
    };
    assert_eq!(made("MPI_Comm_idup"), ["comm", "request"]);
    assert_eq!(made("MPI_Comm_get_parent"), [""; 0], "borrowed");
    assert_eq!(made("MPI_Comm_group"), ["group"]);
    assert_eq!(made("MPI_Mprobe"), ["message"]);
    assert_eq!(freed("MPI_Mrecv"), ["message"]);
    assert_eq!(freed("MPI_File_close"), ["file"]);
    assert_eq!(freed("MPI_Start"), [""; 0]);
    for f in functions() {
        if let Op::Make(object) = f.op()
            && object != Object::Keyval
        {
            assert!(f.creates().next().is_some(), "{}", f.name);
        }
        if let Op::Free(object) = f.op()
            && object != Object::Keyval
        {
            assert!(f.frees().next().is_some(), "{}", f.name);
        }
    }
}

#[test]
fn ranks_tags_and_counts_are_known_by_their_meaning() {
    let meaning = |f: &str, p: &str| function(f).unwrap().param(p).unwrap().meaning();
    assert_eq!(meaning("MPI_Send_c", "count"), Meaning::Count);
    assert_eq!(meaning("MPI_Send", "dest"), Meaning::Rank);
    assert_eq!(meaning("MPI_Sendrecv", "recvtag"), Meaning::Tag);
    assert_eq!(meaning("MPI_Alltoallv", "sdispls"), Meaning::Displacement);
    assert_eq!(meaning("MPI_Put", "target_disp"), Meaning::Displacement);
    assert_eq!(meaning("MPI_File_read_at", "offset"), Meaning::Offset);
    assert_eq!(meaning("MPI_Win_create", "size"), Meaning::Bytes);
    for f in functions() {
        for at in [Argument::Source, Argument::Dest, Argument::Root, Argument::Target] {
            // `source` and `rank` also stand for other things, in the tool interface and in results.
            let Some(p) = f.position(at).map(|at| &f.params[at]) else { continue };
            if f.op() != Op::Tool {
                assert_eq!(p.meaning(), Meaning::Rank, "{}: {}", f.name, p.name);
            }
        }
        for buffer in f.buffers() {
            use refrain_mpi::semantics::Amount;
            if let (Amount::Count(at) | Amount::Each(at, _), Some(_)) =
                (buffer.amount, buffer.datatype)
            {
                assert_eq!(f.params[at].meaning(), Meaning::Count, "{}", f.name);
            }
        }
    }
}

#[test]
fn one_row_says_the_same_as_the_whole_table() {
    for f in functions() {
        assert_eq!(op_and_form(&f.name), Some((f.op(), f.form())), "{}", f.name);
    }
    for name in ["", "MPI_", "MPI_Sen", "MPI_Barrier_d", "refrain_members"] {
        assert_eq!(op_and_form(name), None, "{name}");
    }
}

#[test]
fn calls_that_wait_for_a_disk_or_another_job_are_known() {
    let waits = |name: &str| function(name).unwrap().waits_beyond_job();
    let lasting = [
        "MPI_Comm_accept",
        "MPI_Comm_connect",
        "MPI_Comm_join",
        "MPI_Comm_spawn",
        "MPI_Comm_spawn_multiple",
        "MPI_File_open",
        "MPI_File_delete",
        "MPI_File_get_size",
        "MPI_File_read_c",
        "MPI_File_write_ordered_end",
        "MPI_File_sync",
        "MPI_File_close",
    ];
    for name in lasting {
        assert!(waits(name), "{name}");
    }
    for name in ["MPI_Recv", "MPI_Barrier", "MPI_Win_create", "MPI_Comm_dup", "MPI_Finalize"] {
        assert!(!waits(name), "{name}");
    }
    for f in functions().iter().filter(|f| f.name.starts_with("MPI_File_") && !f.is_local()) {
        assert!(f.waits_beyond_job(), "{}", f.name);
    }
}

#[test]
fn roots_and_modes_are_told_apart() {
    let op = |name: &str| function(name).unwrap().op();
    assert_eq!(op("MPI_Issend_c"), Op::Send(Mode::Synchronous));
    assert_eq!(Collective::Scatterv.root(), Some(Root::Source));
    assert_eq!(Collective::Gather.root(), Some(Root::Destination));
    assert_eq!(Collective::ReduceScatter.root(), None);
    assert!(Collective::Allreduce.synchronizes());
    assert!(!Collective::Allgatherv.synchronizes(), "counts may be zero");
    let group = function("MPI_Comm_create_group").unwrap();
    assert_eq!(group.over(), Some(Over::Group), "not all of the communicator call it");
}
