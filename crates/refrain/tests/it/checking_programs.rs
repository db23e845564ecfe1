//! `refrain check` on whole programs that work: the NAS Parallel Benchmarks, and ScaLAPACK's test of the LU
//! decomposition. Each finding in them is known, and true.

use crate::checking::assert_no_findings;
use refrain_testing::{Mpi, require_mpi, require_path, skip};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More ranks take too long on few cores.
const MOST_RANKS: usize = 16;

/// BT, SP and FT never free the communicators that they make.
const KNOWN_OF_NAS: &str = "object-leak MPI_Comm_split\nobject-leak MPI_Comm_dup";

fn is_wanted() -> bool {
    let is_wanted = std::env::var_os("REFRAIN_CHECK_PROGRAMS").is_some();
    if !is_wanted {
        skip("`make check-programs` runs it");
    }
    is_wanted
}

/// Traces a program, and checks the trace.
fn check(mpi: &Mpi, ranks: usize, folder: &Path, program: &[&str], known: &str) {
    let (first, rest) = program.split_first().expect("a program");
    let trace = folder.join("run.refrain");
    mpi.run(ranks)
        .program(first)
        .args(rest)
        .current_dir(folder)
        .timeout(Duration::from_secs(500))
        .without_records()
        .trace_options(["--callsite", "return"])
        .trace_to(Some(&trace))
        .output();
    assert_no_findings(&trace, known);
    println!("{}, {ranks} ranks, {}: no findings", first, mpi.name());
}

/// `NPB_BIN` names a folder with the benchmarks built for MPICH (`bt.S.16`, `cg.S.8` …).
#[test]
fn the_nas_benchmarks_have_no_findings_but_communicators_that_they_keep() {
    let folder = std::env::var_os("NPB_BIN").map(PathBuf::from);
    let Some(folder) = folder.filter(|_| is_wanted()) else { return };
    let Some(mpi) = require_mpi("mpich-4.0") else { return };
    let mut programs: Vec<PathBuf> =
        folder.read_dir().expect("the folder of NPB_BIN").flatten().map(|e| e.path()).collect();
    programs.sort();
    let mut checked = 0;
    for program in programs {
        let name = program.to_str().expect("a plain path");
        let ranks = name.rsplit_once('.').and_then(|(_, ranks)| ranks.parse::<usize>().ok());
        let Some(ranks) = ranks.filter(|ranks| *ranks <= MOST_RANKS) else { continue };
        let folder = tempfile::tempdir().expect("a temporary folder");
        check(&mpi, ranks, folder.path(), &[name], KNOWN_OF_NAS);
        checked += 1;
    }
    assert!(checked > 0, "no program in {}", folder.display());
}

#[test]
fn an_lu_decomposition_has_no_findings() {
    if !is_wanted() {
        return;
    }
    for (name, family) in [("mpich-4.0", "mpich"), ("openmpi-4.1", "openmpi")] {
        let program = format!("/usr/lib/x86_64-linux-gnu/scalapack/{family}-tests/xdlu");
        let input = Path::new("/usr/share/scalapack/LU.dat");
        let Some(mpi) = require_path("scalapack-mpi-test", &program).and(require_mpi(name)) else {
            continue;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::copy(input, folder.path().join("LU.dat")).expect("the input");
        check(&mpi, 4, folder.path(), &[&program], "");
    }
}
