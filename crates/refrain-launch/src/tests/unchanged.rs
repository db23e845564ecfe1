//! The wrapper is the only change to a command: checked for generated commands, and for every option of every
//! table.

use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::options::{Dialect, Syntax, Values};
use crate::tables::{FLUX, HYDRA, ORTE, PRRTE, SRUN};
use refrain_testing::random::Random;

/// The launchers under test with their options.
const LAUNCHERS: [(&str, Option<Flavour>, Dialect); 5] = [
    ("mpirun", Some(Flavour::Hydra), HYDRA),
    ("mpirun", Some(Flavour::OpenMpi4), ORTE),
    ("mpirun", Some(Flavour::OpenMpi5), PRRTE),
    ("srun", None, SRUN),
    ("flux run", None, FLUX),
];

/// The ways in which an option may be written, each with its values.
fn spellings(syntax: Syntax, name: &str, values: Values) -> Vec<String> {
    let letter = name.len() == 1;
    let dashes = match syntax {
        Syntax::Getopt if letter => vec!["-"],
        Syntax::Getopt => vec!["--"],
        _ => vec!["-", "--"],
    };
    let attached = match syntax {
        Syntax::Orte => None,
        Syntax::Getopt if letter => Some(""),
        Syntax::Prrte if letter => None,
        _ => Some("="),
    };
    let mut all = Vec::new();
    for dash in dashes {
        all.extend(match values {
            Values::None | Values::Attached => vec![format!("{dash}{name}")],
            Values::One => vec![format!("{dash}{name} 3")],
            Values::Two => vec![format!("{dash}{name} key 3")],
            Values::Assignment => {
                vec![format!("{dash}{name} A 3"), format!("{dash}{name} A=3")]
            }
        });
        if let Some(equals) = attached.filter(|_| !matches!(values, Values::None | Values::Two)) {
            let value = if values == Values::Assignment { "A=3" } else { "3" };
            all.push(format!("{dash}{name}{equals}{value}"));
        }
    }
    all
}

#[test]
fn every_option_of_every_table_leads_to_the_program() {
    for (launcher, flavour, dialect) in LAUNCHERS {
        for (name, values) in dialect.table.entries() {
            for option in spellings(dialect.syntax, name, values) {
                let command = format!("{launcher} {option} ./app 3 -x");
                match Plan::parse(words(&command), flavour) {
                    Ok(plan) => {
                        assert_eq!(wrapped(&plan), format!("{launcher} {option} W ./app 3 -x"));
                    }
                    Err(LaunchError::ProgramsInFile { .. }) => {
                        assert!(["app", "configfile", "multi-prog"].contains(&name), "{command}");
                    }
                    Err(error) => panic!("`{command}`: {error}"),
                }
            }
        }
    }
}

#[test]
fn no_table_names_an_option_twice() {
    for (launcher, _, dialect) in LAUNCHERS {
        let mut names: Vec<_> = dialect.table.entries().map(|(name, _)| name).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1], "{launcher}");
        }
    }
}

#[test]
fn only_options_that_exist_have_roles() {
    for (launcher, _, dialect) in LAUNCHERS {
        let t = dialect.table;
        for role in
            [t.ranks, t.directory, t.every_directory, t.environment, t.search, t.program_file]
        {
            for name in role.split_ascii_whitespace() {
                assert!(t.entries().any(|(n, _)| n == name), "{launcher}: {name}");
            }
        }
    }
}

/// A command, and what it becomes.
fn generate(
    random: &mut Random,
    launcher: &str,
    dialect: &Dialect,
) -> (Vec<OsString>, Vec<OsString>) {
    let options: Vec<_> = dialect
        .table
        .entries()
        .filter(|(name, _)| !dialect.table.program_file.contains(name))
        .collect();
    let arguments = ["a", "-n", "4", "--", "--mca", "-x", "A=B", "", "-", "mpirun", "é x"];
    let (mut command, mut expected) = (words(launcher), words(launcher));
    let programs = if launcher == "flux run" { 1 } else { 1 + random.below(3) };
    for program in 0..programs {
        let mut both = |word: OsString| {
            command.push(word.clone());
            expected.push(word);
        };
        if program > 0 {
            both(":".into());
        }
        for _ in 0..random.below(5) {
            let (name, values) = options[random.below(options.len())];
            let spellings = spellings(dialect.syntax, name, values);
            words(&spellings[random.below(spellings.len())]).into_iter().for_each(&mut both);
        }
        if random.below(4) == 0 {
            command.push("--".into());
        }
        expected.push("W".into());
        let mut both = |word: OsString| {
            command.push(word.clone());
            expected.push(word);
        };
        // A name that is not UTF-8 and has spaces.
        both(OsString::from_vec(b"./my \xff\xfe app".to_vec()));
        for _ in 0..random.below(5) {
            both(arguments[random.below(arguments.len())].into());
        }
    }
    (command, expected)
}

#[test]
fn all_other_words_stay_as_they_are_and_in_order() {
    let mut random = Random::new(1);
    for (launcher, flavour, dialect) in LAUNCHERS {
        for _ in 0..1_000 {
            let (command, expected) = generate(&mut random, launcher, &dialect);
            let plan = Plan::parse(command.clone(), flavour)
                .unwrap_or_else(|error| panic!("{command:?}: {error}"));
            assert_eq!(plan.command_with(&words("W")), expected, "from {command:?}");
        }
    }
}

#[test]
fn any_words_give_an_error_or_the_command_with_wrappers() {
    let vocabulary = [
        "mpirun",
        "srun",
        "env",
        "flux",
        "run",
        "aprun",
        "timeout",
        "nice",
        "-n",
        "-n4",
        "4",
        "--mca",
        "-genv",
        "A=B",
        ":",
        "--",
        "-",
        "./app",
        "--weird",
        "--weird=1",
        "--app",
        "",
    ];
    let mut random = Random::new(2);
    let flavours = [None, Some(Flavour::Hydra), Some(Flavour::OpenMpi4), Some(Flavour::OpenMpi5)];
    for _ in 0..20_000 {
        let length = random.below(9);
        let command: Vec<OsString> =
            (0..length).map(|_| vocabulary[random.below(vocabulary.len())].into()).collect();
        let Ok(plan) = Plan::parse(command.clone(), flavours[random.below(4)]) else {
            continue;
        };
        let marked: Vec<_> = plan.programs.iter().filter_map(|p| p.marker).collect();
        let mut rest: Vec<_> = plan.command_with(&words("W1 W2"));
        rest.retain(|word| word != "W1" && word != "W2");
        let mut kept = command.clone();
        for marker in marked.into_iter().rev() {
            assert_eq!(kept.remove(marker), "--", "in {command:?}");
        }
        assert_eq!(rest, kept);
        assert!(!plan.programs.is_empty());
    }
}
