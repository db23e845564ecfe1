//! Opens files, with advice if a name is not that of a trace.

use crate::merge::parts_of;
use crate::summary;
use anyhow::{Result, bail};
use refrain_reader::{CallTrace, File};
use refrain_trace::parts::holds_parts;
use std::path::Path;

/// Opens a file of any kind, and prints to stderr what is missing in it.
pub fn open_any(path: &Path) -> Result<File> {
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
    let file = refrain_reader::open(path)?;
    if file.is_recovered() {
        say!("refrain: warning: the end of {} is missing", path.display());
    }
    match &file {
        File::Calls(trace) => {
            summary::remarks(trace.meta()).iter().for_each(|remark| say!("refrain: {remark}"));
        }
        File::Orders(orders) => {
            crate::orders::remarks(orders).iter().for_each(|remark| say!("refrain: {remark}"));
        }
        File::Memory(_) => {}
    }
    Ok(file)
}

/// Opens a trace of calls. Another kind of file is refused, with the commands that accept it.
pub fn open(path: &Path) -> Result<CallTrace> {
    match open_any(path)? {
        File::Calls(trace) => Ok(*trace),
        File::Memory(_) => bail!(
            "{0} holds loads and stores, not MPI calls: look at it with `refrain show --structure {0}`, \
             `refrain info {0}` and `refrain verify {0}`",
            path.display()
        ),
        File::Orders(_) => Err(holds_orders(path)),
    }
}

/// The error if a file holds receive orders instead of calls.
pub fn holds_orders(path: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{0} holds receive orders, not all calls: look at it with `refrain show {0}`, `refrain info \
         {0}`, `refrain races {0}` and `refrain verify {0}`",
        path.display()
    )
}
