//! `refrain trace`: runs a program and records the MPI calls of its ranks.

use crate::control::Control;
use crate::fold::Wanted;
use crate::merge::{assembled, base_meta, how, keep, parts_of};
use crate::mode::{self, Access, Redaction};
use crate::naming::name_of;
use crate::path::locate;
use crate::timing::Timing;
use crate::{NOT_FOUND, agent, inherited, rank, summary, unloaded};
use anyhow::{Context, Result, bail};
use refrain_format::part;
use refrain_launch::{Launcher, Plan};
use refrain_reader::meta::REDACT;
use refrain_reader::{CallTrace, Meta};
use refrain_trace::assemble::{Keep, assemble};
use refrain_trace::form::Structure;
use refrain_trace::parts::{holds_parts, note_run, running_processes};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

/// Runs a program and records every MPI call of every rank.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain trace -- mpirun -n 4 ./app input.dat
  refrain trace -o run7.refrain -- srun -n 64 ./app
  refrain trace --raw -- ./app                 one process, without a launcher
  refrain trace --functions 'Isend,Irecv,Wait*' --callsite return -- mpirun -n 4 ./app
  refrain trace --timing loop --error 0.05,MPI_Send=0.01 -- mpirun -n 4 ./app
  refrain trace -- mpirun --odd-option 3 -- ./app
                                               `--` marks where the program begins

The trace is named after the program, or after the script that python, bash or another interpreter
runs: app.refrain, or app.2.refrain if app.refrain exists. A file named with -o is overwritten.

The program keeps its output and its exit code. While it runs, the ranks write to
NAME.refrain.parts; when it has ended, the parts become NAME.refrain. If the job is killed, the
parts remain, and `refrain merge NAME.refrain.parts` makes a trace of them.

A program can switch recording off and on: MPI_Pcontrol(0) and MPI_Pcontrol(1), or
MPI_Info_set(info, \"refrain\", \"off\") and \"on\". Neither needs anything to be linked.")]
pub struct Args {
    /// The trace to write; an existing file is overwritten [default: the program's name with
    /// .refrain].
    #[arg(short, long, value_name = "NAME.refrain")]
    output: Option<PathBuf>,
    /// Also keep the uncompressed records, with times and addresses, so that `refrain verify` can
    /// compare every value.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    control: Control,
    /// How the sequence of calls is stored: as a grammar, as loop nests, or as what is smaller.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Wanted::Auto)]
    structure: Wanted,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    redaction: Redaction,
    /// What `refrain check --prove` forces.
    #[arg(long, hide = true)]
    force: Option<String>,
    /// The command to run, as without Refrain.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the program; the exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    let plan = understand(args.command)?;
    if let Some(missing) = refrain_launch::missing_program(&plan) {
        say!("refrain: {missing}");
        return Ok(ExitCode::from(NOT_FOUND));
    }
    let mut variables = args.control.variables(args.raw, plan.ranks())?;
    variables.push(args.access.apply().variable());
    variables.extend(args.redaction.variable());
    variables.extend(args.force.map(|force| format!("REFRAIN_FORCE={force}")));
    let timing = args.timing.wanted()?;
    if let Some(wanted) = &timing {
        variables.push(format!("REFRAIN_TIMING={}", wanted.in_processes().to_text()));
    }
    let agent = agent::find()?;
    let (output, parts) = match args.output {
        Some(output) => {
            let parts = make_parts(&output)?;
            (output, parts)
        }
        None => make_default(&name_of(&plan.words[plan.programs[0].position..]))?,
    };
    let mut selected = args.control.selected();
    selected.extend(args.redaction.redact.then(|| REDACT.to_owned()));
    let meta = base_meta(args.redaction.command(&plan.words), selected);
    // Only `refrain merge` needs it. If the disk is full, parts cannot be written either.
    let _ = note_run(&parts, &meta);
    if let Some(wanted) = &timing {
        wanted.write(&parts).with_context(|| format!("cannot write to {}", parts.display()))?;
    }
    let command = plan.command_with(&wrapper(&plan, &agent, &parts, &variables)?);
    let status = execute(&command).inspect_err(|_| {
        // Nothing ran, so the folder is empty.
        let _ = std::fs::remove_dir_all(&parts);
    })?;
    let forms = (keep(args.raw), args.structure.into());
    if let Err(error) = write_trace(&plan, meta, &parts, &output, forms, status) {
        // The program has run, so its exit code is returned.
        say!("refrain: {error:#}");
    }
    Ok(ExitCode::from(exit_code(status)))
}

