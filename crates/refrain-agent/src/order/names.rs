//! Names of places in the program, for messages.
//!
//! Ranks know files and offsets. Who has started them looks for functions and lines meanwhile, in
//! debugging information that may be large, and writes what it finds to a file (`names`) in the folder of the
//! run. It is looked at when there is something to say.

use std::collections::HashMap;

use super::files;

/// Places by site.
#[derive(Default)]
pub struct Names(HashMap<u64, String>);

impl Names {
    /// Of those that were recorded; other facts are left out.
    pub fn recorded<'f>(facts: impl Iterator<Item = (&'f str, &'f str)>) -> Names {
        let sites = facts.filter(|(fact, _)| *fact == "site").filter_map(|(_, text)| parse(text));
        Names(sites.map(|(site, place)| (site, short(place))).collect())
    }

    /// One that the program is at.
    pub fn note(&mut self, site: u64, place: &str) {
        self.0.entry(site).or_insert_with(|| short(place));
    }

    /// The name of one, if it is known.
    pub fn name(&self, site: u64) -> Option<String> {
        found(site).or_else(|| self.0.get(&site).cloned())
    }
}

/// A site and its name: `1f3a main app.c:12`.
fn parse(text: &str) -> Option<(u64, &str)> {
    let (site, name) = text.split_once(' ')?;
    Some((u64::from_str_radix(site, 16).ok()?, name))
}

/// A place without the folder of its file.
fn short(place: &str) -> String {
    place.rsplit('/').next().unwrap_or(place).to_owned()
}

/// The name that was found meanwhile.
fn found(site: u64) -> Option<String> {
    let text = String::from_utf8(std::fs::read(files::path("names")?).ok()?).ok()?;
    let named = text.lines().filter_map(parse).find(|(own, _)| *own == site);
    named.map(|(_, name)| name.to_owned())
}
