//! Finds the file with the debug information of a recorded module: the module itself, or a separate debug file.
//!
//! A module is recognised by its GNU build id, a hash that the linker puts into it: copying or touching
//! the file changes nothing, rebuilding it differently does. Modules without a build id, and traces of
//! versions that did not record it, are recognised by time: a file that was changed after the
//! recording may be another.
//!
//! Distributions and build systems strip debug information into separate files. They are found by build
//! id (`/usr/lib/debug/.build-id/ab/cdef….debug`), or by the name in the module's `.gnu_debuglink`
//! section, as debuggers find them.

use object::{Object, ObjectSection, ReadCache};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// An environment variable with directories of debug files, separated by colons, instead of the installed ones.
const DIRECTORIES: &str = "REFRAIN_DEBUG_DIRECTORIES";
/// Where distributions install debug files.
const INSTALLED: &str = "/usr/lib/debug";

/// The result of [`find`].
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The file that belongs to the recorded code.
    File(PathBuf),
    /// The module is not the recorded one.
    Changed,
    /// There is no such file.
    Missing,
}

/// A module as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its build id, if it had one and it was recorded.
    pub build_id: Option<&'a [u8]>,
    /// When the recording began, in nanoseconds since 1970.
    pub time: u64,
}

/// The directories of debug files, in the order in which they are searched.
pub fn directories() -> Vec<PathBuf> {
    match std::env::var_os(DIRECTORIES) {
        Some(named) => std::env::split_paths(&named).collect(),
        None => vec![PathBuf::from(INSTALLED)],
    }
}

/// Finds the file with the debug information of a module.
pub fn find(recorded: Recorded<'_>, directories: &[PathBuf]) -> Found {
    let by_id = || recorded.build_id.and_then(|id| by_build_id(id, directories));
    let Some(image) = Image::read(recorded.path) else {
        return by_id().map_or(Found::Missing, Found::File);
    };
    if !is_recorded(recorded, &image) {
        return by_id().map_or(Found::Changed, Found::File);
    }
    if image.has_debug_info {
        return Found::File(recorded.path.to_owned());
    }
    let separate = image.build_id.as_deref().and_then(|id| by_build_id(id, directories));
    let separate = separate.or_else(|| by_link(recorded.path, &image, directories));
    Found::File(separate.unwrap_or_else(|| recorded.path.to_owned()))
}

/// Whether a file is the module that was recorded.
fn is_recorded(recorded: Recorded<'_>, image: &Image) -> bool {
    if let Some(id) = recorded.build_id {
        return image.build_id.as_deref() == Some(id);
    }
    let changed = fs::metadata(recorded.path).and_then(|file| file.modified());
    let changed = changed.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    changed.is_some_and(|time| time.as_nanos() <= u128::from(recorded.time))
}

/// The debug file with that build id.
fn by_build_id(id: &[u8], directories: &[PathBuf]) -> Option<PathBuf> {
    let name = hex(id);
    let (folder, file) = name.split_at_checked(2).filter(|(_, file)| !file.is_empty())?;
    let file = format!("{file}.debug");
    let candidates = directories.iter().map(|d| d.join(".build-id").join(folder).join(&file));
    let is_it = |path: &PathBuf| {
        Image::read(path).is_some_and(|image| image.build_id.as_deref() == Some(id))
    };
    candidates.into_iter().find(is_it)
}

/// The debug file that the module names.
fn by_link(module: &Path, image: &Image, directories: &[PathBuf]) -> Option<PathBuf> {
    let (name, checksum) = image.link.as_ref()?;
    let folder = module.parent()?;
    let relative = folder.strip_prefix("/").unwrap_or(folder);
    let beside = [folder.join(name), folder.join(".debug").join(name)];
    let installed = directories.iter().map(|d| d.join(relative).join(name));
    let is_it = |path: &PathBuf| {
        path != module
            && Image::read(path).is_some_and(|found| match (&found.build_id, &image.build_id) {
                (Some(found), Some(own)) => found == own,
                _ => fs::read(path).is_ok_and(|bytes| crc32(&bytes) == *checksum),
            })
    };
    beside.into_iter().chain(installed).find(is_it)
}

/// The relevant facts of an ELF file.
struct Image {
    build_id: Option<Vec<u8>>,
    has_debug_info: bool,
    /// The name of its debug file, and that file's checksum.
    link: Option<(PathBuf, u32)>,
}