/// Finds the launcher and the programs in the command.
pub fn understand(words: Vec<OsString>) -> Result<Plan> {
    let flavour = refrain_launch::version_command(&words).and_then(|command| {
        let (program, arguments) = command.split_first()?;
        // `mpirun` is often a link to a file whose name shows the MPI.
        let file = locate(program).filter(|_| arguments.len() == 1);
        let file = file.and_then(|file| file.canonicalize().ok());
        if let Some(flavour) = file.and_then(|file| refrain_launch::flavour_of_file(&file)) {
            return Some(flavour);
        }
        let asked = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
        refrain_launch::flavour_of_version_output(&String::from_utf8_lossy(&asked.stdout))
    });
    Ok(Plan::parse(words, flavour)?)
}

/// `app.refrain` for `./app`, or `app.2.refrain` … if that exists: by default a trace is never
/// overwritten. Creating the folder of parts reserves the name if several runs start at once.
pub fn make_default(stem: &OsStr) -> Result<(PathBuf, PathBuf)> {
    for number in 1.. {
        let mut name = stem.to_owned();
        name.push(match number {
            1 => ".refrain".to_owned(),
            n => format!(".{n}.refrain"),
        });
        let output = PathBuf::from(name);
        if output.exists() || parts_of(&output).exists() {
            continue;
        }
        match make_parts(&output) {
            Err(error) if is_taken(&error) => {}
            made => return made.map(|parts| (output, parts)),
        }
    }
    bail!("there is no free name for the trace")
}

fn is_taken(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::AlreadyExists)
}

/// Creates the folder that ranks write into, and checks that the trace can be written.
pub fn make_parts(output: &Path) -> Result<PathBuf> {
    let refuse = || format!("cannot write {}: choose another path with -o", output.display());
    if output.is_dir() {
        bail!("{} is a folder: name a file with -o", output.display());
    }
    if output.exists() && !refrain_reader::is_one(output) {
        bail!(
            "{} exists and is not a trace: name another file with -o, or remove it",
            output.display()
        );
    }
    let parts = parts_of(output);
    if parts.exists() {
        bail!(
            "{0} exists: it belongs to a run that is still going on, or an earlier run left it. \
             Make a trace of it with `refrain merge {0}`, or choose another name with -o",
            parts.display()
        );
    }
    mode::create_folder(&parts).with_context(refuse)?;
    parts.canonicalize().with_context(refuse)
}

/// The words that go in front of each program.
pub fn wrapper(
    plan: &Plan,
    agent: &Path,
    parts: &Path,
    variables: &[String],
) -> Result<Vec<OsString>> {
    let refrain = std::env::current_exe().context("cannot find refrain's own executable")?;
    let mut words: Vec<OsString> =
        vec![refrain.into(), rank::WORD.into(), "--agent".into(), agent.into()];
    words.extend(["--parts".into(), parts.into()]);
    for variable in variables {
        words.extend(["--set".into(), variable.into()]);
    }
    if plan.launcher != Launcher::Bare && plan.launcher.looks_in_working_directory() {
        words.push("--here".into());
    }
    words.push("--".into());
    Ok(words)
}

/// The command's process number, for forwarded signals.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Runs the command to its end. Signals that are sent to Refrain are forwarded to it, and Refrain
/// continues, to write the trace. Signals from the terminal reach the command without that.
pub fn execute(command: &[OsString]) -> Result<ExitStatus> {
    execute_while(command, |child| child.wait())
}

/// The same, with a function that waits for the command.
pub fn execute_while(
    command: &[OsString],
    wait: impl FnOnce(&mut Child) -> std::io::Result<ExitStatus>,
) -> Result<ExitStatus> {
    let Some((program, arguments)) = command.split_first() else { bail!("no command") };
    let mut command = Command::new(program);
    let child = inherited::pass_on(command.args(arguments)).spawn();
    let mut child = child.with_context(|| format!("cannot run {}", program.display()))?;
    CHILD.store(child.id() as i32, Ordering::SeqCst);
    install_handlers();
    let status = wait(&mut child).context("cannot wait for the program");
    // From now on signals end Refrain: the recording stays in the parts.
    CHILD.store(0, Ordering::SeqCst);
    set_handlers(libc::SIG_DFL);
    status
}

