//! `refrain replay --until` holds a rank, or one thread of it, until a debugger is attached. The debugger
//! is this test: it traces the threads of the process, as gdb does, and lets them go on.

use crate::order_programs::Victim;
use refrain_testing::{Mpi, turn};
use std::ffi::c_long;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A job that does not outlive its test.
struct Job(Child);

impl Drop for Job {
    fn drop(&mut self) {
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            for _ in 0..100 {
                if self.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                    return;
                }
                // SAFETY: a plain system call on a child that nobody has waited for.
                unsafe { libc::kill(self.0.id() as i32, signal) };
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn ptrace(request: u32, thread: i32, signal: i32) -> c_long {
    // SAFETY: requests that need no memory.
    unsafe { libc::ptrace(request, thread, 0usize, signal as usize) }
}

/// Traces all threads of a process, waits for the one that was held, which gets SIGTRAP, and lets all go on.
fn debug(process: i32) {
    let tracer = std::thread::spawn(move || {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
        let thread = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let threads: Vec<i32> = threads.flatten().filter_map(thread).collect();
        for thread in threads {
            // A thread that has ended meanwhile is not the one that is held.
            ptrace(libc::PTRACE_SEIZE, thread, 0);
        }
        loop {
            let mut status = 0;
            // SAFETY: room for a status. Other children of this process are not waited for.
            let thread =
                unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            assert!(thread > 0, "all threads have ended, and none was stopped");
            if !libc::WIFSTOPPED(status) {
                continue;
            }
            let signal = libc::WSTOPSIG(status);
            if signal == libc::SIGTRAP {
                assert_eq!(ptrace(libc::PTRACE_DETACH, thread, 0), 0);
                // The others are detached when this thread ends.
                return;
            }
            ptrace(libc::PTRACE_CONT, thread, signal);
        }
    });
    tracer.join().expect("it can be traced");
}

/// Holds a thread of rank 1 at its fifth call.
fn is_held(victim: &Victim) {
    let recorded = victim.record("run.refrain").expect_success();
    let shown = victim.look(&["show", "run.refrain", "--rank", "1"]).expect_success();
    let line = shown.stdout.lines().rfind(|line| line.contains("  call 5: ")).expect("five calls");
    let who = line.split_whitespace().nth(1).expect("rank 1 or 1.2");

    let until = format!("{who}:5");
    let _turn = turn();
    let mut command =
        victim.command(&["replay", "run.refrain", "--until", &until, "--"], &victim.words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = Job(command.spawn().expect("it can be started"));
    let stderr = BufReader::new(job.0.stderr.take().expect("it is a pipe"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let held = lines.find(|line| line.contains("is held")).expect("it is held");
    assert!(held.contains("rank 1: is held at call 5, "), "{held}");
    let process = held.split("process ").nth(1).and_then(|rest| rest.split(' ').next());
    let process = process.and_then(|process| process.parse().ok()).expect("a number");
    debug(process);

    let mut stdout = String::new();
    job.0.stdout.take().expect("it is a pipe").read_to_string(&mut stdout).expect("text");
    assert!(job.0.wait().expect("it ends").success(), "{stdout}");
    let sorted = refrain_testing::sorted_lines;
    assert_eq!(sorted(&recorded.stdout), sorted(&stdout));
}

#[test]
fn a_rank_is_held_for_a_debugger_and_goes_on() {
    for mpi in Mpi::usual() {
        is_held(&Victim::new(&mpi, "order_waitany.c", &["5"]));
    }
}

#[test]
fn a_thread_is_held_for_a_debugger_and_goes_on() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_threads.c", &["5"]);
        is_held(&victim);
        let which = victim.run(&["replay", "run.refrain", "--until", "1:5", "--"], &victim.words);
        assert!(which.code == 2 && which.stderr.contains("say which, such as 1."), "{which}");
        let late =
            victim.run(&["replay", "run.refrain", "--until", "1.1:9999", "--"], &victim.words);
        assert!(late.code == 2 && late.stderr.contains("thread 1 of rank 1 has"), "{late}");
    }
}
