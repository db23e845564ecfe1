//! `refrain stats` and `refrain info`: the numbers agree with the program.

use refrain_testing::{Mpi, refrain};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs a program under `refrain trace`, as users do. Returns the trace and the program's output.
fn traced(
    mpi: &Mpi,
    folder: &Path,
    ranks: usize,
    program: &Path,
    args: &[&str],
) -> (PathBuf, String) {
    let trace = folder.join("run.refrain");
    let run = mpi.run(ranks).program(program).args(args).trace_to(Some(&trace)).without_records();
    let outcome = run.current_dir(folder).output().expect_success();
    (trace, outcome.stdout)
}

fn json(command: &str, trace: &Path) -> Json {
    let outcome = refrain([command.as_ref(), trace.as_os_str(), "--json".as_ref()]);
    serde_json::from_str(&outcome.expect_success().stdout).expect("JSON")
}

/// The object of a function.
fn of<'a>(stats: &'a Json, function: &str) -> &'a Json {
    let mut all = stats.as_array().expect("an array").iter();
    all.find(|f| f["function"] == function).unwrap_or_else(|| panic!("{function} in {stats}"))
}

/// Calls, bytes, calls of unknown size.
fn moved(stats: &Json, function: &str) -> (u64, u64, u64) {
    let number = |key: &str| of(stats, function)[key].as_u64().expect("a number");
    (number("calls"), number("bytes"), number("unsized_calls"))
}

#[test]
fn the_figures_of_a_stencil_are_exact() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = mpi.compile("../../bench/programs/stencil2d.c");
        let (trace, _) = traced(&mpi, folder.path(), 4, &program, &["hand", "300"]);

        let stats = json("stats", &trace);
        // In a grid of 2 x 2, two of the four sides of each rank are at the border.
        let (calls, bytes) = (4 * 4 * 300, 4 * 2 * 300 * 64 * 8);
        assert_eq!(moved(&stats, "MPI_Isend"), (calls, bytes, 0), "{}", mpi.name());
        assert_eq!(moved(&stats, "MPI_Irecv"), (calls, bytes, 0), "{}", mpi.name());
        assert_eq!(moved(&stats, "MPI_Waitall"), (4 * 300, 0, 0), "{}", mpi.name());
        for function in stats.as_array().expect("an array") {
            assert_eq!(function["ranks"], 4, "{function}");
            assert_eq!(function["failed_polls"], 0, "{function}");
            let number = |key: &str| function[key].as_f64().expect("a number");
            assert!(number("min_us") <= number("mean_us"), "{function}");
            assert!(number("mean_us") <= number("max_us"), "{function}");
            assert!(number("deviation_us") >= 0.0 && number("time_s") > 0.0, "{function}");
        }
        let times = stats.as_array().expect("an array").iter().map(|f| f["time_s"].as_f64());
        assert!(times.is_sorted_by(|a, b| a >= b), "{stats}");

        assert_of_ranks(&trace, &stats);
        assert_info(&mpi, &trace, &stats);
        let text = refrain(["stats".as_ref(), trace.as_os_str()]).expect_success().stdout;
        assert!(text.lines().any(|l| l.starts_with("total ")), "{text}");
    }
}

/// For some ranks, calls and bytes are exact. Times are given only for all ranks.
fn assert_of_ranks(trace: &Path, stats: &Json) {
    let of_ranks = |ranks: &str| -> Json {
        let path = trace.to_str().expect("a path");
        let outcome = refrain(["stats", path, "--json", "--rank", ranks]).expect_success();
        serde_json::from_str(&outcome.stdout).expect("JSON")
    };
    assert_eq!(of_ranks("0-3"), *stats);
    let one = of_ranks("2");
    assert_eq!(moved(&one, "MPI_Isend"), (4 * 300, 2 * 300 * 64 * 8, 0));
    assert_eq!(of(&one, "MPI_Isend")["ranks"], 1);
    assert_eq!(
        of(&one, "MPI_Isend")["time_s"],
        Json::Null,
        "no times are stored for a single rank"
    );
    let path = trace.to_str().expect("a path");
    let text = refrain(["stats", path, "--rank", "2"]).expect_success().stdout;
    assert!(!text.contains("0.000000"), "a missing time is printed as 0:\n{text}");
    assert!(text.contains("over all ranks") && text.contains("--timing"), "{text}");
    let none = refrain(["stats".as_ref(), trace.as_os_str(), "--rank".as_ref(), "7".as_ref()]);
    assert_eq!(none.code, 125, "{none}");
}

