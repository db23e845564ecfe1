//! `refrain replay`: runs a program again, with the recorded matches.

use super::{Places, Sites, orders_in, watch};
use crate::mode::{Access, create_folder};
use crate::summary::counted;
use crate::trace::{execute_while, exit_code, understand, wrapper};
use crate::{NOT_FOUND, Usage, agent};
use anyhow::{Context, Result, bail};
use refrain_order::causal::summary::calls_by_thread;
use refrain_trace::Orders;
use refrain_trace::orders::Method;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Runs a program again, with the recorded matches.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  refrain replay app.refrain -- mpirun -n 4 ./app input.dat
  refrain replay app.refrain --until 2:1031 -- mpirun -n 4 ./app input.dat
  refrain replay app.refrain --stall 5m -- mpirun -n 4 ./app input.dat

The program, its build, its input and the number of ranks must be those that were recorded. If the
program does something that the record does not have, all ranks are stopped, and the message says
where it diverged, what was expected and what happened instead. Call sites are compared by their
offset in the file, so another build of the program diverges too.

--until R:N holds rank R at the completing call that `refrain show` numbers N; R.T:N at that of
thread T. Attach a debugger and continue: the program gets SIGTRAP there.

A trace of all calls (refrain trace) can be replayed as well, if no call is missing and only one
thread of each rank receives. It has no values of MPI_Wtime, so the clock runs on.

Exit codes: the program's own; 94 if it diverged; 95 if no rank made progress (--stall); 96 if the
record ended before the program (a run that was killed); 97 if a rank has no record; 125 if
Refrain itself failed.")]
pub struct Args {
    /// The record, or a trace of all calls (refrain trace).
    record: PathBuf,
    /// Stop the replay if no rank makes progress for this long, e.g. 30s, 5m.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    stall: String,
    /// Hold this rank at this completing call and wait for a debugger.
    #[arg(long, value_name = "RANK[.THREAD]:EVENT")]
    until: Option<String>,
    /// The command to run, as without Refrain.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the program; the exit code is the program's, or says why it was stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut variables = vec!["REFRAIN_ORDER=replay".to_owned()];
    let stall = seconds(&args.stall)?;
    variables.push(format!("REFRAIN_STALL={stall}"));
    let stall = Duration::try_from_secs_f64(stall).unwrap_or(Duration::MAX);
    let until = args.until.as_deref().map(checked).transpose()?;
    let orders = orders_in(&args.record, Sites::Ignored)?;
    if let Some(Until { rank, thread, event }) = until {
        let thread = reached(rank, thread, event, &orders)?;
        variables.push(format!("REFRAIN_UNTIL={rank}.{thread}:{event}"));
    }
    if orders.ranks.iter().any(|rank| rank.rand) {
        variables.push("REFRAIN_RAND=1".to_owned());
    }
    if orders.ranks.iter().any(|rank| rank.no_clock) {
        variables.push("REFRAIN_NO_CLOCK=1".to_owned());
    }
    if orders.method() == Method::Clock {
        variables.push("REFRAIN_ORDER_METHOD=clock".to_owned());
    }
    let plan = understand(args.command)?;
    if let Some(missing) = refrain_launch::missing_program(&plan) {
        say!("refrain: {missing}");
        return Ok(ExitCode::from(NOT_FOUND));
    }
    let (recorded, asked) = (orders.size(), plan.ranks());
    if let Some(asked) = asked.filter(|asked| *asked != recorded) {
        bail!("the command starts {asked} ranks, but {} has {recorded}", args.record.display());
    }
    let agent = agent::find()?;
    let folder = folder_for(&args.record)?;
    let (mut stood_still, mut left, mut stopped) = (None, None, None);
    let result = (|| {
        let refuse = || format!("cannot write to {}", folder.display());
        orders.lay_out(&folder).with_context(refuse)?;
        let folder = folder.canonicalize().with_context(refuse)?;
        let command = plan.command_with(&wrapper(&plan, &agent, &folder, &variables)?);
        find_names(&orders, &folder);
        execute_while(&command, |child| {
            let (status, said) = watch::wait(child, &folder, stall)?;
            stood_still = said;
            left = watch::left_early(&folder, &orders);
            stopped = watch::stopped(&folder, &orders);
            Ok(status)
        })
    })();
    // The thread that writes names may still be running.
    let _ = (0..3).any(|_| std::fs::remove_dir_all(&folder).is_ok());
    // Not every launcher returns the exit code of a rank.
    let mut code = stopped.unwrap_or(exit_code(result?));
    if let Some(said) = stood_still {
        say!("refrain: {said}");
        code = STALLED;
    }
    // Ranks that were ended by the program or by the replay have reported it themselves.
    if let Some(left) = left.filter(|_| code == 0) {
        say!("refrain: diverged: {left}");
        code = DIVERGED;
    }
    if code == DIVERGED {
        hint(&orders);
    }
    Ok(ExitCode::from(code))
}

