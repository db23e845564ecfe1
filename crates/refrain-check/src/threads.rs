//! Threads that call MPI.

use crate::finding::{Class, Findings, Place};

/// A finding about threads: calls of threads beyond the level that MPI provides.
pub fn thread_level(calls: &[(u32, Place)], provided: Option<&str>, findings: &mut Findings) {
    let Some(provided) = provided else { return };
    let Some((_, main)) = calls.iter().find(|(thread, _)| *thread == 0) else { return };
    let Some((_, other)) = calls.iter().find(|(thread, _)| *thread != 0) else { return };
    if matches!(provided, "MPI_THREAD_SINGLE" | "MPI_THREAD_FUNNELED") {
        let message = format!(
            "{} is called by a thread that did not initialize MPI, and MPI provides {provided} only.",
            other.function
        );
        findings.add(Class::ThreadLevel, message, vec![other.clone(), main.clone()]);
    }
}