#[test]
fn single_ranks_have_times_if_the_times_of_every_call_are_stored() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a temporary folder"));
    let program = mpi.compile("../../bench/programs/stencil2d.c");
    let program = program.to_str().expect("a path").to_owned();
    for options in [&["--timing", "lossless"][..], &["--raw"]] {
        let file = "run.refrain";
        let run = ["--", "mpirun", "-n", "4", &program, "hand", "50"];
        let args = [&["trace", "-o", file][..], options, &run].concat();
        mpi.refrain_in(folder.path(), args).expect_success();
        let trace = folder.path().join(file);
        let path = trace.to_str().expect("a path");
        let stats = |rank: &str| -> Json {
            let outcome = refrain(["stats", path, "--json", "--rank", rank]).expect_success();
            serde_json::from_str(&outcome.stdout).expect("JSON")
        };
        let time = |stats: &Json, function: &str| of(stats, function)["time_s"].as_f64();
        let ranks = ["0", "1", "2", "3"].map(stats);
        let all = stats("0-3");
        for function in ["MPI_Isend", "MPI_Waitall", "MPI_Init"] {
            let each = ranks.iter().map(|rank| time(rank, function).expect("a time"));
            let (sum, whole) = (each.sum::<f64>(), time(&all, function).expect("a time"));
            let off = (sum - whole).abs() / whole;
            assert!(off < 1e-3, "{options:?} {function}: {sum} of single ranks, {whole} of all");
        }
        let one = &ranks[2];
        assert_eq!(of(one, "MPI_Isend")["calls"], 4 * 50);
        assert!(of(one, "MPI_Isend")["p95_us"].as_f64().is_some_and(|us| us > 0.0), "{one}");
        let text = refrain(["stats", path, "--rank", "2"]).expect_success().stdout;
        assert!(!text.contains("no times"), "{text}");
    }
}

fn assert_info(mpi: &Mpi, trace: &Path, stats: &Json) {
    let info = json("info", trace);
    let number = |key: &str| info[key].as_u64().unwrap_or_else(|| panic!("{key} in {info}"));
    assert_eq!((number("ranks"), number("threads")), (4, 4));
    let functions = stats.as_array().expect("an array");
    assert_eq!(number("functions"), functions.len() as u64);
    let calls = |all: &Json| -> u64 {
        all.as_array().expect("an array").iter().filter_map(|one| one["calls"].as_u64()).sum()
    };
    assert_eq!(number("calls"), calls(stats));
    assert_eq!(number("calls"), calls(&info["groups"]));
    let groups = info["groups"].as_array().expect("an array");
    let sum = |key: &str| groups.iter().filter_map(|g| g[key].as_u64()).sum::<u64>();
    assert_eq!((sum("ranks"), sum("signatures")), (4, number("signatures")));
    assert!(number("grammars") >= 1 && number("rules") >= number("grammars"), "{info}");
    let bytes = fs::metadata(trace).expect("the trace").len();
    assert_eq!(number("bytes"), bytes);
    let sections = info["sections"].as_object().expect("an object");
    assert!(sections.values().filter_map(Json::as_u64).sum::<u64>() < bytes, "{info}");
    assert!(["meta", "structure", "timing"].iter().all(|s| sections.contains_key(*s)), "{info}");
    let statistics = sections["timing"].as_u64().expect("bytes");
    assert!(statistics <= (bytes / 4).max(128), "statistics take {statistics} of {bytes} bytes");
    let ratio = info["ratio"].as_f64().expect("a number");
    assert!((ratio - number("raw_bytes") as f64 / bytes as f64).abs() < 1e-6 * ratio, "{info}");
    assert_eq!(info["complete"], true);
    assert_eq!(info["ended"]["by MPI_Finalize"], 4);
    assert_eq!(info["exit_code"], 0);
    assert_eq!(info["family"], if mpi.name().starts_with("mpich") { "mpich" } else { "openmpi" });
    assert!(info["program"].as_str().is_some_and(|p| p.ends_with("stencil2d")), "{info}");
    let command = info["command"].as_array().expect("an array");
    assert!(command.iter().any(|word| word == "300"), "{info}");
    assert_eq!(info["hosts"].as_array().map(Vec::len), Some(1));
    assert!(info["mpi"].as_str().is_some_and(|m| !m.is_empty()), "{info}");
    assert_eq!(info["refrain"], env!("CARGO_PKG_VERSION"));
    let started = info["started"].as_str().expect("a time");
    assert!(started.starts_with("20") && started.ends_with('Z'), "{started}");
    assert!(info["duration_s"].as_f64().is_some_and(|d| d > 0.0), "{info}");
    let text = refrain(["info".as_ref(), trace.as_os_str()]).expect_success().stdout;
    assert!(text.contains("complete   yes\n") && text.lines().count() < 16, "{text}");
}

