//! Call sites as a person reads them: function, file and line.
//!
//! A trace holds a site as modules and offsets (`/home/me/app+11c9`). Where the module is still
//! there and has debug information, that becomes `exchange stencil.c:42`; where it has symbols
//! only, `exchange`; else the module's name and the offset remain. A module that was changed
//! after the recording is not believed: its lines would be wrong.

use addr2line::Loader;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A place in the program's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file that was loaded; `?` for code that was made at run time.
    pub module: String,
    /// The return address, in the module's own addresses.
    pub offset: u64,
    /// The function.
    pub function: Option<String>,
    /// The source file, as the compiler named it.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl Frame {
    /// Reads `module+hex-offset`.
    fn parse(text: &str) -> Option<Frame> {
        let (module, offset) = text.rsplit_once('+')?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        Some(Frame { module: module.to_owned(), offset, function: None, file: None, line: None })
    }

    /// For a line of text: `exchange stencil.c:42`.
    pub fn text(&self) -> String {
        let place = match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", last_part(file)),
            _ => format!("{}+{:#x}", last_part(&self.module), self.offset),
        };
        match &self.function {
            Some(function) => format!("{function} {place}"),
            None => place,
        }
    }

    /// For programs; what is not known is left out.
    pub fn json(&self) -> Json {
        let mut json = json!({ "module": self.module, "offset": self.offset });
        if let Some(function) = &self.function {
            json["function"] = function.as_str().into();
        }
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            json["file"] = file.as_str().into();
            json["line"] = line.into();
        }
        json
    }
}

/// The call sites of a trace, looked up as they are met.
#[derive(Default)]
pub struct Sites {
    /// When the recording began, in nanoseconds since 1970.
    recorded: u64,
    modules: HashMap<String, Option<Loader>>,
    changed: BTreeSet<String>,
    known: HashMap<Arc<str>, Arc<[Frame]>>,
}

impl Sites {
    /// Those of a recording that began at that time, in nanoseconds since 1970.
    pub fn recorded_at(recorded: u64) -> Sites {
        Sites { recorded, ..Sites::default() }
    }

    /// The frames of a site, innermost first.
    pub fn frames(&mut self, site: &Arc<str>) -> Arc<[Frame]> {
        if let Some(frames) = self.known.get(site) {
            return frames.clone();
        }
        let frames = site.lines().filter_map(Frame::parse).map(|frame| self.looked_up(frame));
        let frames: Arc<[Frame]> = frames.collect();
        self.known.insert(site.clone(), frames.clone());
        frames
    }

    /// Modules that were changed after the recording, so far as sites in them were asked for.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().map(String::as_str)
    }

    fn looked_up(&mut self, mut frame: Frame) -> Frame {
        if !self.modules.contains_key(&frame.module) {
            let loader = self.load(&frame.module);
            self.modules.insert(frame.module.clone(), loader);
        }
        // The return address is behind the call, and may be on the next line.
        let Some(address) = frame.offset.checked_sub(1) else { return frame };
        let Some(Some(loader)) = self.modules.get(&frame.module) else { return frame };
        if let Ok(Some(location)) = loader.find_location(address) {
            frame.file = location.file.map(str::to_owned);
            frame.line = location.line;
        }
        frame.function = function_at(loader, address);
        frame
    }

    /// The module's debug information, if it is that of the recording.
    fn load(&mut self, module: &str) -> Option<Loader> {
        let changed = fs::metadata(module).and_then(|file| file.modified()).ok()?;
        let changed = changed.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        if changed > self.recorded.into() {
            self.changed.insert(module.to_owned());
            return None;
        }
        Loader::new(Path::new(module)).ok()
    }
}

/// The name of the function around an address, inlined ones counted.
fn function_at(loader: &Loader, address: u64) -> Option<String> {
    if let Ok(mut frames) = loader.find_frames(address)
        && let Ok(Some(frame)) = frames.next()
        && let Some(name) = &frame.function
        && let Ok(name) = name.demangle()
    {
        return Some(name.into_owned());
    }
    let name = loader.find_symbol(address)?;
    Some(addr2line::demangle_auto(name.into(), None).into_owned())
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_without_its_module_keeps_name_and_offset() {
        let mut sites = Sites::recorded_at(u64::MAX);
        let frames = sites.frames(&"/no/such/app+11c9\n?+7f0012".into());
        let texts: Vec<String> = frames.iter().map(Frame::text).collect();
        assert_eq!(texts, ["app+0x11c9", "?+0x7f0012"]);
        assert_eq!(frames[0].json(), json!({ "module": "/no/such/app", "offset": 0x11c9 }));
    }

    #[test]
    fn a_module_changed_since_is_not_believed() {
        let own = std::env::current_exe().expect("the test's own file");
        let mut sites = Sites::recorded_at(1);
        let site: Arc<str> = format!("{}+11c9", own.display()).into();
        assert_eq!(sites.frames(&site)[0].function, None);
        assert_eq!(sites.changed().collect::<Vec<_>>(), [own.to_str().unwrap()]);
    }
}
