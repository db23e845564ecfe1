//! Real programs record and replay without a changed result: LAMMPS and HPCC as Debian builds them for
//! Open MPI, ScaLAPACK's test of the LU decomposition for both MPIs, and mpi4py's test suite.

use crate::mpi4py;
use refrain_testing::{Mpi, Outcome, is_full, require_mpi, require_path, require_program};
use std::path::Path;
use std::time::Duration;

const RANKS: &str = "4";

/// Runs a program in a folder, after some words.
fn run(mpi: &Mpi, folder: &Path, before: &[&str], program: &[&str]) -> Outcome {
    let words = before.iter().copied().chain(["mpirun", "-n"]).chain(program.iter().copied());
    let words: Vec<&str> = words.collect();
    let (first, rest) = words.split_first().expect("mpirun at least");
    let run = mpi.run(1).program(first).bare().args(rest).current_dir(folder);
    run.timeout(Duration::from_secs(540)).output()
}

/// A plain run, a recorded one and a replay.
fn three_runs(
    mpi: &Mpi,
    folder: &Path,
    options: &[&str],
    program: &[&str],
    result: impl Fn(&Outcome) -> String,
) -> [String; 3] {
    let refrain = refrain_testing::refrain_binary();
    let refrain = refrain.to_str().expect("a plain path");
    let record = [&[refrain, "record", "-o", "run.refrain"], options, &["--"]].concat();
    let replay = [refrain, "replay", "run.refrain", "--"];
    [&[][..], &record, &replay].map(|before| {
        let outcome = run(mpi, folder, before, program);
        assert!(!outcome.timed_out && outcome.code == 0, "{outcome}");
        result(&outcome)
    })
}

fn debian_openmpi(program: &str) -> Option<Mpi> {
    require_program(program).and_then(|_| require_mpi("openmpi-4.1"))
}

const MELT: &str = "units lj\natom_style atomic\nlattice fcc 0.8442\n\
    region box block 0 6 0 6 0 6\ncreate_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\n\
    velocity all create 3.0 87287 loop geom\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\n\
    fix 1 all nve\nthermo 20\nrun 100\n";

#[test]
fn lammps_melts_to_the_same_numbers_again() {
    let Some(mpi) = debian_openmpi("lmp") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.melt"), MELT).unwrap();
    let program = [RANKS, "lmp", "-in", "in.melt"];
    let [plain, recorded, replayed] = three_runs(&mpi, folder.path(), &[], &program, |outcome| {
        let table = outcome.stdout.lines().skip_while(|l| !l.trim_start().starts_with("Step"));
        table.take_while(|l| !l.starts_with("Loop time")).collect::<Vec<_>>().join("\n")
    });
    assert!(plain.lines().count() > 4, "no table: {plain}");
    assert_eq!(plain, recorded);
    assert_eq!(recorded, replayed);
}

const HPCC: &str = "HPLinpack benchmark input file\nRefrain\nHPL.out\n8\n1\n200\n1\n80\n0\n1\n2\n2\n\
    16.0\n1\n2\n1\n4\n1\n2\n1\n1\n1\n1\n1\n1\n2\n64\n0\n0\n1\n8\n";

/// HPCC seeds its random numbers with the time of day.
#[test]
fn hpcc_has_the_same_residuals_again() {
    let Some(mpi) = debian_openmpi("hpcc") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hpccinf.txt"), HPCC).unwrap();
    let result = |_: &Outcome| {
        let report = folder.path().join("hpccoutf.txt");
        let text = std::fs::read_to_string(&report).unwrap();
        std::fs::remove_file(report).unwrap();
        let keys = ["HPL_RnormI", "HPL_Anorm1", "HPL_Xnorm1", "PTRANS_residual", "MPIFFT_maxErr"];
        let kept = |l: &&str| {
            keys.iter().any(|key| l.starts_with(key))
                || l.contains("Errors=")
                || l.contains("Success=")
        };
        text.lines().filter(kept).collect::<Vec<_>>().join("\n")
    };
    let [plain, recorded, replayed] =
        three_runs(&mpi, folder.path(), &["--rand"], &[RANKS, "hpcc"], result);
    assert!(plain.lines().count() > 5, "no results: {plain}");
    assert_eq!(plain, recorded);
    assert_eq!(recorded, replayed);
}

/// It receives from any source. It prints times of MPI_Wtime, and the output of a replay equals the recorded
/// run's to the last digit.
#[test]
fn an_lu_decomposition_prints_the_same_again() {
    for (name, family) in [("mpich-4.0", "mpich"), ("openmpi-4.1", "openmpi")] {
        let program = format!("/usr/lib/x86_64-linux-gnu/scalapack/{family}-tests/xdlu");
        let input = Path::new("/usr/share/scalapack/LU.dat");
        let Some(mpi) = require_path("scalapack-mpi-test", &program).and(require_mpi(name)) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(input, folder.path().join("LU.dat")).unwrap();
        let result = |outcome: &Outcome| outcome.stdout.clone();
        let [plain, recorded, replayed] =
            three_runs(&mpi, folder.path(), &[], &[RANKS, &program], result);
        let passed = |text: &str| text.matches("PASSED").count();
        assert!(passed(&plain) > 200, "{plain}");
        assert_eq!(passed(&plain), passed(&recorded));
        assert_eq!(recorded, replayed);
    }
}

/// How many tests mpi4py's suite ran and how many it skipped, by rank. The lines of ranks mix, so the numbers are
/// searched anywhere in the output. The exit code says whether a test failed.
fn verdicts(outcome: &Outcome) -> String {
    let numbers_after = |word: &'static str| {
        let found = outcome.stderr.match_indices(word).map(move |(at, _)| {
            let rest = &outcome.stderr[at + word.len()..];
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default()
        });
        found.map(move |number| format!("{word}{number}"))
    };
    let mut verdicts: Vec<_> = numbers_after("Ran ").chain(numbers_after("skipped=")).collect();
    verdicts.sort();
    verdicts.join("\n")
}

/// The whole suite takes minutes; the short run has the tests that receive messages or use addresses.
#[test]
fn mpi4py_passes_its_tests_again() {
    let Some(main) = mpi4py::suite() else { return };
    let main = main.to_str().expect("a plain path");
    let (option, modules): (_, &[&str]) = if is_full() {
        ("-x", &["test_spawn", "test_dynproc", "test_util_pool", "test_util_sync"])
    } else {
        ("-i", &["test_p2p", "test_request", "test_grequest", "test_status", "test_address"])
    };
    let modules: Vec<&str> = modules.iter().flat_map(|module| [option, module]).collect();
    for mpi in ["mpich-4.0", "openmpi-4.1"].into_iter().filter_map(mpi4py::mpi) {
        let folder = tempfile::tempdir().unwrap();
        let program = [&["2", "python3", main, "-v"][..], &modules].concat();
        let [plain, recorded, replayed] = three_runs(&mpi, folder.path(), &[], &program, verdicts);
        assert_eq!(plain.matches("Ran ").count(), 2, "{plain}");
        assert_eq!(plain, recorded);
        assert_eq!(recorded, replayed);
    }
}
