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

/// The word in front of the arguments.
pub const WORD: &str = "__rank";

/// The arguments that the launcher passes to each rank.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// The agent.
    agent: PathBuf,
    /// The folder for parts.
    parts: PathBuf,
    /// Variables for the agent, as NAME=VALUE.
    set: Vec<OsString>,
    /// Look for the program in the working directory too, as the launcher would have.
    here: bool,
    /// The program and its arguments.
    command: Vec<OsString>,
}

impl Args {
    /// Reads what [`crate::trace::wrapper`] writes, after [`WORD`]; `None` for anything else. Every rank does this, so it
    /// builds no command line parser.
    pub fn read(mut words: impl Iterator<Item = OsString>) -> Option<Args> {
        let mut args = Args::default();
        loop {
            let word = words.next()?;
            match word.to_str()? {
                "--agent" => args.agent = words.next()?.into(),
                "--parts" => args.parts = words.next()?.into(),
                "--set" => args.set.push(words.next()?),
                "--here" => args.here = true,
                "--" => break,
                _ => return None,
            }
        }
        args.command = words.collect();
        (!args.command.is_empty()).then_some(args)
    }
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
        .envs(args.set.iter().filter_map(|set| set.to_str()?.split_once('=')))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Option<Args> {
        Args::read(words.split(' ').map(OsString::from))
    }

    #[test]
    fn arguments_end_where_the_program_begins() {
        let args = Args {
            agent: "/a.so".into(),
            parts: "/p".into(),
            set: vec!["A=1".into(), "B=2".into()],
            here: true,
            command: vec!["./app".into(), "--here".into(), "--".into()],
        };
        let words = "--agent /a.so --parts /p --set A=1 --set B=2 --here -- ./app --here --";
        assert_eq!(read(words), Some(args));
    }

    #[test]
    fn what_no_launcher_passes_is_refused() {
        for words in ["--agent /a.so", "--agent /a.so --parts /p --", "--odd -- ./app", "./app"] {
            assert_eq!(read(words), None, "{words}");
        }
    }
}
