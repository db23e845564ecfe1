//! The agent's footprint in a program: its dependencies, exported symbols and shared libraries are
//! held to the lists here.

use refrain_mpi::interface::{functions, is_wrapped};
use refrain_testing::built::{
    built_library, defined_symbols, dependencies, exported_symbols, installed_bytes,
    needed_libraries,
};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Every crate inside the agent. A new one needs a reason.
const DEPENDENCIES: [&str; 19] = [
    // gzip, for the clock method of receive orders, and its dependencies.
    "adler2",
    "cfg-if",
    "crc32fast",
    "flate2",
    "miniz_oxide",
    "simd-adler32",
    "libc",
    "refrain-agent",
    "refrain-bytes",
    "refrain-elastic",
    "refrain-encode",
    "refrain-format",
    "refrain-grammar",
    "refrain-mpi",
    "refrain-mpilib",
    "refrain-order",
    "refrain-signature",
    "refrain-structure",
    "refrain-timing",
];

/// Shared libraries the agent is linked to: what Rust's standard library needs, and no more.
const LIBRARIES: [&str; 3] = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1"];

fn agent() -> PathBuf {
    built_library("librefrain_agent.so")
}

#[test]
fn the_agent_depends_on_nothing_else() {
    assert_eq!(dependencies("refrain-agent"), DEPENDENCIES.map(str::to_owned).into());
}

/// Crates of the standard library, and their dependencies.
const STANDARD: [&str; 16] = [
    "__rustc",
    "addr2line",
    "alloc",
    "compiler_builtins",
    "core",
    "gimli",
    "hashbrown",
    "memchr",
    "object",
    "panic_unwind",
    "rustc_demangle",
    "rustc_std_workspace_alloc",
    "rustc_std_workspace_core",
    "std",
    "std_detect",
    "unwind",
];

/// The crate of a demangled symbol: `std` of `<std::io::Error as core::fmt::Debug>::fmt`.
fn crate_of(symbol: &str) -> Option<&str> {
    let path = symbol.trim_start_matches(|c: char| !c.is_alphabetic() && c != '_');
    let path = path.strip_prefix("dyn ").or(path.strip_prefix("mut ")).unwrap_or(path);
    let (name, _) = path.split_once("::")?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(name)
}

/// Checks the installed file, not what `cargo tree` would build: a build together with other
/// packages would have the features that those ask for.
#[test]
fn the_built_agent_has_code_of_no_other_crate() {
    let symbols = defined_symbols(&agent());
    let found: BTreeSet<&str> = symbols.iter().filter_map(|symbol| crate_of(symbol)).collect();
    assert!(found.contains("refrain_agent"), "no symbols: was the library stripped?");
    let names = DEPENDENCIES.map(|name| name.replace('-', "_"));
    let allowed: BTreeSet<&str> = names.iter().map(String::as_str).chain(STANDARD).collect();
    let surplus: Vec<_> = found.difference(&allowed).collect();
    assert!(
        surplus.is_empty(),
        "code of {surplus:?}: build the agent by itself, as `make build` does"
    );
    let compressor = symbols.iter().find(|name| name.to_ascii_lowercase().starts_with("zstd"));
    assert_eq!(compressor, None);
}

/// The agent is loaded into every process of a job, and read from a shared file system.
#[test]
fn the_agent_is_small() {
    const MAX_BYTES: u64 = 6 << 20;
    let bytes = installed_bytes(&agent());
    println!("{bytes} bytes without symbols");
    assert!(bytes < MAX_BYTES, "{bytes} bytes");
}

#[test]
fn the_agent_exports_the_functions_of_mpi_and_nothing_else() {
    let exported = exported_symbols(&agent());
    let mut expected: BTreeSet<_> = functions()
        .iter()
        .filter(|f| is_wrapped(&f.name))
        .flat_map(|f| [f.name.clone(), format!("P{}", f.name)])
        .collect();
    expected.extend(refrain_mpi::fortran::procedures().flat_map(|p| p.symbols()));
    expected.extend(OTHERS.iter().map(|&name| name.to_owned()));
    let missing: Vec<_> = expected.difference(&exported).collect();
    let surplus: Vec<_> = exported.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

/// Exports besides wrapped MPI functions: see the agent's `absent.rs`, `heap.rs`, `mappings.rs` and
/// `order/clock.rs`.
const OTHERS: [&str; 17] = [
    "MPI_Wtime",
    "PMPI_Wtime",
    "__gmon_start__",
    "aligned_alloc",
    "calloc",
    "free",
    "malloc",
    "memalign",
    "mmap",
    "mmap64",
    "mremap",
    "munmap",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "reallocarray",
    "valloc",
];

#[test]
fn the_agent_needs_no_library_that_a_program_may_not_have() {
    let allowed: BTreeSet<String> = LIBRARIES.map(str::to_owned).into();
    let needed = needed_libraries(&agent());
    assert!(needed.is_subset(&allowed), "{needed:?}");
}
