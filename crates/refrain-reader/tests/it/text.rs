//! Calls and arguments as text.

use crate::golden;
use refrain_reader::{CallTrace, Peer, Value, open};

fn stencil() -> CallTrace {
    open(&golden("stencil")).expect("a file that reads").calls().expect("a trace of calls")
}

#[test]
fn a_call_prints_its_arguments_with_names() {
    let trace = stencil();
    let task = trace.tasks().next().expect("a task");
    let mut sends = task.calls().expect("calls").map(|call| call.expect("a call"));
    let send = sends.find(|call| call.name() == "MPI_Isend").expect("a send").to_string();
    for part in ["MPI_Isend(buf=heap", "+0x", "datatype=MPI_DOUBLE", "dest=", "comm=0x"] {
        assert!(send.contains(part), "{part}: {send}");
    }
}

#[test]
fn arguments_of_a_signature_print_as_formulas_of_the_rank() {
    let trace = stencil();
    let mut all = String::new();
    for structure in trace.structures().expect("structures") {
        for signature in structure.signatures().filter(|s| s.function.name == "MPI_Isend") {
            for arguments in signature.variants() {
                let text = |(name, arg)| format!("{name}={arg}");
                let arguments: Vec<String> = arguments.all().into_iter().map(text).collect();
                all += &format!("{}({})\n", signature.function.name, arguments.join(", "));
            }
        }
    }
    for part in ["dest=0: -1; else rank - 2", "comm=object 1", "datatype=", "buf=segment "] {
        assert!(all.contains(part), "{part}:\n{all}");
    }
}

#[test]
fn values_and_peers_print_as_they_are_called() {
    assert_eq!(Value::List(vec![Value::Int(1), Value::Null]).to_string(), "[1, NULL]");
    assert_eq!(Value::Text(b"a\n".to_vec()).to_string(), "\"a\\n\"");
    let place = |offset| Value::Location { thread: None, segment: 3, name: "heap3".into(), offset };
    assert_eq!(place(64).to_string(), "heap3+0x40");
    assert_eq!(place(-1).to_string(), "heap3-0x1");
    assert_eq!(place(0).to_string(), "heap3");
    assert_eq!(format!("{:>3}|{}", Peer::Rank(7), Peer::ProcNull), "  7|MPI_PROC_NULL");
}
