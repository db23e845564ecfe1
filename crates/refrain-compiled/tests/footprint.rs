//! The runtime's footprint in a program: its dependencies, exported symbols and shared libraries are held to
//! the lists here.

use refrain_testing::built::{built_library, dependencies, exported_symbols, needed_libraries};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Every crate inside the runtime. A new one needs a reason.
const DEPENDENCIES: [&str; 3] = ["libc", "refrain-compiled", "refrain-rings"];

/// Shared libraries the runtime is linked to: what Rust's standard library needs, and no more.
const LIBRARIES: [&str; 3] = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1"];

/// The functions that it interposes.
const EXPORTS: [&str; 30] = [
    "MPI_Pcontrol",
    "_Exit",
    "__longjmp_chk",
    "_exit",
    "_longjmp",
    "aligned_alloc",
    "calloc",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execveat",
    "execvp",
    "execvpe",
    "fexecve",
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

fn runtime() -> PathBuf {
    built_library("librefrain_compiled.so")
}

#[test]
fn the_runtime_depends_on_nothing_else() {
    assert_eq!(dependencies("refrain-compiled"), DEPENDENCIES.map(str::to_owned).into());
}

#[test]
fn the_runtime_exports_what_compilers_call_and_what_is_written_here() {
    let exported = exported_symbols(&runtime());
    let others = exported.iter().map(String::as_str).filter(|name| !name.starts_with("__tsan_"));
    let others: BTreeSet<&str> = others.collect();
    assert_eq!(others, BTreeSet::from(EXPORTS));
}

#[test]
fn the_runtime_has_every_function_that_compilers_call() {
    let exported = exported_symbols(&runtime());
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
    let allowed: BTreeSet<String> = LIBRARIES.map(str::to_owned).into();
    let needed = needed_libraries(&runtime());
    assert!(needed.is_subset(&allowed), "{needed:?}");
}
