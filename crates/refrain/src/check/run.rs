//! Traces a command, and ends it if it hangs.

use super::{Opened, opened};
use crate::where_;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder that is removed with the value.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates a folder for temporary files, which only this user can read.
pub fn temporary_folder() -> Result<TemporaryFolder> {
    use std::os::unix::fs::DirBuilderExt;
    for number in 0..1000 {
        let path =
            std::env::temp_dir().join(format!("refrain-check-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(TemporaryFolder(path)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot create {}", path.display()));
            }
        }
    }
    bail!("{} is full of folders of Refrain", std::env::temp_dir().display())
}

/// How often it is asked whether a job hangs, at first and at most.
const ASKED: (Duration, Duration) = (Duration::from_millis(700), Duration::from_secs(10));

/// A command that was run and traced.
pub struct Run {
    /// Its trace.
    pub opened: Opened,
    /// Why it was ended, if it hung.
    pub hung: Option<String>,
    /// Whether it ended with exit code 0.
    pub succeeded: bool,
}

/// How a command is run.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// The name under which the trace is kept.
    pub output: Option<&'a Path>,
    /// Seconds without a call after which the job is ended.
    pub patience: u64,
    /// What is forced, for `refrain trace --force`.
    pub force: Option<&'a str>,
}

/// Runs and traces a command.
pub fn traced(command: &[OsString], manner: Manner<'_>) -> Result<Run> {
    let folder = temporary_folder()?;
    let output = manner.output.map(Path::to_owned);
    let trace = output.unwrap_or_else(|| folder.path().join("check.refrain"));
    let parts = crate::merge::parts_of(&trace);
    let refrain = std::env::current_exe().context("cannot find refrain's own executable")?;
    let mut run = Command::new(refrain);
    run.args(["trace", "--callsite", "return", "-o"]).arg(&trace);
    if manner.output.is_none() {
        // A trace that is not kept need not be small.
        run.args(["--structure", "grammar"]);
    }
    if let Some(force) = manner.force {
        // What the program prints was seen before.
        run.args(["--force", force]).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut child = run.arg("--").args(command).spawn().context("cannot run refrain trace")?;
    let (hung, succeeded) = watch(&mut child, &parts, Duration::from_secs(manner.patience))?;
    if let Some(why) = hung.as_ref().filter(|_| manner.force.is_none()) {
        say!("refrain: the job was ended: {why}");
    }
    if !trace.exists() && !parts.exists() {
        bail!("the command left no trace: it made no MPI call, or could not be run");
    }
    let mut opened = opened(&trace)?;
    // Sections are read from the file when they are asked for.
    opened.folders.push(folder);
    Ok(Run { opened, hung, succeeded })
}

/// Waits for the command, and ends it if it hangs. Returns why it was ended, and whether it succeeded.
fn watch(child: &mut Child, parts: &Path, patience: Duration) -> Result<(Option<String>, bool)> {
    let (mut every, most) = ASKED;
    let (mut asked, mut moved) = (Instant::now(), Instant::now());
    let mut stuck_before = false;
    let mut calls = 0;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok((None, status.success()));
        }
        std::thread::sleep(Duration::from_millis(20));
        if asked.elapsed() < every || !parts.is_dir() {
            continue;
        }
        // The first answers come quickly; a long run is not disturbed.
        every = (every * 5 / 4).min(most);
        let progress = where_::progress(parts).ok();
        asked = Instant::now();
        let Some(progress) = progress else { continue };
        if progress.calls != calls {
            (calls, moved) = (progress.calls, Instant::now());
        }
        let why = match (progress.is_stuck && stuck_before, moved.elapsed() > patience) {
            (true, _) => "every rank waits for others that wait, too",
            (_, true) => "no rank has made a call for a long time (--hang)",
            _ => {
                stuck_before = progress.is_stuck;
                continue;
            }
        };
        end(child)?;
        return Ok((Some(why.to_owned()), false));
    }
}

/// Ends the job. `refrain trace` forwards the signal and writes the trace.
fn end(child: &mut Child) -> Result<()> {
    // SAFETY: a plain system call on a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let begin = Instant::now();
    while child.try_wait().context("cannot wait for the command")?.is_none() {
        if begin.elapsed() > Duration::from_secs(30) {
            child.kill().context("cannot end the command")?;
            child.wait().context("cannot wait for the command")?;
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
