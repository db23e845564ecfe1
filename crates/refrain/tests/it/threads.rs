//! Traces of programs whose threads all call MPI.

use refrain_container::Container;
use refrain_testing::require_mpi;
use std::path::Path;
use std::time::Duration;

/// Bytes of a trace, without the statistics of times.
fn bytes(trace: &Path) -> u64 {
    let container = Container::open(trace).expect("a trace");
    container.bytes() - container.section("timing").expect("statistics").stored
}

#[test]
fn eight_threads_on_four_ranks_take_no_more_bytes_for_ten_times_the_iterations() {
    let Some(mpi) = require_mpi("openmpi-4.1") else { return };
    let program = mpi.compile_with("threads_many.c", &["-pthread"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |iterations: &str| {
        let name = format!("{iterations}.refrain");
        let program = program.to_str().expect("a plain path");
        let words = ["trace", "-o", &name, "--", "mpirun", "-n", "4", program, iterations, "8"];
        let run = mpi.run(1).program(refrain_testing::refrain_binary()).bare().args(words);
        let run = run.current_dir(folder.path()).timeout(Duration::from_secs(240));
        let outcome = run.output().expect_success();
        assert!(outcome.stdout.contains("threads ok"), "{outcome}");
        bytes(&folder.path().join(name))
    };
    // Threads take requests from a pool that they share, so which request a thread gets varies from run to
    // run, and with it the size by a tenth. The median of three runs varies less.
    let median = |iterations: &str| {
        let mut sizes = [run(iterations), run(iterations), run(iterations)];
        sizes.sort_unstable();
        sizes[1]
    };
    let (few, many) = (median("50"), median("500"));
    assert!(many <= few + few / 5, "{few} and {many} bytes");
}
