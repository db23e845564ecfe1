//! One command and all the processes that it starts, directly or indirectly.
//!
//! A launcher starts ranks in process groups and sessions of their own, so neither its process
//! id nor its group finds them all. Instead, every process of a job inherits a mark in its environment.
//! A job is over when no marked process is left, and killing a job kills all marked processes.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// The environment variable that holds a job's mark.
const MARK: &str = "REFRAIN_TEST_JOB";

/// How long a launcher may take to clean up after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a command to its end, or kills it and all processes it has started when `timeout` has passed.
pub(crate) fn execute(command: &mut Command, timeout: Duration) -> Outcome {
    let mark = new_mark();
    // Files, not pipes: a process left behind by the program cannot keep them open.
    let mut stdout = tempfile::tempfile().expect("a temporary file for stdout");
    let mut stderr = tempfile::tempfile().expect("a temporary file for stderr");
    command.env(MARK, &mark).stdin(Stdio::null()).stdout(shared(&stdout)).stderr(shared(&stderr));

    let start = Instant::now();
    let mut child =
        command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let pid = child.id();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));

    let in_time = ended.recv_timeout(timeout);
    let elapsed = start.elapsed();
    let (status, timed_out) = match in_time {
        Ok(status) => (status, !ends_by(&mark, start + timeout)),
        Err(_) => {
            signal("TERM", &[pid]);
            let status = ended.recv_timeout(GRACE).or_else(|_| {
                kill_all(&mark);
                ended.recv()
            });
            (status.expect("the waiting thread lives"), true)
        }
    };
    if timed_out {
        kill_all(&mark);
    }

    Outcome {
        stdout: contents(&mut stdout),
        stderr: contents(&mut stderr),
        code: code(status.expect("the command can be waited for")),
        timed_out,
        elapsed,
        command: format!("{command:?}"),
    }
}

fn new_mark() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", process::id(), JOBS.fetch_add(1, Ordering::Relaxed))
}

fn shared(file: &File) -> File {
    file.try_clone().expect("a second handle on a temporary file")
}

fn contents(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .expect("a temporary file can be read back");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .expect("a process that ended has a code or a signal")
}

/// The living processes of a job.
struct Living {
    /// Processes that have its mark.
    marked: Vec<u32>,
    /// Whether some process was executing `execve`, and may turn out to have the mark.
    undecided: bool,
}

impl Living {
    fn of(mark: &str) -> Living {
        let variable = format!("{MARK}={mark}");
        let mut living = Living { marked: Vec::new(), undecided: false };
        let Ok(processes) = fs::read_dir("/proc") else {
            return living;
        };
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        for pid in pids {
            // The environment of a process that ends meanwhile, or of another user, cannot be read.
            let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
                continue;
            };
            if environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()) {
                living.marked.push(pid);
            }
            living.undecided |= environment.is_empty() && is_between_programs(pid);
        }
        living
    }

    fn is_over(&self) -> bool {
        self.marked.is_empty() && !self.undecided
    }
}

/// Whether a process without an environment is in the middle of an `execve`.
///
/// The kernel removes the old program's memory before it sets up the arguments and the environment of
/// the new program. Meanwhile the process has an executable, unlike a kernel thread or a zombie.
fn is_between_programs(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| arguments.is_empty())
        && fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// Waits until no process of the job is left; false if some still run at the deadline.
fn ends_by(mark: &str, deadline: Instant) -> bool {
    while !Living::of(mark).is_over() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn kill_all(mark: &str) {
    // Repeated, because a process may fork while the list is made.
    let deadline = Instant::now() + GRACE;
    loop {
        let living = Living::of(mark);
        if living.is_over() || Instant::now() >= deadline {
            return;
        }
        if !living.marked.is_empty() {
            signal("KILL", &living.marked);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn signal(name: &str, pids: &[u32]) {
    // The shell's `kill` always exists, and needs no unsafe code. Its complaints about processes that
    // have already ended are ignored.
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let _ = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{name} {}", pids.join(" ")))
        .stderr(Stdio::null())
        .status();
}
