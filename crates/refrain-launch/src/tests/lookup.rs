//! Programs that do not exist.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::lookup::{MissingProgram, missing_in, near};

/// A directory with two programs, a text file and a directory in it; removed at the end.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("refrain-launch-{}-{count}", std::process::id());
        let home = std::env::temp_dir().join(name);
        fs::create_dir_all(home.join("sub")).unwrap();
        for (file, mode) in [("app", 0o755), ("sub/solver.x", 0o755), ("notes", 0o644)] {
            fs::write(home.join(file), "").unwrap();
            fs::set_permissions(home.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        Self(home)
    }

    fn missing(&self, flavour: Flavour, command: &str) -> Option<String> {
        let plan = parse_as(flavour, command).unwrap();
        let path = self.0.join("sub");
        missing_in(&plan, &self.0, path.as_os_str()).map(|missing| missing.to_string())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn programs_that_exist_are_found() {
    let home = Home::new();
    let found = [
        "mpirun ./app".to_owned(),
        format!("mpirun {}/app", home.0.display()),
        "mpirun ./app : sub/solver.x".to_owned(),
        "mpirun -wdir sub ./solver.x".to_owned(),
        format!("mpirun -wdir {}/sub ../app", home.0.display()),
        "env -C sub mpirun ./solver.x".to_owned(),
        "mpirun solver.x".to_owned(),
        "mpirun -genv PATH /elsewhere anything".to_owned(),
        "env PATH=/elsewhere mpirun anything".to_owned(),
        "./app".to_owned(),
    ];
    for command in found {
        assert_eq!(home.missing(Flavour::Hydra, &command), None, "{command}");
    }
}

#[test]
fn a_missing_file_is_named_with_its_directory_and_a_near_name() {
    let home = Home::new();
    let here = home.0.display();
    let examples = [
        (
            "mpirun ./ap",
            format!(
                "program `./ap` not found (no such file; looked in {here}); did you mean `./app`?"
            ),
        ),
        (
            "mpirun ./App",
            format!(
                "program `./App` not found (no such file; looked in {here}); did you mean `./app`?"
            ),
        ),
        (
            "mpirun sub/solver",
            format!(
                "program `sub/solver` not found (no such file; looked in {here}/sub); did you mean `sub/solver.x`?"
            ),
        ),
        (
            "mpirun ./app : ./zzz",
            format!("program `./zzz` not found (no such file; looked in {here})"),
        ),
        (
            "mpirun -wdir sub ./app",
            format!("program `./app` not found (no such file; looked in {here}/sub)"),
        ),
        (
            "mpirun /no/such/thing",
            "program `/no/such/thing` not found (no such file; looked in /no/such)".to_owned(),
        ),
    ];
    for (command, message) in examples {
        assert_eq!(home.missing(Flavour::Hydra, command), Some(message), "{command}");
    }
}

#[test]
fn a_name_that_is_only_in_the_working_directory_is_found_where_the_launcher_finds_it() {
    let home = Home::new();
    assert_eq!(
        home.missing(Flavour::Hydra, "mpirun app"),
        Some("program `app` not found in PATH; did you mean `./app`?".to_owned()),
    );
    assert_eq!(home.missing(Flavour::OpenMpi4, "mpirun app"), None);
    assert_eq!(home.missing(Flavour::Hydra, "srun app"), None);
    assert_eq!(
        home.missing(Flavour::OpenMpi4, "mpirun apq"),
        Some("program `apq` not found in PATH; did you mean `./app`?".to_owned()),
    );
    assert_eq!(
        home.missing(Flavour::Hydra, "A=B ./app"),
        Some("program `A=B` not found in PATH; did you mean `env A=B …`?".to_owned()),
    );
}

#[test]
fn files_that_cannot_be_executed_are_reported_with_the_reason() {
    let home = Home::new();
    let notes = home.0.join("notes");
    assert_eq!(
        home.missing(Flavour::Hydra, "mpirun ./notes"),
        Some(format!(
            "program `./notes` is not executable; if it is a program: chmod +x {}",
            home.0.join("./notes").display(),
        )),
    );
    assert_eq!(
        home.missing(Flavour::Hydra, "mpirun ./sub"),
        Some("program `./sub` is a directory".to_owned()),
    );
    let plan = parse_as(Flavour::Hydra, "mpirun notes").unwrap();
    let missing = missing_in(&plan, Path::new("/"), notes.parent().unwrap().as_os_str());
    assert!(matches!(missing, Some(MissingProgram::NotInPath { .. })));
}

#[test]
fn names_are_near_after_a_typing_error_but_not_otherwise() {
    for (name, other) in [("app", "ap"), ("solver", "slover"), ("APP", "app"), ("lmp", "lmp.mpi")] {
        assert!(near(name, other).is_some(), "{name} {other}");
    }
    for (name, other) in [("app", "tool"), ("cg", "lu"), ("solver", "resolved-x")] {
        assert!(near(name, other).is_none(), "{name} {other}");
    }
}
