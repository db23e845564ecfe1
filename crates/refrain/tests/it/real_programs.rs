//! Real programs give the same numbers with and without the agent: LAMMPS and the HPC
//! Challenge benchmark, as Debian builds them, under Open MPI on 4 ranks.

use crate::checking::assert_no_findings;
use refrain_testing::{Mpi, Outcome, refrain, require_mpi, require_program};
use std::path::Path;
use std::time::Duration;

const RANKS: usize = 4;

/// The MPI that Debian links these programs to.
fn debian_openmpi(program: &str) -> Option<Mpi> {
    require_program(program).and_then(|_| require_mpi("openmpi-4.1"))
}

fn run(mpi: &Mpi, program: &str, args: &[&str], folder: &Path, trace: Option<&Path>) -> Outcome {
    mpi.run(RANKS)
        .program(program)
        .args(args)
        .current_dir(folder)
        .timeout(Duration::from_secs(300))
        .trace_to(trace)
        .output()
        .expect_success()
}

/// Asserts that a trace has the calls of every rank up to MPI_Finalize, and that nothing is wrong with them.
fn assert_whole(trace: &Path) {
    let first =
        refrain(["show".as_ref(), trace.as_os_str(), "--function".as_ref(), "Finalize".as_ref()]);
    let ranks = first.expect_success().stdout.lines().count();
    assert_eq!(ranks, RANKS, "every rank's MPI_Finalize is in the trace");
    assert_no_findings(trace, "");
}

const MELT: &str = "\
units           lj
atom_style      atomic
lattice         fcc 0.8442
region          box block 0 6 0 6 0 6
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 3.0 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    every 20 delay 0 check no
fix             1 all nve
thermo          20
thermo_modify   norm no
thermo_style    custom step temp epair emol etotal press
run             200
";

/// The thermodynamic table: what the simulation computed, without timings.
fn thermo(stdout: &str) -> Vec<&str> {
    let table = stdout.lines().skip_while(|l| !l.trim_start().starts_with("Step"));
    table.take_while(|l| !l.starts_with("Loop time")).collect()
}

#[test]
fn lammps_melts_to_the_same_numbers() {
    let Some(mpi) = debian_openmpi("lmp") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.melt"), MELT).unwrap();
    let trace = folder.path().join("melt.refrain");
    let args = ["-in", "in.melt"];
    let plain = run(&mpi, "lmp", &args, folder.path(), None);
    let traced = run(&mpi, "lmp", &args, folder.path(), Some(&trace));
    let table = thermo(&plain.stdout);
    assert!(table.len() > 10, "no table in\n{}", plain.stdout);
    assert_eq!(table, thermo(&traced.stdout));
    assert_whole(&trace);
}

const HPCC: &str = "\
HPLinpack benchmark input file
Refrain
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
200          Ns
1            # of NBs
80           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
";

/// Residuals, error counts and verdicts of HPCC's report: what does not depend on speed.
fn verdicts(folder: &Path) -> Vec<String> {
    let report = std::fs::read_to_string(folder.join("hpccoutf.txt")).unwrap();
    let keys = [
        "HPL_RnormI",
        "HPL_Anorm1",
        "HPL_AnormI",
        "HPL_Xnorm1",
        "HPL_XnormI",
        "HPL_BnormI",
        "PTRANS_residual",
        "PTRANS_n",
        "MPIRandomAccess_Errors=",
        "MPIFFT_maxErr",
        "MPIFFT_N",
        "CommWorldProcs",
        "Success=",
    ];
    // The report has the transposition twice, by wall-clock time and by CPU time. The second line is missing
    // if the CPU time did not change, so only the first is compared.
    let kept = |l: &&str| {
        let told = keys.iter().any(|k| l.starts_with(k));
        told || !l.starts_with("CPU") && (l.contains("PASSED") || l.contains("FAILED"))
    };
    // The line has times; its sizes and its verdict are compared.
    let without_times = |l: &str| match l.starts_with("WALL") {
        true => {
            let words: Vec<_> = l.split_whitespace().filter(|w| !w.contains('.')).collect();
            words.join(" ")
        }
        false => l.to_owned(),
    };
    report.lines().filter(kept).map(without_times).collect()
}

#[test]
fn hpcc_passes_with_the_same_residuals() {
    let Some(mpi) = debian_openmpi("hpcc") else { return };
    let (plain, traced) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&plain, &traced] {
        std::fs::write(folder.path().join("hpccinf.txt"), HPCC).unwrap();
    }
    let trace = traced.path().join("hpcc.refrain");
    run(&mpi, "hpcc", &[], plain.path(), None);
    run(&mpi, "hpcc", &[], traced.path(), Some(&trace));
    let expected = verdicts(plain.path());
    assert!(expected.len() > 8, "{expected:?}");
    assert_eq!(expected, verdicts(traced.path()));
    assert_whole(&trace);
}
