//! Explains why the agent may not have been loaded into a program, with remedies.
//!
//! The agent is loaded by `LD_PRELOAD`. A static program has no loader that would read the variable; the
//! loader ignores it in programs that gain privileges; and a wrapper that clears the environment
//! removes it.

use crate::path::locate;
use refrain_launch::Plan;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// Facts about a program that was started.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    is_static: bool,
    /// It runs with more privileges than its user has.
    gains_privileges: bool,
    /// The text in the script or its arguments that clears the environment.
    clears: Option<&'static str>,
}

/// Text in scripts and arguments after which the agent is no longer preloaded.
const CLEARING: [&str; 6] = [
    "env -i",
    "env - ",
    "--ignore-environment",
    "unset LD_PRELOAD",
    "-u LD_PRELOAD",
    "LD_PRELOAD=",
];

/// The number of bytes of a script that are searched.
const MOST: u64 = 1 << 16;

/// A line if the command failed: then that is why no call was recorded.
pub fn failure(plan: &Plan, status: ExitStatus) -> Option<String> {
    if status.success() {
        return None;
    }
    let name = plan.words.first().map(|word| word.display().to_string()).unwrap_or_default();
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "failed".to_owned(),
    };
    Some(format!("{name} {how}; what it said about that, if anything, is above"))
}

/// A line for each cause that was found; if there is none and the command succeeded, one that lists the possible causes.
pub fn hints(plan: &Plan, status: ExitStatus) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    for program in &plan.programs {
        let name = plan.name(program).display().to_string();
        let words = plan.words.get(program.position..).unwrap_or_default();
        let Some(file) = locate(plan.name(program)) else { continue };
        let words: Vec<&OsStr> = words.iter().map(|word| word.as_os_str()).collect();
        let facts = facts(&file, &words);
        if !status.success() && facts == Facts::default() {
            continue;
        }
        for hint in explain(&name, &facts) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
    }
    hints
}

fn facts(file: &Path, words: &[&OsStr]) -> Facts {
    let mut start = Vec::new();
    // An unreadable file gives no hint.
    let _ = File::open(file).map(|file| file.take(MOST).read_to_end(&mut start));
    let command = words.join(OsStr::new(" "));
    let command = String::from_utf8_lossy(command.as_bytes()).into_owned();
    let script = if start.starts_with(b"#!") { String::from_utf8_lossy(&start) } else { "".into() };
    Facts {
        is_static: is_static(&start),
        gains_privileges: gains_privileges(file),
        clears: clears(&command).or_else(|| clears(&script)),
    }
}

fn clears(text: &str) -> Option<&'static str> {
    CLEARING.into_iter().find(|word| text.contains(word))
}

fn explain(name: &str, facts: &Facts) -> Vec<String> {
    let mut all = Vec::new();
    if facts.is_static {
        all.push(format!(
            "{name} is statically linked: the agent cannot be loaded into it; \
             link it with the shared MPI library"
        ));
    }
    if facts.gains_privileges {
        all.push(format!(
            "{name} is setuid or setgid, or has capabilities: the loader ignores LD_PRELOAD there, so \
             the agent was not loaded; trace a copy without them (cp drops them), as the user it \
             runs as"
        ));
    }
    if let Some(word) = facts.clears {
        let word = word.trim_end();
        all.push(format!(
            "{name}: `{word}` removes LD_PRELOAD, which loads the agent, from the environment; keep \
             LD_PRELOAD and the variables that begin with REFRAIN_, or start Refrain after it: \
             `refrain trace -- ./app` inside the script"
        ));
    }
    if all.is_empty() {
        all.push(format!(
            "does {name} use MPI, and did it call MPI_Init? If so, the agent was not loaded: LD_PRELOAD \
             and the variables that begin with REFRAIN_ must reach the program; `env -i`, `unset \
             LD_PRELOAD`, sudo, containers, and setuid or static programs lose them"
        ));
    }
    all
}

/// Whether a 64-bit ELF file has no loader. `start` are its first bytes.
pub fn is_static(start: &[u8]) -> bool {
    const LOADER: u32 = 3;
    let headers = || {
        let first = u64::from_le_bytes(*start.get(32..40)?.first_chunk()?) as usize;
        let short = |at: usize| start.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        Some((first, usize::from(short(54)?), usize::from(short(56)?)))
    };
    if !start.starts_with(b"\x7fELF\x02") {
        return false;
    }
    let Some((first, size, count)) = headers() else { return false };
    let kind = |i: usize| {
        let at = first.checked_add(i * size)?;
        start.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b))
    };
    count > 0 && (0..count).all(|i| kind(i).is_some_and(|kind| kind != LOADER))
}

/// Whether the loader runs the program in secure mode, in which it ignores `LD_PRELOAD`.
fn gains_privileges(file: &Path) -> bool {
    let set_id = libc::S_ISUID | libc::S_ISGID;
    if file.metadata().is_ok_and(|file| file.mode() & set_id != 0) {
        return true;
    }
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability";
    // SAFETY: two strings that end with a zero byte; the buffer has size 0.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_with_an_interpreter_are_not_static() {
        let own = std::env::current_exe().expect("the test's own file");
        assert!(!is_static(&std::fs::read(own).expect("it reads")));
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(b"\x7fELF\x02"));
    }

    #[test]
    fn scripts_and_arguments_that_clear_the_environment_are_recognised() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("wrapper");
        std::fs::write(&script, "#!/bin/sh\nunset LD_PRELOAD\nexec ./app\n")
            .expect("it is written");
        let words = [OsStr::new("wrapper")];
        assert_eq!(facts(&script, &words).clears, Some("unset LD_PRELOAD"));
        std::fs::write(&script, "#!/bin/sh\nexec ./app\n").expect("it is written");
        assert_eq!(facts(&script, &words), Facts::default());
        let words = ["env", "-i", "./app"].map(OsStr::new);
        assert_eq!(facts(&script, &words).clears, Some("env -i"));
    }

    #[test]
    fn setuid_programs_are_recognised() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = folder.path().join("program");
        std::fs::write(&program, "").expect("it is written");
        assert!(!gains_privileges(&program));
        let mode = std::fs::Permissions::from_mode(0o4755);
        std::fs::set_permissions(&program, mode).expect("it is ours");
        assert!(gains_privileges(&program));
        let facts = facts(&program, &[]);
        assert!(explain("program", &facts)[0].contains("setuid"), "{facts:?}");
    }

    #[test]
    fn without_a_known_cause_all_possible_causes_are_listed() {
        let all = explain("app", &Facts::default());
        let [only] = &all[..] else { panic!("{all:?}") };
        for word in ["MPI_Init", "env -i", "unset LD_PRELOAD", "setuid", "static"] {
            assert!(only.contains(word), "{only}");
        }
    }
}
