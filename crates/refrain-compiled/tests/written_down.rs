//! What the runtime brings into a program is held to what is written down here: its dependencies,
//! its exported symbols, the libraries it needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every crate inside the runtime. A new one needs a reason.
const DEPENDENCIES: [&str; 3] = ["libc", "refrain-compiled", "refrain-rings"];

/// Shared libraries the runtime is linked to: what Rust's standard library needs, and no more.
const LIBRARIES: [&str; 3] = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1"];

/// What it stands in front of.
const EXPORTS: [&str; 21] = [
    "MPI_Pcontrol",
    "_Exit",
    "__longjmp_chk",
    "_exit",
    "_longjmp",
    "aligned_alloc",
    "calloc",
    "longjmp",
    "malloc",
    "memalign",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "mmap64",
    "posix_memalign",
    "pthread_create",
    "realloc",
    "sigaction",
    "siglongjmp",
    "signal",
];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two levels deep")
}

/// The runtime lies beside the `refrain` that is tested.
fn runtime() -> PathBuf {
    let refrain = std::env::var_os("REFRAIN_BIN").map(PathBuf::from);
    let refrain = refrain.unwrap_or_else(|| workspace().join("target/release/refrain"));
    let runtime = refrain.with_file_name("librefrain_compiled.so");
    assert!(runtime.is_file(), "there is no {}: run `make build`", runtime.display());
    runtime
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_runtime_depends_on_nothing_else() {
    let tree = output(
        Command::new(env!("CARGO"))
            .args(["tree", "--offline", "-p", "refrain-compiled", "-e", "normal"])
            .args(["--prefix", "none", "--target", "x86_64-unknown-linux-gnu", "-f", "{p}"])
            .current_dir(workspace()),
    );
    let crates: BTreeSet<_> = tree.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(crates, BTreeSet::from(DEPENDENCIES));
}

#[test]
fn the_runtime_exports_what_compilers_call_and_what_is_written_here() {
    let nm = output(Command::new("nm").args(["-D", "--defined-only"]).arg(runtime()));
    let exported = nm.lines().filter_map(|line| line.split_whitespace().nth(2));
    let others: BTreeSet<&str> = exported.filter(|name| !name.starts_with("__tsan_")).collect();
    assert_eq!(others, BTreeSet::from(EXPORTS));
}

#[test]
fn the_runtime_has_every_function_that_compilers_call() {
    let nm = output(Command::new("nm").args(["-D", "--defined-only"]).arg(runtime()));
    let exported: BTreeSet<_> = nm.lines().filter_map(|l| l.split_whitespace().nth(2)).collect();
    let mut wanted: Vec<String> = Vec::new();
    for what in ["read", "write"] {
        for size in [1, 2, 4, 8, 16] {
            wanted.push(format!("__tsan_{what}{size}"));
            wanted.push(format!("__tsan_volatile_{what}{size}"));
            if size > 1 {
                wanted.push(format!("__tsan_unaligned_{what}{size}"));
                wanted.push(format!("__tsan_unaligned_volatile_{what}{size}"));
            }
        }
        wanted.push(format!("__tsan_{what}_range"));
    }
    for bits in [8, 16, 32, 64, 128] {
        for what in ["load", "store", "exchange", "fetch_add", "fetch_sub", "fetch_and"] {
            wanted.push(format!("__tsan_atomic{bits}_{what}"));
        }
        for what in ["fetch_or", "fetch_xor", "fetch_nand"] {
            wanted.push(format!("__tsan_atomic{bits}_{what}"));
        }
        for what in ["strong", "weak", "val"] {
            wanted.push(format!("__tsan_atomic{bits}_compare_exchange_{what}"));
        }
    }
    let others = [
        "init",
        "func_entry",
        "func_exit",
        "vptr_read",
        "vptr_update",
        "atomic_thread_fence",
        "atomic_signal_fence",
        "memcpy",
        "memmove",
        "memset",
        "read_write8",
    ];
    wanted.extend(others.map(|what| format!("__tsan_{what}")));
    let missing: Vec<_> = wanted.iter().filter(|name| !exported.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_runtime_needs_no_other_library() {
    let dynamic = output(Command::new("readelf").args(["-d", "-W"]).arg(runtime()));
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: BTreeSet<_> =
        needed.filter_map(|line| line.split_once('[')?.1.split(']').next()).collect();
    assert!(needed.is_subset(&BTreeSet::from(LIBRARIES)), "{needed:?}");
}
