//! `refrain __rank`: becomes a rank of the program, with the agent in its environment.
//!
//! The launcher starts this command instead of the program (see [`refrain_launch`]). It sets the
//! agent's environment and replaces itself by the program, so that process numbers, signals and exit
//! codes are the program's own.

use crate::path::locate;
use crate::{NOT_FOUND, agent, inherited, unloaded};
use anyhow::{Result, bail};
use refrain_format::part;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The arguments that the launcher passes to each rank.
#[derive(clap::Args)]
pub struct Args {
    /// The agent.
    #[arg(long)]
    agent: PathBuf,
    /// The folder for parts.
    #[arg(long)]
    parts: PathBuf,
    /// Variables for the agent, as NAME=VALUE.
    #[arg(long)]
    set: Vec<String>,
    /// Look for the program in the working directory too, as the launcher would have.
    #[arg(long)]
    here: bool,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
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
    if locate(&program).is_some_and(|path| is_static(&path)) {
        // The agent cannot be loaded into it, and the other ranks must not wait for it.
        let _ = std::fs::write(args.parts.join(part::UNSEEN), "");
    }
    let mut command = Command::new(&program);
    let error = inherited::pass_on(&mut command)
        .args(arguments)
        .envs(agent::prepare_environment(&args.agent, &args.parts))
        .envs(args.set.iter().filter_map(|set| set.split_once('=')))
        .exec();
    say!("refrain: {}: {error}", program.display());
    Ok(ExitCode::from(NOT_FOUND))
}

/// Whether a file is a statically linked program.
fn is_static(path: &Path) -> bool {
    const START: u64 = 1 << 16;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).map(|file| file.take(START).read_to_end(&mut bytes));
    matches!(read, Ok(Ok(_))) && unloaded::is_static(&bytes)
}