impl Image {
    fn read(path: &Path) -> Option<Image> {
        use std::os::unix::ffi::OsStrExt;
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let has_debug_info = file.section_by_name(".debug_info").is_some_and(|s| s.size() > 0)
            || file.section_by_name(".zdebug_info").is_some_and(|s| s.size() > 0);
        let link = file.gnu_debuglink().ok().flatten();
        let link = link.map(|(name, sum)| (std::ffi::OsStr::from_bytes(name).into(), sum));
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Some(Image { build_id, has_debug_info, link })
    }
}

/// The checksum of `.gnu_debuglink`: CRC-32, as zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|n| {
        (0..8).fold(n as u32, |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    !bytes.iter().fold(!0, |crc: u32, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    (digits.len().is_multiple_of(2)).then(|| digits.chunks(2).map(pair).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    fn run(program: &str, args: &[&str]) {
        let status = Command::new(program).args(args).status();
        assert!(status.is_ok_and(|s| s.success()), "{program} {args:?}");
    }

    /// A program with a build id and debug information.
    fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
        let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
        fs::write(&source, text).expect("it is written");
        let words = [source.to_str().unwrap(), "-g", "-Wl,--build-id", "-o"];
        run("cc", &[&words[..], &[program.to_str().unwrap()]].concat());
        program
    }

    fn id_of(path: &Path) -> Vec<u8> {
        Image::read(path).and_then(|image| image.build_id).expect("a build id")
    }

    #[test]
    fn a_module_is_recognised_by_its_build_id_whatever_its_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = program(folder.path(), "app", "int main(void) { return 0; }");
        let id = id_of(&path);
        let recorded = Recorded { path: &path, build_id: Some(&id), time: 0 };
        assert_eq!(
            find(recorded, &[]),
            Found::File(path.clone()),
            "it is newer than the recording"
        );
        program(folder.path(), "app", "int main(void) { return 1; }");
        assert_ne!(id_of(&path), id);
        let (past, far) = (SystemTime::UNIX_EPOCH + Duration::from_secs(1), u64::MAX);
        File::open(&path).and_then(|file| file.set_modified(past)).expect("it is ours");
        let recorded = Recorded { path: &path, build_id: Some(&id), time: far };
        assert_eq!(find(recorded, &[]), Found::Changed, "it is older than the recording");
    }

    #[test]
    fn a_module_without_a_recorded_build_id_is_recognised_by_its_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = program(folder.path(), "app", "int main(void) { return 0; }");
        let recorded = |time| Recorded { path: &path, build_id: None, time };
        assert_eq!(find(recorded(u64::MAX), &[]), Found::File(path.clone()));
        assert_eq!(find(recorded(1), &[]), Found::Changed);
        let nothing = Recorded { path: Path::new("/no/such/app"), build_id: None, time: 1 };
        assert_eq!(find(nothing, &[]), Found::Missing);
    }

    #[test]
    fn separate_debug_files_are_found_by_build_id_and_by_link() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = program(folder.path(), "app", "int main(void) { return 0; }");
        let (id, debug) = (id_of(&path), folder.path().join("app.debug"));
        let [path_text, debug_text] = [&path, &debug].map(|p| p.to_str().unwrap());
        run("objcopy", &["--only-keep-debug", path_text, debug_text]);
        run("objcopy", &["--strip-all", path_text]);
        let recorded = Recorded { path: &path, build_id: Some(&id), time: 0 };
        assert_eq!(find(recorded, &[]), Found::File(path.clone()), "nothing says where it is");
        run("objcopy", &[&format!("--add-gnu-debuglink={debug_text}"), path_text]);
        assert_eq!(find(recorded, &[]), Found::File(debug.clone()), "it lies beside the program");
        let name = hex(&id);
        let directory = folder.path().join("debug");
        let installed = directory.join(".build-id").join(&name[..2]);
        fs::create_dir_all(&installed).expect("it is created");
        let installed = installed.join(format!("{}.debug", &name[2..]));
        fs::rename(&debug, &installed).expect("it is moved");
        let directories = [directory];
        assert_eq!(find(recorded, &directories), Found::File(installed.clone()));
        fs::remove_file(&path).expect("it is there");
        assert_eq!(find(recorded, &directories), Found::File(installed), "the program is gone");
        assert_eq!(find(recorded, &[]), Found::Missing);
    }

    #[test]
    fn checksums_and_hexadecimal_digits_are_correct() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(from_hex(&hex(&[0, 15, 255])), Some(vec![0, 15, 255]));
        assert_eq!(from_hex("abc"), None);
        assert_eq!(from_hex("zz"), None);
    }
}
