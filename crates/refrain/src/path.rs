//! Finds the file of a program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The file that `name` would execute: `name` itself if it contains a `/`, otherwise a file in `PATH`.
pub fn locate(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(Path::new(name).to_owned()).filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
