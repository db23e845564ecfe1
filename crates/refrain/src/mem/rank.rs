//! `refrain __memory`: starts a keeper and becomes a process of the program.

use crate::mode::Access;
use crate::path::locate;
use crate::{NOT_FOUND, dynamorio, inherited};
use anyhow::{Context, Result, bail};
use refrain_memrecord::keeper::{KeeperSettings, start};
use refrain_rings::SOCKET;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The arguments that the launcher passes to each rank.
#[derive(clap::Args)]
pub struct Args {
    /// The folder for parts.
    #[arg(long)]
    parts: PathBuf,
    #[command(flatten)]
    access: Access,
    /// Keep raw words.
    #[arg(long)]
    raw: bool,
    /// Leave out host names and folders of files.
    #[arg(long)]
    redact: bool,
    /// How many numbers a chunk holds.
    #[arg(long)]
    window: Option<usize>,
    /// Run the program under DynamoRIO.
    #[arg(long)]
    dynamorio: bool,
    /// Variables for the front end, as NAME=VALUE.
    #[arg(long)]
    set: Vec<String>,
    /// Look for the program in the working directory too, as the launcher would have.
    #[arg(long)]
    here: bool,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Variables in which launchers pass the rank to a process, the most specific first.
const RANKS: [&str; 6] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
    "FLUX_TASK_RANK",
];

fn rank() -> Option<u32> {
    RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Becomes the program; returns only if that fails.
pub fn run(args: Args) -> Result<ExitCode> {
    let Some((program, arguments)) = args.command.split_first() else { bail!("no program") };
    let mut program = program.clone();
    if args.here && locate(&program).is_none() {
        let mut here = OsString::from("./");
        here.push(&program);
        program = here;
    }
    args.access.apply();
    let settings = KeeperSettings {
        parts: args.parts.clone(),
        rank: rank(),
        raw: args.raw,
        redact: args.redact,
        window: args.window,
    };
    let socket = start(settings).context("cannot start a compressor")?;
    let set = || args.set.iter().filter_map(|set| set.split_once('='));
    let mut command = match args.dynamorio {
        true => {
            let value =
                |wanted: &str| set().find(|(name, _)| *name == wanted).map(|(_, v)| v.into());
            let options = dynamorio::Options {
                socket,
                libraries: value("REFRAIN_MEM_LIBS").is_some_and(|v: String| v == "1"),
                stacks: value("REFRAIN_MEM_STACKS").is_none_or(|v: String| v != "none"),
                walks: value("REFRAIN_MEM_STACKS").is_some_and(|v: String| v == "instruction"),
                from: value("REFRAIN_MEM_FROM"),
                until: value("REFRAIN_MEM_UNTIL"),
            };
            dynamorio::command(&program, arguments, &options)?
        }
        false => {
            let mut command = Command::new(&program);
            command.args(arguments).env(SOCKET, socket).envs(set());
            command
        }
    };
    let error = inherited::pass_on(&mut command).exec();
    say!("refrain: {}: {error}", program.display());
    Ok(ExitCode::from(NOT_FOUND))
}