/// Two ranks with datatypes whose sizes differ between them, collectives, and a test that fails
/// until a barrier has been passed.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>

static int in[1024], out[1024];

static void datatypes(int rank)
{
    MPI_Datatype column, two, reused;
    MPI_Type_vector(3 + rank, 2, 5, MPI_INT, &column);
    MPI_Type_contiguous(2, column, &two);
    MPI_Type_commit(&two);
    MPI_Request request;
    MPI_Irecv(in, 1024, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
    MPI_Send(out, 3, two, rank, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int n = 4; n <= 8; n += 4) {
        MPI_Type_contiguous(n, MPI_INT, &reused);
        MPI_Type_commit(&reused);
        MPI_Bcast(out, 1, reused, 0, MPI_COMM_WORLD);
        MPI_Type_free(&reused);
    }
    MPI_Type_free(&two);
    MPI_Type_free(&column);
}

static void collectives(int rank)
{
    double sums[3] = { 0 };
    int sent[2] = { 1, 2 }, at[2] = { 0, 10 };
    int received[2] = { 1 + rank, 1 + rank };
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoallv(out, sent, at, MPI_INT, in, received, at, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 5, MPI_INT, MPI_COMM_WORLD);
    MPI_Scatter(out, 7, MPI_INT, rank == 0 ? MPI_IN_PLACE : in, 7, MPI_INT, 0, MPI_COMM_WORLD);
}

static void polls(int rank)
{
    int flag = 0, tests = 0;
    if (rank == 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Ssend(out, 1, MPI_SHORT, 0, 1, MPI_COMM_WORLD);
        return;
    }
    MPI_Request request;
    MPI_Irecv(in, 1, MPI_SHORT, 1, 1, MPI_COMM_WORLD, &request);
    for (; tests < 7; tests++)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (; !flag; tests++)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    printf("%d\n", tests);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    datatypes(rank);
    collectives(rank);
    polls(rank);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn bytes_follow_datatypes_and_polls_are_counted() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, program) = (folder.path().join("moves.c"), folder.path().join("moves"));
        fs::write(&source, PROGRAM).expect("a source");
        let compiled = mpi.command("mpicc").arg("-o").args([&program, &source]).status();
        assert!(compiled.expect("a compiler").success());
        let (trace, said) = traced(&mpi, folder.path(), 2, &program, &[]);
        let stats = json("stats", &trace);
        let who = mpi.name();

        let (zero, one) = (2 * 3 * 2 * 4, 2 * 4 * 2 * 4);
        assert_eq!(moved(&stats, "MPI_Send"), (2, 3 * (zero + one), 0), "{who}");
        assert_eq!(moved(&stats, "MPI_Irecv"), (3, 2 * 1024 * 4 + 2, 0), "{who}");
        assert_eq!(moved(&stats, "MPI_Ssend"), (1, 2, 0), "{who}");
        assert_eq!(of(&stats, "MPI_Ssend")["ranks"], 1, "{who}");
        assert_eq!(moved(&stats, "MPI_Bcast"), (4, 0, 4), "{who}: one number, two sizes");
        assert_eq!(moved(&stats, "MPI_Allreduce"), (2, 2 * 3 * 8, 0), "{who}");
        assert_eq!(moved(&stats, "MPI_Alltoallv"), (2, 2 * 3 * 4, 0), "{who}");
        assert_eq!(moved(&stats, "MPI_Allgather"), (2, 2 * 5 * 4, 0), "{who}");
        assert_eq!(moved(&stats, "MPI_Scatter"), (2, 7 * 4, 0), "{who}");

        let tests: u64 = said.trim().parse().expect("a number");
        assert_eq!(of(&stats, "MPI_Test")["calls"], tests, "{who}");
        // The last test found the message. The failed test before the barrier was not repeated at once, so it is not
        // counted as a failed poll.
        assert_eq!(of(&stats, "MPI_Test")["failed_polls"], tests - 2, "{who}");
        let text = refrain(["stats".as_ref(), trace.as_os_str()]).expect_success().stdout;
        assert!(text.contains("4 have a payload of unknown size"), "{who}: {text}");
    }
}

