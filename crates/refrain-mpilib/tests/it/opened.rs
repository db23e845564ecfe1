//! A program that is linked to no MPI opens each one of this machine, and is run by its launcher.

use refrain_mpilib::{Library, OpenError};
use refrain_testing::{Family, Mpi, Run, refrain, sorted_lines};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// An example. Examples are built together with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.ancestors().nth(2).expect("target/PROFILE").join("examples").join(name)
}

/// The library that programs of the MPI are linked to.
fn library(mpi: &Mpi) -> PathBuf {
    let output = mpi.command("ldd").arg(mpi.compile("hello.c")).output().expect("ldd can be run");
    let listed = String::from_utf8(output.stdout).expect("text");
    let path = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        name.starts_with("libmpi")
            .then(|| PathBuf::from(rest.split(" (").next().unwrap_or_default()))
    };
    listed.lines().find_map(path).unwrap_or_else(|| panic!("{}: {listed}", mpi.name()))
}

fn two_ranks(mpi: &Mpi) -> Run {
    mpi.run(2).program(example("two_ranks")).args([library(mpi)])
}

#[test]
fn a_program_without_mpi_calls_every_mpi_that_it_opens() {
    for mpi in Mpi::installed() {
        let family = match mpi.family() {
            Family::Mpich => "mpich",
            Family::OpenMpi => "openmpi",
            Family::StandardAbi => "abi",
        };
        let outcome = two_ranks(&mpi).output().expect_success();
        let expected = [(0, 1, "\"sent\"", 0), (1, 0, "\"hello\"", 10)].map(|(rank, other, text, offset)| {
            format!(
                "family={family} rank={rank} size=2 sum=3 received=[{other}.0, 0.5, 0.0] source={other} \
                 tag={} bytes=Some(16) cancelled=false count=2 completed=true freed=true \
                 private=Some({text}) offset={offset} all=Some(false) tick=true",
                40 + other
            )
        });
        assert_eq!(sorted_lines(&outcome.stdout), expected, "{}", mpi.name());
    }
}

/// A tool as others write them, which counts one function.
const TOOL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int MPI_Allreduce(void *from, void *to, int count, void *datatype, void *op, void *comm) {
    static int (*next)(void *, void *, int, void *, void *, void *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "MPI_Allreduce");
    fprintf(stderr, "the tool sees MPI_Allreduce\n");
    return next(from, to, count, datatype, op, comm);
}
"#;

#[test]
fn a_preloaded_tool_sees_calls_by_name_and_no_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, tool) = (folder.path().join("tool.c"), folder.path().join("tool.so"));
    std::fs::write(&source, TOOL).expect("the folder is writable");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&tool, &source]).status();
    assert!(compiled.expect("cc can be run").success());
    for mpi in Mpi::representatives() {
        let outcome = two_ranks(&mpi).env("LD_PRELOAD", &tool).output().expect_success();
        // Each rank calls it once by name; `Comm::all` calls MPI's own.
        let seen = outcome.stderr.matches("the tool sees MPI_Allreduce").count();
        assert_eq!(seen, 2, "{}: {}", mpi.name(), outcome.stderr);
    }
}

#[test]
fn the_agent_traces_calls_by_name_and_no_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("two_ranks.refrain");
    for mpi in Mpi::representatives() {
        two_ranks(&mpi).trace_to(Some(&file)).output().expect_success();
        let shown = refrain([OsStr::new("show"), file.as_os_str()]).expect_success().stdout;
        let calls = |name: &str| shown.matches(&format!("{name}(")).count();
        // One per rank each: the private communicator is made and used past the agent.
        for name in ["MPI_Init", "MPI_Allreduce", "MPI_Sendrecv", "MPI_Comm_dup", "MPI_Finalize"] {
            assert_eq!(calls(name), 2, "{name} under {}:\n{shown}", mpi.name());
        }
        for name in ["MPI_Abi_get_version", "MPI_Comm_create", "MPI_Send", "MPI_Exscan"] {
            assert_eq!(calls(name), 0, "{name} under {}:\n{shown}", mpi.name());
        }
    }
}

#[test]
fn what_is_no_mpi_library_is_refused_with_a_remedy() {
    // SAFETY: there is no such file.
    let missing = unsafe { Library::open("libmpi-of-nobody.so.7") }.err().expect("no such file");
    assert!(matches!(missing, OpenError::NotLoaded { .. }));
    let text = missing.to_string();
    assert!(text.contains("libmpi-of-nobody.so.7") && text.contains("LD_LIBRARY_PATH"), "{text}");
    // SAFETY: the C library, which is loaded anyway.
    let no_mpi = unsafe { Library::open("libc.so.6") }.err().expect("not an MPI");
    assert_eq!(no_mpi, OpenError::NotMpi { library: "libc.so.6".into() });
}
