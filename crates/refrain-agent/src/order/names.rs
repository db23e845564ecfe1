//! Names of call sites, for messages.
//!
//! A rank knows the file and offset of a call site. The `refrain` process symbolizes call sites concurrently,
//! since debugging information may be large, and writes functions and lines to the file `names` in the folder
//! of the run. The agent reads that file when it needs a name.

use std::collections::HashMap;

use super::files;

/// Locations by call site.
#[derive(Default)]
pub struct Names(HashMap<u64, String>);

impl Names {
    /// The locations among the recorded facts.
    pub fn recorded<'f>(facts: impl Iterator<Item = (&'f str, &'f str)>) -> Names {
        let sites = facts.filter(|(fact, _)| *fact == "site").filter_map(|(_, text)| parse(text));
        Names(sites.map(|(site, location)| (site, short(location))).collect())
    }

    /// Adds the location of a call site of this run.
    pub fn note(&mut self, site: u64, location: &str) {
        self.0.entry(site).or_insert_with(|| short(location));
    }

    /// The name of a call site: function and line if it is symbolized, otherwise file and offset.
    pub fn name(&self, site: u64) -> Option<String> {
        symbolized(site).or_else(|| self.0.get(&site).cloned())
    }
}

/// Parses a call site and its name: `1f3a main app.c:12`.
fn parse(text: &str) -> Option<(u64, &str)> {
    let (site, name) = text.split_once(' ')?;
    Some((u64::from_str_radix(site, 16).ok()?, name))
}

/// A call site without the folder and the build id of its module: `app+1a`.
fn short(location: &str) -> String {
    let name = location.rsplit('/').next().unwrap_or(location);
    let parts = name.rsplit_once('+').and_then(|(module, offset)| {
        let (module, build_id) = module.rsplit_once('@')?;
        let is_hex = build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| format!("{module}+{offset}"))
    });
    parts.unwrap_or_else(|| name.to_owned())
}

/// The name of a call site in the file `names`.
fn symbolized(site: u64) -> Option<String> {
    let text = String::from_utf8(std::fs::read(files::path("names")?).ok()?).ok()?;
    let named = text.lines().filter_map(parse).find(|(other, _)| *other == site);
    named.map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_site_is_named_without_folder_and_build_id() {
        assert_eq!(short("/opt/bin/app@0123abcd+1a"), "app+1a");
        assert_eq!(short("/opt/bin/app@beta+1a"), "app@beta+1a");
        assert_eq!(short("app+1a"), "app+1a");
        assert_eq!(short("?+0"), "?+0");
    }
}
