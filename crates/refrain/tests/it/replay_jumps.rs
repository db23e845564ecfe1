//! Recording and replaying programs that leave MPI calls without returning from them (by `longjmp`, by an exception,
//! by cancellation), and programs that fork.

use crate::order_programs::{Victim, assert_same};
use refrain_testing::{Mpi, sorted_lines};

/// Exit codes of replays: the program diverged; there is nothing to replay.
const DIVERGED: i32 = 94;
const NO_RECORD: i32 = 97;

const METHODS: [&str; 2] = ["causal", "clock"];

/// Both methods, under an MPI of each family. The program prints the same in every run, also when it is recorded
/// and replayed.
fn says_the_same_recorded_and_replayed(source: &str, arguments: &[&str]) {
    for mpi in Mpi::usual() {
        for method in METHODS {
            let victim = Victim::new(&mpi, source, arguments).by(method).on("2");
            let plain = victim.plain().expect_success();
            assert!(plain.stdout.contains("> "), "{plain}");
            let recorded = victim.record("run.refrain").expect_success();
            assert_same(&plain, &recorded);
            assert!(recorded.stderr.contains("written to run.refrain"), "{recorded}");
            assert!(!recorded.stderr.contains("not all of rank"), "{recorded}");
            assert_same(&plain, &victim.replay("run.refrain").expect_success());
            assert!(victim.is_clean(), "something was left behind");
        }
    }
}

#[test]
fn a_longjmp_out_of_an_error_handler_is_recorded_and_replayed() {
    says_the_same_recorded_and_replayed("longjmp.c", &[]);
}

#[test]
fn an_exception_out_of_an_error_handler_is_recorded_and_replayed() {
    says_the_same_recorded_and_replayed("exception.cpp", &[]);
}

#[test]
fn cancelled_threads_are_recorded_and_replayed() {
    says_the_same_recorded_and_replayed("cancelled_threads.c", &["without polls"]);
}

#[test]
fn programs_that_fork_while_threads_allocate_are_recorded_and_replayed() {
    says_the_same_recorded_and_replayed("fork_and_allocate.c", &[]);
}

#[test]
fn a_child_that_forks_silently_does_not_write_into_its_parent_s_record() {
    says_the_same_recorded_and_replayed("silent_fork.c", &[]);
}

/// A signal handler that jumps out of whatever it interrupts. A replay with the clock method does work in every
/// call, so a jump may interrupt that work: then the replay stops and says so.
#[test]
fn handlers_that_jump_out_of_calls_leave_the_program_as_it_was() {
    for mpi in Mpi::usual() {
        for method in METHODS {
            let victim = Victim::new(&mpi, "jumps_away.c", &[]).by(method).on("1");
            let plain = victim.plain().expect_success();
            assert_same(&plain, &victim.record("run.refrain").expect_success());
            let replayed = victim.replay("run.refrain");
            assert!(!replayed.timed_out, "{replayed}");
            match (method, replayed.code) {
                ("clock", NO_RECORD) => assert!(replayed.stderr.contains("handler"), "{replayed}"),
                _ => assert_same(&plain, &replayed.expect_success()),
            }
        }
    }
}

/// A thread that polls until it is cancelled polls a different number of times in every run. A replay may report
/// a divergence, but never hangs.
#[test]
fn a_thread_that_is_cancelled_while_it_polls_is_recorded() {
    for mpi in Mpi::usual() {
        for method in METHODS {
            let victim = Victim::new(&mpi, "cancelled_threads.c", &[]).by(method).on("2");
            let plain = victim.plain().expect_success();
            assert_same(&plain, &victim.record("run.refrain").expect_success());
            let replayed = victim.replay("run.refrain");
            assert!(!replayed.timed_out && [0, DIVERGED].contains(&replayed.code), "{replayed}");
        }
    }
}

/// A completing call or receive that an error handler leaves by `longjmp` is not in the record (see the
/// rules of the agent). The program does not notice the recording, and a replay stops there by itself.
#[test]
fn a_receive_that_is_left_by_longjmp_stops_a_replay_but_not_a_recording() {
    let jumps = |text: &str| -> Vec<String> {
        let lines = sorted_lines(text).into_iter().filter(|line| line.contains("jump"));
        lines.map(str::to_owned).collect()
    };
    for mpi in Mpi::usual() {
        for method in METHODS {
            let victim = Victim::new(&mpi, "order_jumps.c", &[]).by(method).on("3");
            let plain = victim.plain().expect_success();
            let recorded = victim.record("run.refrain").expect_success();
            assert_eq!(jumps(&plain.stdout), jumps(&recorded.stdout), "{recorded}");
            if method == "causal" {
                assert!(recorded.stderr.contains("left by longjmp"), "{recorded}");
            }
            let replayed = victim.replay("run.refrain");
            assert!(!replayed.timed_out && replayed.code == DIVERGED, "{replayed}");
        }
    }
}

/// When the process has no memory left, the recording ends, and the program continues as without it.
#[test]
fn a_recording_without_memory_ends_and_the_program_continues() {
    for mpi in Mpi::usual() {
        for method in METHODS {
            let victim = Victim::new(&mpi, "order_memory.c", &[]).by(method).on("2");
            let plain = victim.plain().expect_success();
            assert!(plain.stdout.contains("no memory left"), "{plain}");
            let recorded = victim.record("run.refrain").expect_success();
            assert_same(&plain, &recorded);
            assert!(recorded.stderr.contains("there was no memory left"), "{recorded}");
        }
    }
}
