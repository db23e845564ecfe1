//! A traced job that runs in the background while the test inspects it, and kills it.

use refrain_format::part::{HEADER_BYTES, PartHeader};
use refrain_testing::{Mpi, Outcome, Turn, refrain_binary, turn};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for something that will happen, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a condition is true.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A traced job. Its processes are found by a mark in their environment, and killed when this is dropped.
pub struct Job {
    child: Child,
    mark: String,
    folder: PathBuf,
    _turn: Turn,
}

const MARK: &str = "REFRAIN_TEST_BACKGROUND";

impl Job {
    /// Starts `refrain trace -o run.refrain -- mpirun -n RANKS program args` in a folder.
    pub fn start<S: AsRef<OsStr>>(
        mpi: &Mpi,
        folder: &Path,
        ranks: usize,
        program: &Path,
        args: &[S],
    ) -> Job {
        Job::start_with(mpi, folder, &[], ranks, program, args)
    }

    /// The same with options of `refrain trace`.
    pub fn start_with<S: AsRef<OsStr>>(
        mpi: &Mpi,
        folder: &Path,
        options: &[&str],
        ranks: usize,
        program: &Path,
        args: &[S],
    ) -> Job {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
        let turn = turn();
        let file = |name: &str| File::create(folder.join(name)).expect("a file in the folder");
        let child = mpi
            .command(refrain_binary())
            .args(["trace", "-o", "run.refrain"])
            .args(options)
            .args(["--", "mpirun", "-n", &ranks.to_string()])
            .arg(program)
            .args(args)
            .env(MARK, &mark)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("the job starts");
        Job { child, mark, folder: folder.to_owned(), _turn: turn }
    }

    /// The folder of parts.
    pub fn parts(&self) -> PathBuf {
        self.folder.join("run.refrain.parts")
    }

    /// The headers of the parts as they are now.
    pub fn headers(&self) -> Vec<PartHeader> {
        let header = |entry: std::fs::DirEntry| {
            let path = entry.path();
            let mut page = vec![0; HEADER_BYTES];
            File::open(&path).ok()?.read_exact(&mut page).ok()?;
            PartHeader::read(&page).ok().filter(|_| path.extension().is_some_and(|e| e == "part"))
        };
        let entries = std::fs::read_dir(self.parts()).into_iter().flatten().flatten();
        entries.filter_map(header).collect()
    }

    /// The process of a rank.
    pub fn pid_of(&self, rank: i32) -> Option<u32> {
        let headers = self.headers();
        headers.iter().find(|h| h.rank == rank && h.size > 0).map(|h| h.pid as u32)
    }

    /// All its processes: `refrain`, the launcher and the ranks.
    fn processes(&self) -> Vec<u32> {
        let variable = format!("{MARK}={}", self.mark);
        let is_marked = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|all| all.split(|b| *b == 0).any(|entry| entry == variable.as_bytes()))
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_marked).collect()
    }

    /// Sends a signal to all processes at once.
    pub fn signal_all(&self, name: &str) {
        signal(name, &self.processes());
    }

    /// Sends a signal to `refrain` alone, as a batch system might.
    pub fn signal_refrain(&self, name: &str) {
        signal(name, &[self.child.id()]);
    }

    /// Waits for the end of all processes. Returns the output and the exit code.
    pub fn outcome(mut self) -> Outcome {
        let start = Instant::now();
        let mut status = None;
        wait_until("the job ends", || {
            status = self.child.try_wait().expect("the job can be waited for");
            status.is_some()
        });
        wait_until("its processes end", || self.processes().is_empty());
        let read = |name| std::fs::read(self.folder.join(name)).unwrap_or_default();
        let text = |name| String::from_utf8_lossy(&read(name)).into_owned();
        Outcome {
            stdout: text("stdout"),
            stderr: text("stderr"),
            code: status.and_then(|s| s.code()).unwrap_or(-1),
            timed_out: false,
            elapsed: start.elapsed(),
            command: "a job in the background".to_owned(),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.processes().is_empty() && Instant::now() < deadline {
            self.signal_all("KILL");
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.wait();
    }
}

/// Sends a signal.
pub fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let kill = format!("kill -{name} {}", pids.join(" "));
    // Complaints about processes that have already ended are ignored.
    let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
}