#[test]
fn a_trace_of_a_job_that_aborts_is_not_complete() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = mpi.compile("../../bench/programs/stencil2d.c");
        let trace = folder.path().join("run.refrain");
        let args = ["hand", "5", "7", "7"];
        mpi.run(2).program(&program).args(args).trace_to(Some(&trace)).output();
        let info = json("info", &trace);
        assert_eq!(info["complete"], false, "{}: {info}", mpi.name());
        assert_ne!(info["exit_code"], 0, "{}: {info}", mpi.name());
        // The call never returns, so it has no duration. (That is different from a duration of 0.)
        let abort = json("stats", &trace);
        let abort = of(&abort, "MPI_Abort");
        assert!(abort["calls"].as_u64() >= Some(1), "{}: {abort}", mpi.name());
        assert_eq!(abort["min_us"], Json::Null, "{}: {abort}", mpi.name());
    }
}

/// Traces `late_rank` on three ranks with these options.
fn late_rank(mpi: &Mpi, folder: &Path, options: &[&str]) -> String {
    let program = mpi.compile_with("late_rank.c", &["-g", "-O0"]);
    let program = program.to_str().expect("a path");
    let run = ["--", "mpirun", "-n", "3", program, "1"];
    let args = [&["trace", "-o", "run.refrain"][..], options, &run].concat();
    mpi.refrain_in(folder, args).expect_success();
    folder.join("run.refrain").to_str().expect("a path").to_owned()
}

