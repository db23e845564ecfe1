//! The default name of a trace: that of the program, or of the script that an interpreter runs.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Programs that run a script; versions may follow the name.
const INTERPRETERS: [&str; 10] =
    ["python", "pypy", "bash", "sh", "dash", "zsh", "perl", "ruby", "julia", "Rscript"];

/// The name of the program that a command runs, without folders: its first word after `env` and
/// assignments. For an interpreter, the name of the script without extension, or of the module.
pub fn name_of(command: &[OsString]) -> OsString {
    let file_name = |word: &OsString| Path::new(word).file_name().map(OsStr::to_owned);
    let (first, rest) = match command {
        [first, rest @ ..] => (file_name(first), rest),
        [] => (None, command),
    };
    let Some(first) = first else { return OsString::from("program") };
    let has = |word: &OsString, byte: u8| word.as_encoded_bytes().contains(&byte);
    if first == "env" {
        let assignments = rest.iter().take_while(|word| has(word, b'=')).count();
        let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
        return match rest.get(assignments) {
            Some(word) if !is_option(word) => name_of(&rest[assignments..]),
            _ => first,
        };
    }
    let text = first.to_string_lossy();
    let stem = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&stem) {
        return first;
    }
    script(rest).unwrap_or(first)
}

/// The script or the module among the words after an interpreter.
fn script(words: &[OsString]) -> Option<OsString> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_encoded_bytes() {
            b"-m" => return words.next().cloned(),
            // The script is on the command line or comes from stdin.
            b"-c" | b"-e" | b"-" | b"-s" => return None,
            // Options with a value.
            b"-W" | b"-X" | b"-o" | b"-O" => drop(words.next()),
            option if option.starts_with(b"-") => {}
            _ => return Path::new(word).file_stem().map(OsStr::to_owned),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_after_the_program_or_the_script() {
        let name = |command: &str| {
            let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            name_of(&words).into_string().expect("text")
        };
        assert_eq!(name("./heat 3"), "heat");
        assert_eq!(name("/opt/app.v2 in.dat"), "app.v2");
        assert_eq!(name("python3 -u -W ignore lib/app.py --fast"), "app");
        assert_eq!(name("python3.12 -m mpi4py run.py"), "mpi4py");
        assert_eq!(name("python3 -c pass"), "python3");
        assert_eq!(name("bash ./run.sh"), "run");
        assert_eq!(name("env A=1 B=2 ./heat"), "heat");
        assert_eq!(name("env A=1 python3 app.py"), "app");
        assert_eq!(name("env -i ./heat"), "env");
        assert_eq!(name("bash"), "bash");
    }
}
