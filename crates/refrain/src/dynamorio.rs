//! Starts unmodified programs under DynamoRIO.
//!
//! DynamoRIO's library is itself executable. It is executed instead of the program, with the program's
//! arguments, and reads from the environment which program to run with which client. It stays in that
//! process, also after an exec. So process numbers, signals and exit codes are the program's own, and
//! launchers see no difference.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::path::locate;

/// DynamoRIO and Refrain's client.
const FILES: [&str; 2] = ["libdynamorio.so", "librefrain_memory_client.so"];
/// The environment variable with another folder that has both.
const OVERRIDE: &str = "REFRAIN_DYNAMORIO";
/// The longest chain of interpreters of a script.
const MOST_INTERPRETERS: usize = 4;

/// The options of the client.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name of the compressor's socket.
    pub socket: String,
    /// Record libraries as well as the program itself.
    pub libraries: bool,
    /// Keep stack signatures.
    pub stacks: bool,
    /// Walk the stack at every instruction that accesses memory, to measure the cost.
    pub walks: bool,
    /// Begin at the entry of this function.
    pub from: Option<String>,
    /// End at the entry of this function.
    pub until: Option<String>,
}

/// The folder with DynamoRIO and the client: beside this executable, in `lib` beside its folder,
/// or in the folder where `cargo` builds.
pub fn find() -> Result<PathBuf> {
    let executable = env::current_exe()?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let candidates = match env::var_os(OVERRIDE) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => vec![folder.to_owned(), folder.join("../lib"), folder.join("../dynamorio")],
    };
    let has_both = |folder: &&PathBuf| FILES.iter().all(|file| folder.join(file).is_file());
    let Some(found) = candidates.iter().find(has_both) else {
        bail!(
            "DynamoRIO is missing: build it with scripts/dynamorio.sh, or set {OVERRIDE} to the \
             folder of {}; or recompile the program and use --frontend compiled",
            FILES.join(" and ")
        );
    };
    Ok(found.canonicalize()?)
}

/// The command that runs a program under DynamoRIO.
pub fn command(program: &OsStr, args: &[OsString], options: &Options) -> Result<Command> {
    let folder = find()?;
    let words = client_words(options)?;
    let (file, argv) = interpreted(program, args)?;
    let client = folder.join(FILES[1]);
    if client.as_os_str().as_bytes().iter().any(|byte| b"'\";".contains(byte)) {
        bail!("DynamoRIO does not allow the quote or semicolon in `{}`", client.display());
    }
    let mut all = OsString::from("-code_api -disable_traces -steal_fds 0 -client_lib '");
    all.push(client);
    all.push(format!(";0;{words}'"));
    let mut command = Command::new(folder.join(FILES[0]));
    command
        .arg0(&argv[0])
        .args(&argv[1..])
        .env("DYNAMORIO_EXE_PATH", file)
        .env("DYNAMORIO_RUNUNDER", "1")
        .env("DYNAMORIO_OPTIONS", all)
        // The user's settings of DynamoRIO are for other clients.
        .env("DYNAMORIO_CONFIGDIR", "/dev/null");
    Ok(command)
}

fn client_words(options: &Options) -> Result<String> {
    let mut words = vec![format!("socket={}", options.socket)];
    words.extend(options.libraries.then(|| "libraries".into()));
    words.extend(options.stacks.then(|| "contexts".into()));
    words.extend(options.walks.then(|| "walks".into()));
    for (name, function) in [("from", &options.from), ("until", &options.until)] {
        if let Some(function) = function {
            if function.is_empty() || function.contains(|c: char| " '\";".contains(c)) {
                bail!("`{function}` is not a function's name");
            }
            words.push(format!("{name}={function}"));
        }
    }
    Ok(words.join(" "))
}

/// The file that the kernel would finally execute, and its arguments: for a script, its interpreter.
fn interpreted(program: &OsStr, args: &[OsString]) -> Result<(PathBuf, Vec<OsString>)> {
    let mut argv = vec![program.to_owned()];
    argv.extend_from_slice(args);
    let mut file =
        locate(program).with_context(|| format!("program `{}` not found", program.display()))?;
    for _ in 0..MOST_INTERPRETERS {
        let Some(line) = interpreter_line(&file)? else {
            return Ok((std::path::absolute(file)?, argv));
        };
        let mut parts = line.splitn(2, |byte| b" \t".contains(byte));
        let interpreter = OsString::from_vec(parts.next().unwrap_or_default().to_vec());
        argv[0] = file.into_os_string();
        if let Some(argument) = parts.next().map(<[u8]>::trim_ascii).filter(|a| !a.is_empty()) {
            argv.insert(0, OsString::from_vec(argument.to_vec()));
        }
        argv.insert(0, interpreter.clone());
        file = interpreter.into();
    }
    bail!("`{}` has too long a chain of interpreters", program.display())
}

/// The text after `#!` in a file's first line; `None` if there is none.
fn interpreter_line(file: &Path) -> Result<Option<Vec<u8>>> {
    let mut start = Vec::new();
    let open = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    open.take(256).read_to_end(&mut start)?;
    let Some(line) = start.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Some(line.trim_ascii().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_script_is_run_by_its_interpreter() {
        let mut script = tempfile::NamedTempFile::new().unwrap();
        script.write_all(b"#! /bin/sh -e\necho\n").unwrap();
        let path = script.path().as_os_str();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        script.as_file().set_permissions(permissions).unwrap();
        let (file, argv) = interpreted(path, &["x".into()]).unwrap();
        assert_eq!(file, Path::new("/bin/sh"));
        assert_eq!(argv, [OsStr::new("/bin/sh"), OsStr::new("-e"), path, OsStr::new("x")]);
    }

    #[test]
    fn a_program_is_run_as_it_is_called() {
        let (file, argv) = interpreted(OsStr::new("sh"), &["-c".into()]).unwrap();
        assert!(file.is_absolute() && file.ends_with("sh"));
        assert_eq!(argv, ["sh", "-c"]);
    }

    #[test]
    fn names_with_blanks_are_refused() {
        let options = Options { from: Some("a b".into()), ..Options::default() };
        assert!(client_words(&options).is_err());
        let options = Options { from: Some("a".into()), socket: "s".into(), ..options };
        assert_eq!(client_words(&options).unwrap(), "socket=s from=a");
    }
}
