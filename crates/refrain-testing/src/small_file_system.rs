//! A file system that fills up quickly.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

use crate::skip;

/// A file system of a few bytes, in memory. It is unmounted when it is dropped.
#[derive(Debug)]
pub struct SmallFileSystem(TempDir);

impl SmallFileSystem {
    /// Mounts a file system of `bytes` bytes. `None` without the permission to mount: the test is then counted as
    /// skipped.
    ///
    /// # Panics
    ///
    /// When there is no temporary folder to mount it on.
    pub fn new(bytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let size = format!("size={bytes}");
        let mount = ["-t", "tmpfs", "-o", &size, "refrain-test"];
        let mounted = Command::new("mount").args(mount).arg(folder.path()).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            skip("mounting a file system is not allowed here");
            return None;
        }
        Some(Self(folder))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // If this fails, the mounted folder stays; it takes no disk space.
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}