/// Installs handlers that forward signals.
fn install_handlers() {
    let handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) = pass_on;
    set_handlers(handler as libc::sighandler_t);
}

fn set_handlers(handler: libc::sighandler_t) {
    const SIGNALS: [i32; 6] =
        [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];
    // SAFETY: a handler that only calls kill, which is async-signal-safe, or the default.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        for signal in SIGNALS {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Forwards a signal, unless it came from the terminal, which sends it to the command as well.
extern "C" fn pass_on(signal: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: the kernel passes a valid description; kill is a plain system call.
    unsafe {
        let from_terminal = !info.is_null() && (*info).si_code == libc::SI_KERNEL;
        if child > 0 && !from_terminal {
            libc::kill(child, signal);
        }
    }
}

/// Makes a trace of the parts, and prints the summary and warnings.
fn write_trace(
    plan: &Plan,
    mut meta: Meta,
    parts: &Path,
    output: &Path,
    (kept_parts, structure): (Keep, Structure),
    status: ExitStatus,
) -> Result<()> {
    if !parts.exists() {
        bail!("{} was removed while the program ran, so the recording is lost", parts.display());
    }
    if !holds_parts(parts) {
        let room = room_in(parts);
        let _ = std::fs::remove_dir_all(parts);
        if let Err(error) = room {
            let beside = output.display();
            say!(
                "refrain: there was no disk space for records beside {beside}, so there is no trace: {error}"
            );
            return Ok(());
        }
        unloaded::failure(plan, status).iter().for_each(|line| say!("refrain: {line}"));
        say!("refrain: no MPI call was recorded, so there is no trace");
        unloaded::hints(plan, status).iter().for_each(|hint| say!("refrain: {hint}"));
        return Ok(());
    }
    let running = await_ranks(parts);
    meta.exit_code = status.code();
    let (meta, bytes) = assembled(|steps| {
        let done = assemble(parts, output, kept_parts, structure, meta, steps)?;
        steps.begin("checking that the trace reads", 0);
        check_reads(output)?;
        Ok(done)
    })
    .with_context(|| kept(parts))?;
    for (rank, count) in refrain_trace::parts::panics(parts) {
        say!(
            "refrain: warning: Refrain's agent panicked {} in rank {rank}, a defect of Refrain: please \
             report it; the program was not affected",
            summary::counted(count.into(), "time")
        );
    }
    if meta.streams.is_empty() {
        let _ = std::fs::remove_file(output);
        for lost in &meta.lost {
            say!("refrain: cannot be read: {lost}");
        }
        bail!("nothing was recorded: there was no disk space, or the parts are damaged");
    }
    if running > 0 {
        say!(
            "refrain: note: {running} processes of the program are still running; what they do \
             from now on stays in {}",
            parts.display()
        );
    } else if meta.lost.is_empty() {
        std::fs::remove_dir_all(parts).with_context(|| format!("{}", parts.display()))?;
    }
    summary::print(&meta, output, bytes, how(kept_parts == Keep::Raw), plan.ranks());
    Ok(())
}

/// Checks that a trace is readable, before its parts are removed.
fn check_reads(trace: &Path) -> Result<()> {
    CallTrace::open(trace)?.structure()?;
    Ok(())
}

/// Whether there is disk space in a folder for the smallest part.
fn room_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join("room");
    let file = std::fs::File::create(&path)?;
    // SAFETY: a plain system call on a file of our own.
    let errno = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, part::BODY as libc::off_t) };
    let _ = std::fs::remove_file(&path);
    if errno == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(errno)) }
}

/// Waits some seconds for ranks that outlive their launcher, as when it is killed. Returns how many are
/// still running.
fn await_ranks(parts: &Path) -> usize {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
    let start = std::time::Instant::now();
    loop {
        let running = running_processes(parts).into_iter().filter(|pid| is_alive(*pid)).count();
        if running == 0 || start.elapsed() > PATIENCE {
            return running;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Whether a process of this machine is running, and not a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

/// The advice if the trace could not be written.
pub fn kept(parts: &Path) -> String {
    format!(
        "the trace could not be written. The recording is in {0}. When there is disk space, or to \
         another disk: refrain merge {0} -o /elsewhere/name.refrain",
        parts.display()
    )
}

/// The exit code that a shell would report.
pub fn exit_code(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}