#[test]
fn the_rank_that_the_others_wait_for_is_named() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for options in [&["--timing", "loop", "--callsite", "return"][..], &["--raw"]] {
            let who = format!("{options:?} under {}", mpi.name());
            let trace = late_rank(&mpi, folder.path(), options);
            let stats = refrain(["stats", &trace, "--by", "rank", "--json"]).expect_success();
            let stats: Json = serde_json::from_str(&stats.stdout).expect("JSON");
            let longest = &stats["longest"];
            assert_eq!(longest["ranks"], Json::from(vec![1]), "{who}: {stats}");
            let functions = (&longest["after"]["function"], &longest["before"]["function"]);
            assert_eq!(functions, (&"MPI_Waitall".into(), &"MPI_Irecv".into()), "{who}: {stats}");
            let [median, others] = ["median_us", "others_median_us"]
                .map(|key| longest[key][1].as_f64().expect("a median"));
            assert!(median > 18_000.0, "{who}: {stats}");
            assert!(others < median, "{who}: {stats}");
            let ranks = stats["ranks"].as_array().expect("ranks");
            let sum = |rank: usize, key: &str| ranks[rank][key].as_f64().expect("a time");
            for rank in [0, 2] {
                assert!(sum(rank, "mpi_s") > 0.0, "{who}: {stats}");
                assert!(sum(1, "typical_computing_s") > sum(rank, "typical_computing_s"));
            }
            assert_eq!(ranks[0]["calls"], 2 + 1 + 1 + 5 * 40 + 4, "{who}: {stats}");
            let text = refrain(["stats", &trace, "--by", "rank"]).expect_success().stdout;
            let line = text.lines().find(|line| line.contains("longest")).unwrap_or_default();
            assert!(line.starts_with("rank 1 computes longest: "), "{who}\n{text}");
            if options.contains(&"--callsite") {
                let between =
                    "between MPI_Waitall (halo late_rank.c:33) and MPI_Irecv (halo late_rank.c:29)";
                assert!(line.contains(between), "{who}\n{text}");
                assert_eq!(longest["before"]["site"][0]["line"], 29, "{who}: {stats}");
            }
        }
    }
}

#[test]
fn times_of_ranks_and_call_sites_that_were_not_recorded_come_with_a_remedy() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a temporary folder"));
    let trace = late_rank(&mpi, folder.path(), &[]);
    let text = refrain(["stats", &trace, "--by", "rank"]).expect_success().stdout;
    assert!(text.contains("refrain trace --timing"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("1 ") && line.contains("208")), "{text}");
    assert!(!text.contains("longest"), "{text}");
    let stats = refrain(["stats", &trace, "--by", "rank", "--json"]).expect_success().stdout;
    let stats: Json = serde_json::from_str(&stats).expect("JSON");
    assert_eq!((&stats["longest"], &stats["ranks"][1]["mpi_s"]), (&Json::Null, &Json::Null));
    let by_site = refrain(["stats", &trace, "--by", "site"]);
    assert_eq!(by_site.code, 125, "{by_site}");
    assert!(by_site.stderr.contains("refrain trace --callsite return"), "{by_site}");
}

#[test]
fn figures_by_call_site_add_up_to_those_by_function() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a temporary folder"));
    let trace = late_rank(&mpi, folder.path(), &["--callsite", "return"]);
    let stats = |options: &[&str]| -> Json {
        let args = [&["stats", trace.as_str(), "--json"][..], options].concat();
        serde_json::from_str(&refrain(args).expect_success().stdout).expect("JSON")
    };
    let (functions, sites) = (stats(&[]), stats(&["--by", "site"]));
    for function in functions.as_array().expect("an array") {
        let rows = sites.as_array().expect("an array").iter();
        let rows: Vec<&Json> = rows.filter(|row| row["function"] == function["function"]).collect();
        for key in ["calls", "bytes"] {
            let sum: u64 = rows.iter().filter_map(|row| row[key].as_u64()).sum();
            assert_eq!(function[key], sum, "{key} of {function}");
        }
        let sum: f64 = rows.iter().filter_map(|row| row["time_s"].as_f64()).sum();
        assert!((function["time_s"].as_f64().unwrap_or(0.0) - sum).abs() < 1e-6, "{function}");
    }
    let lines: Vec<&Json> = sites
        .as_array()
        .expect("an array")
        .iter()
        .filter(|row| row["function"] == "MPI_Isend")
        .map(|row| &row["site"][0]["line"])
        .collect();
    assert!(lines.contains(&&31.into()) && lines.contains(&&32.into()), "{sites}");
    let text = refrain(["stats", &trace, "--by", "site"]).expect_success().stdout;
    assert!(text.contains("MPI_Waitall  halo late_rank.c:33 "), "{text}");
    assert!(text.contains("without MPI_Init, MPI_Finalize"), "{text}");
}
