//! Fortran, in its three flavours: `include 'mpif.h'`, `use mpi`, `use mpi_f08`.
//!
//! Each victim makes the same calls (`tests/victims/fortran_calls.h`) and prints every call with
//! some of its arguments (`fortran_expect.h`). The printed calls must equal the recorded calls, one by one,
//! and must be the same as without the agent.

use crate::shown::{Shown, Value};
use refrain_testing::{Mpi, refrain};
use std::fs;
use std::path::Path;

const RANKS: usize = 2;

/// How a program declares MPI.
struct Flavour {
    victim: &'static str,
    flags: &'static [&'static str],
}

/// Without interfaces, the compiler takes arguments of different types and ranks for mistakes.
const MPIF: Flavour =
    Flavour { victim: "fortran_mpif.F90", flags: &["-fallow-argument-mismatch", "-w"] };
const USE_MPI: Flavour = Flavour { victim: "fortran_mpi.F90", flags: &[] };
const USE_MPI_F08: Flavour = Flavour { victim: "fortran_f08.F90", flags: &[] };

/// A call, and how many others it was made inside of.
type Call = (usize, String);

impl Flavour {
    /// The calls that the victim prints under an MPI, by rank.
    fn stated(&self, mpi: &Mpi, folder: &Path, trace: Option<&Path>) -> Vec<Vec<Call>> {
        let file = folder.join("stated");
        let outcome = mpi
            .run(RANKS)
            .program(mpi.compile_with(self.victim, self.flags))
            .env("EXPECT_FILE", &file)
            // Debian disables the only component with which Win_create works everywhere.
            .env("OMPI_MCA_osc", "^ucx")
            .current_dir(folder)
            .trace_to(trace)
            .output()
            .expect_success();
        let read = |rank| {
            let file = file.with_extension(rank);
            fs::read_to_string(&file)
                .unwrap_or_else(|e| panic!("{}: {e}\n{outcome}", file.display()))
        };
        (0..RANKS).map(|rank| stated_calls(&read(rank.to_string()))).collect()
    }

    fn each_call_is_recorded_once(&self) {
        for mpi in Mpi::with_fortran() {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let trace = folder.path().join("victim.refrain");
            let stated = self.stated(&mpi, folder.path(), Some(&trace));
            for (rank, stated) in stated.iter().enumerate() {
                let logged = logged_calls(&trace, rank);
                if let Some((at, difference)) = first_difference(stated, &logged) {
                    panic!(
                        "{} under {}, rank {rank}, call {at}: {difference}\nstated:\n{}\nlogged:\n{}",
                        self.victim,
                        mpi.name(),
                        around(stated, at),
                        around(&logged, at),
                    );
                }
            }
        }
    }

    fn the_program_runs_as_without_the_agent(&self) {
        for mpi in Mpi::with_fortran() {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let trace = folder.path().join("victim.refrain");
            let plain = self.stated(&mpi, folder.path(), None);
            let traced = self.stated(&mpi, folder.path(), Some(&trace));
            for (plain, traced) in plain.iter().zip(&traced) {
                let masked = |calls: &[Call]| -> Vec<Call> {
                    calls.iter().map(|(depth, text)| (*depth, without_addresses(text))).collect()
                };
                assert_eq!(masked(plain), masked(traced), "{} under {}", self.victim, mpi.name());
            }
        }
    }
}

/// `expect RANK.THREAD DEPTH CALL`
fn stated_calls(said: &str) -> Vec<Call> {
    said.lines()
        .map(|line| {
            let mut words = line.splitn(4, ' ').skip(2);
            let depth = words.next().and_then(|depth| depth.parse().ok());
            depth.zip(words.next().map(str::to_owned))
        })
        .map(|call| call.unwrap_or_else(|| panic!("not all lines state a call:\n{said}")))
        .collect()
}

