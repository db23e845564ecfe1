//! Examples for each launcher, and properties of generated commands.

mod errors;
mod lookup;
mod prefixes;
mod recognition;
mod unchanged;
mod wrapping;

use std::ffi::OsString;

use crate::{Flavour, LaunchError, Launcher, Plan};

/// A command's words; none of the examples needs a word with a space in it.
fn words(command: &str) -> Vec<OsString> {
    command.split_whitespace().map(OsString::from).collect()
}

/// The flavour that the examples give to a plain `mpirun`.
fn parse_as(flavour: Flavour, command: &str) -> Result<Plan, LaunchError> {
    Plan::parse(words(command), Some(flavour))
}

/// The command with `W` for the wrapper.
fn wrapped(plan: &Plan) -> String {
    let command = plan.command_with(&words("W"));
    command.join(" ".as_ref()).into_string().unwrap()
}

/// Checks examples: a command, and the command with the wrapper.
fn check(flavour: Option<Flavour>, launcher: Launcher, examples: &[(&str, &str)]) {
    for (command, expected) in examples {
        let plan = match Plan::parse(words(command), flavour) {
            Ok(plan) => plan,
            Err(error) => panic!("`{command}` was not understood: {error}"),
        };
        assert_eq!(wrapped(&plan), *expected);
        assert_eq!(plan.launcher, launcher, "in `{command}`");
    }
}
