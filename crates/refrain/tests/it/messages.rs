//! Sends are paired with their receives, whatever the order in which ranks and threads make
//! communicators: `refrain verify` finds no message that was received before it was sent.

use refrain_testing::{Mpi, refrain};
use serde_json::Value as Json;

const MPIS: [&str; 2] = ["mpich-4.0", "openmpi-4.1"];

/// What `refrain verify` prints about the messages of a program.
fn messages(mpi: &Mpi, ranks: usize, program: &str, args: &[&str]) -> Json {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("victim.refrain");
    let program = mpi.compile_with(program, &["-pthread"]);
    let run = mpi.run(ranks).program(program).args(args).trace_to(Some(&trace));
    let outcome = run.output().expect_success();
    assert!(!outcome.stdout.contains("instead of"), "{outcome}");
    let outcome = refrain(["verify".as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let found: Json = serde_json::from_str(&outcome.expect_success().stdout).expect("JSON");
    assert_eq!(found["ok"], true, "{found}");
    found["messages"].clone()
}

/// Asserts that all messages of a program are paired correctly. There must be `all` of them.
fn assert_paired(ranks: usize, program: &str, args: &[&str], all: impl Fn(&Mpi) -> u64) {
    for name in MPIS {
        let mpi = Mpi::named(name).unwrap_or_else(|| panic!("{name} is not installed"));
        let messages = messages(&mpi, ranks, program, args);
        let who = format!("{program} under {name}: {messages}");
        assert_eq!(messages["beyond_clocks"], 0, "{who}");
        assert_eq!(messages["unpaired"], 0, "{who}");
        assert_eq!(messages["paired"], all(&mpi), "{who}");
    }
}

#[test]
fn communicators_that_ranks_duplicate_in_different_orders_are_distinguished() {
    // Seven times, one message each way on each of four communicators.
    assert_paired(4, "comm_order.c", &[], |_| 7 * 4 * 2);
}

#[test]
fn receives_that_were_cancelled_got_no_message_even_if_their_statuses_were_ignored() {
    // In each of 20 rounds one message each way.
    assert_paired(2, "cancelled_receives.c", &[], |_| 20 * 2);
}

#[test]
fn messages_of_threads_that_receive_at_once_are_not_paired_in_an_unknown_order() {
    // Four threads of each rank send 200 messages each to four others.
    assert_paired(2, "thread_lanes.c", &[], |_| 2 * 4 * 200);
}

#[test]
fn communicators_that_threads_make_in_different_orders_are_distinguished() {
    // On each of three communicators, for each way of making them.
    let ways = |mpi: &Mpi| if mpi.name().starts_with("mpich") { 2 } else { 3 };
    assert_paired(2, "comm_order_threads.c", &[], |mpi| ways(mpi) * 3 * 2);
}
