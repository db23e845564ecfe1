//! Symbolizes call sites: function, file and line.
//!
//! A trace stores a call site as modules with build ids and offsets (`/home/me/app@1f0a…+11c9`;
//! without `@…` if there is no build id). With debug information ([`debug_files`]) this becomes
//! `exchange stencil.c:42`; with symbols only, `exchange`; otherwise module and offset are shown. If
//! the file is not the recorded module, it is not used: its lines would be wrong.
//!
//! Machines without the program can have a list of its call sites instead: a file `*.sites` in a directory of debug files,
//! with the lines of [`Frame::listed`].

use crate::debug_files::{self, Found, Recorded};
use crate::symbols::{Symbols, demangled};
use addr2line::Loader;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A frame of a call site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file that was loaded; `?` for code that was generated at run time.
    pub module: String,
    /// Its build id as hexadecimal digits, if it had one and it was recorded.
    pub build_id: Option<String>,
    /// The return address, relative to the module.
    pub offset: u64,
    /// The function.
    pub function: Option<String>,
    /// The source file, as the compiler named it.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl Frame {
    /// Reads `module@build-id+hex-offset`, or `module+hex-offset`.
    fn parse(text: &str) -> Option<Frame> {
        let (module, offset) = text.rsplit_once('+')?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let (module, build_id) = match module.rsplit_once('@') {
            Some((module, id)) if is_build_id(id) => (module, Some(id.to_owned())),
            _ => (module, None),
        };
        let module = module.to_owned();
        Some(Frame { module, build_id, offset, function: None, file: None, line: None })
    }

    /// As text: `exchange stencil.c:42`.
    pub fn text(&self) -> String {
        let location = match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", last_part(file)),
            _ => format!("{}+{:#x}", last_part(&self.module), self.offset),
        };
        match &self.function {
            Some(function) => format!("{function} {location}"),
            None => location,
        }
    }

    /// As a line of a list of call sites: module, build id and offset, function, file and line, with two spaces between.
    /// None if these are unknown.
    pub fn listed(&self) -> Option<String> {
        let (function, file, line) = (self.function.as_ref()?, self.file.as_ref()?, self.line?);
        let id = self.build_id.as_ref().map_or(String::new(), |id| format!("@{id}"));
        let module = last_part(&self.module);
        Some(format!("{module}{id}+{:x}  {function}  {}:{line}", self.offset, last_part(file)))
    }

    /// Reads a line of a list.
    fn from_list(line: &str) -> Option<Frame> {
        let (name, rest) = line.split_once("  ")?;
        let (function, place) = rest.rsplit_once("  ")?;
        let (file, line) = place.rsplit_once(':')?;
        let mut frame = Frame::parse(name)?;
        frame.function = Some(function.to_owned());
        (frame.file, frame.line) = (Some(file.to_owned()), Some(line.parse().ok()?));
        Some(frame)
    }

    /// What identifies it on every machine.
    fn name(&self) -> FrameName {
        (last_part(&self.module).to_owned(), self.build_id.clone(), self.offset)
    }

    /// The module, without its folder, and the offset: `stencil+11c9`.
    pub fn offset_text(&self) -> String {
        format!("{}+{:x}", last_part(&self.module), self.offset)
    }

    /// As JSON, without the fields that are unknown.
    pub fn json(&self) -> Json {
        let mut json = json!({ "module": self.module, "offset": self.offset });
        if let Some(build_id) = &self.build_id {
            json["build_id"] = build_id.as_str().into();
        }
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

/// Bytes of the shortest and the longest build id that linkers make.
const ID_BYTES: std::ops::RangeInclusive<usize> = 8..=32;

/// Whether the text is a build id, not the end of a file name.
fn is_build_id(text: &str) -> bool {
    text.len().is_multiple_of(2)
        && ID_BYTES.contains(&(text.len() / 2))
        && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A module's file and build id.
type Module = (String, Option<String>);

/// What identifies a frame on every machine: module without its folder, build id, offset.
type FrameName = (String, Option<String>, u64);

/// The call sites of a trace, symbolized on demand.
#[derive(Default)]
pub struct Sites {
    /// When the recording began, in nanoseconds since 1970.
    recorded: u64,
    /// Where separate debug files are.
    directories: Vec<PathBuf>,
    modules: HashMap<Module, Option<Loader>>,
    symbols: HashMap<String, Option<Symbols>>,
    changed: BTreeSet<String>,
    known: HashMap<Arc<str>, Arc<[Frame]>>,
    /// Frames of lists, if they have been read.
    listed: Option<HashMap<FrameName, Frame>>,
}

impl Sites {
    /// For a recording that began at that time, in nanoseconds since 1970.
    pub fn recorded_at(recorded: u64) -> Sites {
        Sites { recorded, directories: debug_files::directories(), ..Sites::default() }
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

    /// The function at an address of a module; of inlined functions, the outermost.
    pub fn function(&mut self, module: &str, address: u64) -> Option<String> {
        let loader = self.loader(&(module.to_owned(), None))?;
        if let Ok(mut frames) = loader.find_frames(address) {
            let mut outermost = None;
            while let Ok(Some(frame)) = frames.next() {
                outermost = frame.function.and_then(|f| Some(f.demangle().ok()?.into_owned()));
            }
            if outermost.is_some() {
                return outermost;
            }
        }
        loader.find_symbol(address).map(demangled)
    }

    /// Modules that changed since the recording, among those whose sites were requested.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().map(String::as_str)
    }

    /// The symbols of a module, if it is the recorded one.
    pub fn symbols(&mut self, module: &str) -> Option<&Symbols> {
        if !self.symbols.contains_key(module) {
            let file = self.file(&(module.to_owned(), None));
            let symbols = file.and_then(|file| Symbols::of(&file));
            self.symbols.insert(module.to_owned(), symbols);
        }
        self.symbols.get(module)?.as_ref()
    }

    fn looked_up(&mut self, mut frame: Frame) -> Frame {
        // The return address is after the call instruction, and may belong to the next line.
        let Some(address) = frame.offset.checked_sub(1) else { return frame };
        let module = (frame.module.clone(), frame.build_id.clone());
        if self.loader(&module).is_none() {
            return self.with_list(frame);
        }
        let Some(loader) = self.loader(&module) else { return frame };
        if let Ok(Some(location)) = loader.find_location(address) {
            frame.file = location.file.map(str::to_owned);
            frame.line = location.line;
        }
        frame.function = function_at(loader, address);
        frame
    }

    /// The frame with what a list of call sites says.
    fn with_list(&mut self, frame: Frame) -> Frame {
        let directories = &self.directories;
        let listed = self.listed.get_or_insert_with(|| {
            let files = directories.iter().filter_map(|directory| directory.read_dir().ok());
            let paths = files.flatten().filter_map(|entry| Some(entry.ok()?.path()));
            let lists = paths.filter(|path| path.extension().is_some_and(|end| end == "sites"));
            let texts = lists.filter_map(|path| std::fs::read_to_string(path).ok());
            let lines = texts
                .flat_map(|text| text.lines().filter_map(Frame::from_list).collect::<Vec<Frame>>());
            lines.map(|frame| (frame.name(), frame)).collect()
        });
        match listed.get(&frame.name()) {
            Some(Frame { function, file, line, .. }) => {
                Frame { function: function.clone(), file: file.clone(), line: *line, ..frame }
            }
            None => frame,
        }
    }

    /// The module's debug information, if it is the recorded one.
    fn loader(&mut self, module: &Module) -> Option<&Loader> {
        if !self.modules.contains_key(module) {
            let loader = self.file(module).and_then(|file| Loader::new(file).ok());
            self.modules.insert(module.clone(), loader);
        }
        self.modules.get(module)?.as_ref()
    }

    /// The file with the module's debug information.
    fn file(&mut self, (module, build_id): &Module) -> Option<PathBuf> {
        let build_id = build_id.as_deref().and_then(debug_files::from_hex);
        let path = Path::new(module);
        // A file name without a directory is ambiguous; only a build id identifies the module.
        if build_id.is_none() && !path.is_absolute() {
            return None;
        }
        let recorded = Recorded { path, build_id: build_id.as_deref(), time: self.recorded };
        match debug_files::find(recorded, &self.directories) {
            Found::File(file) => Some(file),
            Found::Changed => {
                self.changed.insert(module.clone());
                None
            }
            Found::Missing => None,
        }
    }
}

/// The name of the innermost function at an address, including inlined ones.
fn function_at(loader: &Loader, address: u64) -> Option<String> {
    if let Ok(mut frames) = loader.find_frames(address)
        && let Ok(Some(frame)) = frames.next()
        && let Some(name) = &frame.function
        && let Ok(name) = name.demangle()
    {
        return Some(name.into_owned());
    }
    loader.find_symbol(address).map(demangled)
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
    fn a_site_may_name_the_build_id_of_its_module() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let frame = |text: &str| Frame::parse(text).expect("a frame");
        let with = frame(&format!("/bin/app@{id}+1a"));
        assert_eq!((with.module.as_str(), with.build_id.as_deref()), ("/bin/app", Some(id)));
        assert_eq!((with.offset, with.json()["build_id"].as_str()), (0x1a, Some(id)));
        for without in ["/opt/app@1.0", "/opt/app@beef", "/opt/app@", "/opt/a+b"] {
            let read = frame(&format!("{without}+1a"));
            assert_eq!((read.module.as_str(), read.build_id), (without, None));
        }
    }

    #[test]
    fn a_file_name_without_a_directory_is_not_opened() {
        let mut sites = Sites::recorded_at(u64::MAX);
        assert_eq!(sites.frames(&"Cargo.toml+11c9".into())[0].function, None);
        assert_eq!(sites.changed().count(), 0);
    }

    #[test]
    fn a_module_that_changed_since_is_not_used() {
        let own = std::env::current_exe().expect("the test's own file");
        let mut sites = Sites::recorded_at(1);
        let site: Arc<str> = format!("{}+11c9", own.display()).into();
        assert_eq!(sites.frames(&site)[0].function, None);
        assert_eq!(sites.changed().collect::<Vec<_>>(), [own.to_str().unwrap()]);
    }
}
