//! Generates the numbers and names of all MPI functions from the interface table: `functions.rs`.

use refrain_mpi::interface::functions;
use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let all = functions();
    let names: String = all.iter().map(|f| format!("    {:?},\n", f.name)).collect();
    let mut text = format!(
        "/// The number of functions.\npub const FUNCTIONS: usize = {};\n\
         /// The names of the functions, by number.\npub static NAMES: [&str; FUNCTIONS] = [\n{names}];\n",
        all.len()
    );
    for (number, f) in all.iter().enumerate() {
        let name = &f.name;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "/// The number of `{name}`.\npub const {name}: usize = {number};");
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("functions.rs"), text).expect("OUT_DIR is writable");
}
