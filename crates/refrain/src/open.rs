//! Opening a trace for a person who may have named something else.

use crate::merge::parts_of;
use crate::summary;
use anyhow::{Result, bail};
use refrain_container::Container;
use refrain_memtrace::MemoryTrace;
use refrain_trace::Trace;
use refrain_trace::parts::holds_parts;
use std::path::Path;

/// Opens a trace, and says on stderr what is missing in it.
pub fn open(path: &Path) -> Result<Trace> {
    if path.is_dir() {
        match holds_parts(path) || crate::mem::holds_parts(path) {
            true => bail!(
                "{0} holds the parts of a run: make a trace of them with `refrain merge {0}`",
                path.display()
            ),
            false => bail!("{} is a folder, not a trace", path.display()),
        }
    }
    let parts = parts_of(path);
    if !path.exists() && (holds_parts(&parts) || crate::mem::holds_parts(&parts)) {
        bail!(
            "there is no {} yet: make it with `refrain merge {}`",
            path.display(),
            parts.display()
        );
    }
    if Container::open(path).is_ok_and(|container| MemoryTrace::is_in(&container)) {
        bail!(
            "{0} holds loads and stores, not MPI calls: look at it with `refrain show {0}`, `refrain \
             info {0}` and `refrain verify {0}`",
            path.display()
        );
    }
    if crate::orders::are_in(path) {
        bail!(
            "{0} holds receive orders, not all calls: look at it with `refrain show {0}`, `refrain info \
             {0}` and `refrain races {0}`",
            path.display()
        );
    }
    let trace = Trace::open(path)?;
    if trace.container().is_recovered() {
        say!("refrain: warning: the end of {} is missing", path.display());
    }
    for remark in summary::remarks(trace.meta()) {
        say!("refrain: {remark}");
    }
    Ok(trace)
}