/// Symbolizes call sites concurrently with the replay. Ranks read the names when they have something to
/// report; they never wait for them.
fn find_names(orders: &Orders, folder: &Path) {
    let (sites, time, folder) = (orders.sites.clone(), orders.time, folder.to_owned());
    std::thread::spawn(move || {
        let places = Places::at(&sites, time);
        let line = |site: &u64| format!("{site:x} {}\n", places.exact(*site));
        let names: String = sites.keys().map(line).collect();
        // Renamed, so that ranks never read half a file. Without it they print offsets.
        let new = folder.join("names.new");
        let _ =
            std::fs::write(&new, names).and_then(|()| std::fs::rename(&new, folder.join("names")));
    });
}

/// Prints a hint for programs that diverge although they were not changed.
fn hint(orders: &Orders) {
    if orders.ranks.iter().any(|rank| rank.traced) {
        say!(
            "refrain: hint: a trace has no values of MPI_Wtime, of the system's clocks and of random \
             numbers: use refrain record (--rand for the latter two)"
        );
    } else if orders.ranks.iter().any(|rank| rank.no_clock) {
        say!("refrain: hint: MPI_Wtime was not recorded (--no-clock), so it is not replayed");
    } else if !orders.ranks.iter().any(|rank| rank.rand) {
        say!(
            "refrain: hint: the system's clocks and random numbers are replayed only if they were \
             recorded: refrain record --rand"
        );
    }
}

/// Exit code if the program diverged.
const DIVERGED: u8 = 94;
/// Exit code if no rank made progress.
const STALLED: u8 = 95;

/// A folder beside the record, where the ranks find it wherever they run.
fn folder_for(record: &Path) -> Result<PathBuf> {
    let mut name = record.as_os_str().to_owned();
    name.push(format!(".replay.{}", std::process::id()));
    let folder = PathBuf::from(name);
    Access::default().apply();
    create_folder(&folder).with_context(|| {
        format!(
            "cannot create {}: a replay writes beside its record, so copy that to a folder where all \
             ranks can write",
            folder.display()
        )
    })?;
    Ok(folder)
}

/// `30s`, `5m` or a number of seconds.
fn seconds(text: &str) -> Result<f64> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(number) => (number, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number * unit),
        _ => bail!(Usage(format!("--stall: `{text}` is not a time such as 30s or 5m"))),
    }
}

/// A call of a rank.
struct Until {
    rank: u32,
    thread: Option<u32>,
    event: u64,
}

fn checked(text: &str) -> Result<Until> {
    let parsed = || {
        let (who, event) = text.split_once(':')?;
        let (rank, thread) = match who.split_once('.') {
            Some((rank, thread)) => (rank, Some(thread.parse().ok()?)),
            None => (who, None),
        };
        Some(Until { rank: rank.parse().ok()?, thread, event: event.parse().ok()? })
    };
    parsed().ok_or_else(|| {
        let form = "RANK:EVENT, such as 2:1031, or RANK.THREAD:EVENT";
        Usage(format!("--until: `{text}` is not {form}")).into()
    })
}

/// The thread of a rank that makes the completing call with that number.
fn reached(rank: u32, thread: Option<u32>, event: u64, orders: &Orders) -> Result<u32> {
    let Some(own) = orders.ranks.iter().find(|own| own.rank == rank) else {
        bail!(Usage(format!("--until: there is no rank {rank}, of {} ranks", orders.size())));
    };
    let calls: BTreeMap<u32, u64> = match own.method {
        Method::Causal => (0..).zip(calls_by_thread(&own.frames)?).collect(),
        Method::Clock => refrain_order::clock::summary::summary(&own.chunks)?.calls_by_thread(),
    };
    let calling: Vec<u32> =
        calls.iter().filter(|(_, calls)| **calls > 0).map(|(thread, _)| *thread).collect();
    let thread = match (thread, &calling[..]) {
        (Some(thread), _) => thread,
        (None, []) => 0,
        (None, [only]) => *only,
        (None, several) => {
            let several: Vec<String> = several.iter().map(u32::to_string).collect();
            let example = format!("{rank}.{}:{event}", several[0]);
            bail!(Usage(format!(
                "--until: threads {} of rank {rank} complete calls: say which, such as {example}",
                several.join(",")
            )));
        }
    };
    let own = calls.get(&thread).copied().unwrap_or(0);
    if event >= own {
        let who = match calling.len() > 1 || thread != 0 {
            true => format!("thread {thread} of rank {rank}"),
            false => format!("rank {rank}"),
        };
        let calls = counted(own, "completing call");
        bail!(Usage(format!("--until: {who} has {calls}, numbered from 0")));
    }
    Ok(thread)
}
