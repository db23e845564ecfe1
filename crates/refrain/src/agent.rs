//! Finds the agent, and sets its environment.

use anyhow::{Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The agent's file.
const FILE: &str = "librefrain_agent.so";
/// The environment variable with the path of another agent.
const OVERRIDE: &str = "REFRAIN_AGENT";
/// The environment variable with the folder of parts; without it the agent only forwards.
const PARTS: &str = "REFRAIN_PARTS";
/// The loader's list of libraries to load first.
const PRELOAD: &str = "LD_PRELOAD";

/// Finds the agent: beside this executable, or in `lib` beside its folder.
pub fn find() -> Result<PathBuf> {
    let executable = env::current_exe()?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let candidates = match env::var_os(OVERRIDE) {
        Some(file) => vec![PathBuf::from(file)],
        None => vec![folder.join(FILE), folder.join("../lib").join(FILE)],
    };
    let Some(agent) = candidates.iter().find(|p| p.is_file()) else {
        let tried: Vec<_> = candidates.iter().map(|p| p.display().to_string()).collect();
        bail!(
            "the agent is missing: no {}; build or install it beside `refrain`, or set {OVERRIDE}",
            tried.join(" and no ")
        );
    };
    let agent = agent.canonicalize()?;
    if agent.as_os_str().as_encoded_bytes().iter().any(|b| b" :\t\n".contains(b)) {
        bail!(
            "the agent's path `{}` contains a space or colon, which LD_PRELOAD does not allow; \
             move it, or set {OVERRIDE} to a link without them",
            agent.display()
        );
    }
    Ok(agent)
}

/// The environment of a rank: the agent comes before other preloaded libraries, unless the user's
/// `LD_PRELOAD` already contains it.
pub fn prepare_environment(agent: &Path, parts: &Path) -> Vec<(&'static str, OsString)> {
    let preload = preload(agent.as_os_str(), env::var_os(PRELOAD).as_deref());
    vec![(PRELOAD, preload), (PARTS, parts.into())]
}

fn preload(agent: &OsStr, present: Option<&OsStr>) -> OsString {
    let Some(present) = present.filter(|p| !p.is_empty()) else {
        return agent.to_owned();
    };
    let mut files = present.as_encoded_bytes().split(|b| *b == b':' || *b == b' ');
    if files.any(|file| file == agent.as_encoded_bytes()) {
        return present.to_owned();
    }
    let mut all = agent.to_owned();
    all.push(":");
    all.push(present);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_preloaded_first_unless_it_is_listed_already() {
        let preload = |present| preload("/a.so".as_ref(), Option::map(present, OsStr::new));
        assert_eq!(preload(None), "/a.so");
        assert_eq!(preload(Some("")), "/a.so");
        assert_eq!(preload(Some("/b.so")), "/a.so:/b.so");
        assert_eq!(preload(Some("/b.so:/a.so")), "/b.so:/a.so");
        assert_eq!(preload(Some("/b.so /a.so")), "/b.so /a.so");
    }
}