/// `rank RANK  #NUMBER  CALL`, where calls inside others are indented.
fn logged_calls(trace: &Path, rank: usize) -> Vec<Call> {
    let rank = rank.to_string();
    let arguments = ["show".as_ref(), "--full".as_ref(), "--rank".as_ref(), rank.as_ref()];
    let shown = refrain(arguments.into_iter().chain([trace.as_os_str()])).expect_success().stdout;
    shown
        .lines()
        .map(|line| {
            let call = line.splitn(3, "  ").nth(2).unwrap_or_else(|| panic!("no call: {line}"));
            let text = call.trim_start();
            ((call.len() - text.len()) / 2, text.to_owned())
        })
        .collect()
}

/// The first call that was not recorded as the program printed it, and the difference.
fn first_difference(stated: &[Call], logged: &[Call]) -> Option<(usize, String)> {
    let pairs = stated.iter().zip(logged);
    let unequal = pairs.enumerate().find_map(|(at, (s, l))| Some((at, difference(s, l)?)));
    unequal.or_else(|| {
        let lengths = (stated.len(), logged.len());
        (lengths.0 != lengths.1).then(|| {
            (lengths.0.min(lengths.1), format!("{} calls stated, {} logged", lengths.0, lengths.1))
        })
    })
}

fn difference(stated: &Call, logged: &Call) -> Option<String> {
    let parse = |text: &str| Shown::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let (mut expected, got) = (parse(&stated.1), parse(&logged.1));
    if expected.function != got.function {
        return Some(format!("{}, not {}", got.function, expected.function));
    }
    if stated.0 != logged.0 {
        return Some(format!("inside {} calls, not {}", logged.0, stated.0));
    }
    if expected.result == "_" {
        expected.result.clone_from(&got.result);
    }
    // Arguments that the program does not print may have any value.
    let mut stated_arguments = expected.arguments;
    let is_known = |name: &str| got.arguments.iter().any(|(known, _)| known == name);
    if let Some((name, _)) = stated_arguments.iter().find(|(name, _)| !is_known(name)) {
        return Some(format!("there is no argument {name}"));
    }
    let argument = |name: &String| {
        let at = stated_arguments.iter().position(|(stated, _)| stated == name);
        at.map_or(Value::Word("_".to_owned()), |at| stated_arguments.swap_remove(at).1)
    };
    let names = got.arguments.iter().map(|(name, _)| name);
    expected.arguments = names.clone().cloned().zip(names.map(argument)).collect();
    expected.difference(&got)
}

/// A call with its neighbours.
fn around(calls: &[Call], at: usize) -> String {
    let range = at.saturating_sub(2).min(calls.len())..(at + 3).min(calls.len());
    let lines = calls[range].iter().map(|(depth, text)| format!("{}{text}", "  ".repeat(*depth)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text without numbers so large that they can only be addresses, which change from run to
/// run. (Those with 16 digits are small and negative.)
fn without_addresses(text: &str) -> String {
    let is_address = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => (9..16).contains(&digits.len()),
        None => word.len() > 11 && word.bytes().all(|b| b.is_ascii_digit()),
    };
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if is_address(bare) { word.replacen(bare, "ADDRESS", 1) } else { word.to_owned() }
        })
        .collect()
}

#[test]
fn each_call_of_a_program_with_mpif_h_is_recorded_once() {
    MPIF.each_call_is_recorded_once();
}

#[test]
fn each_call_of_a_program_that_uses_mpi_is_recorded_once() {
    USE_MPI.each_call_is_recorded_once();
}

#[test]
fn each_call_of_a_program_that_uses_mpi_f08_is_recorded_once() {
    USE_MPI_F08.each_call_is_recorded_once();
}

#[test]
fn a_program_with_mpif_h_runs_as_without_the_agent() {
    MPIF.the_program_runs_as_without_the_agent();
}

#[test]
fn a_program_that_uses_mpi_runs_as_without_the_agent() {
    USE_MPI.the_program_runs_as_without_the_agent();
}

#[test]
fn a_program_that_uses_mpi_f08_runs_as_without_the_agent() {
    USE_MPI_F08.the_program_runs_as_without_the_agent();
}
