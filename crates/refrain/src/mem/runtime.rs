//! Where the runtime of recompiled programs is, and which programs have it.

use super::FrontEnd;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The runtime's file, and its name for a linker.
const FILE: &str = "librefrain_compiled.so";
/// Its name for a linker.
pub const NAME: &str = "refrain_compiled";

/// The folder of the runtime: that of this executable, or `lib` beside it.
pub fn folder() -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = [folder.to_owned(), folder.join("../lib")];
    let Some(found) = places.iter().find(|place| place.join(FILE).is_file()) else {
        bail!("the runtime is missing: no {FILE} in {} or ../lib", folder.display());
    };
    Ok(found.canonicalize()?)
}

/// The front end for a program: a program that is linked to the runtime records itself.
pub fn front_end_of(program: Option<&Path>) -> FrontEnd {
    let holds = |bytes: Vec<u8>| bytes.windows(FILE.len()).any(|part| part == FILE.as_bytes());
    match program.and_then(|program| std::fs::read(program).ok()).map(holds) {
        Some(true) => FrontEnd::Compiled,
        _ => FrontEnd::Dynamorio,
    }
}
