//! `refrain cc` and `refrain fc`: compile and link programs that record their own references.

use super::runtime;
use crate::NOT_FOUND;
use anyhow::Result;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The language to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C and C++: `REFRAIN_CC`, or `cc`.
    C,
    /// Fortran: `REFRAIN_FC`, or `gfortran`.
    Fortran,
}

/// Compiles and links a program so that `refrain mem` can record it without DynamoRIO.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  refrain cc -O2 -g -fopenmp matmul.c -o matmul && refrain mem -- ./matmul
  REFRAIN_CC=mpicc refrain cc -O2 -g app.c -o app
  REFRAIN_CC=g++ refrain cc -O2 -g app.cc -o app
  REFRAIN_FC=mpifort refrain fc -O2 -g app.f90 -o app

The compiler is $REFRAIN_CC (default cc) or $REFRAIN_FC (default gfortran). All options are passed
to it. If a build system needs flags instead: refrain mem --flags.")]
pub struct Args {
    /// Options for the compiler.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// Options for compiling.
const COMPILE: [&str; 1] = ["-fsanitize=thread"];

/// Options for linking: the runtime precedes other libraries.
fn link() -> Result<Vec<String>> {
    let folder = runtime::folder()?;
    let folder = folder.display();
    let name = runtime::NAME;
    Ok(vec![
        "-fno-sanitize=all".into(),
        "-Wl,--no-as-needed".into(),
        format!("-L{folder}"),
        format!("-l{name}"),
        "-Wl,--as-needed".into(),
        format!("-Wl,-rpath,{folder}"),
    ])
}

/// The flags as text.
pub fn flags() -> Result<String> {
    Ok(format!("compile: {}\nlink:    {}", COMPILE.join(" "), link()?.join(" ")))
}

/// Becomes the compiler. With sources and without `-c` it would compile and link at once, but the
/// flag that instruments code also links another runtime; so sources are compiled one by one first.
pub fn run(language: Language, args: Args) -> Result<ExitCode> {
    let (variable, usual) = match language {
        Language::C => ("REFRAIN_CC", "cc"),
        Language::Fortran => ("REFRAIN_FC", "gfortran"),
    };
    let compiler = std::env::var_os(variable).unwrap_or_else(|| usual.into());
    let stops_early = |word: &OsString| {
        matches!(word.to_str(), Some("-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only"))
    };
    let mut command = Command::new(&compiler);
    if args.options.iter().any(stops_early) {
        command.args(COMPILE).args(&args.options);
        return Ok(become_(command));
    }
    let folder = tempdir()?;
    let options = compile_sources(&compiler, &args.options, &folder);
    let result = match options {
        Ok(options) => {
            let status = Command::new(&compiler).args(options).args(link()?).status();
            status.map_or(NOT_FOUND, |status| status.code().unwrap_or(1) as u8)
        }
        Err(code) => code,
    };
    let _ = std::fs::remove_dir_all(&folder);
    Ok(ExitCode::from(result))
}

fn become_(mut command: Command) -> ExitCode {
    let error = command.exec();
    say!("refrain: {}: {error}", command.get_program().display());
    ExitCode::from(NOT_FOUND)
}

fn tempdir() -> Result<std::path::PathBuf> {
    let folder = std::env::temp_dir().join(format!("refrain-cc-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Compiles each source to an object. Returns the options with sources replaced by objects.
fn compile_sources(
    compiler: &OsString,
    options: &[OsString],
    folder: &std::path::Path,
) -> Result<Vec<OsString>, u8> {
    let mut linked = Vec::new();
    let others: Vec<&OsString> = {
        let mut others = Vec::new();
        let mut words = options.iter();
        while let Some(word) = words.next() {
            if word == "-o" {
                words.next();
            } else if !is_source(word) && !is_for_linker(word) {
                others.push(word);
            }
        }
        others
    };
    for (number, word) in options.iter().enumerate() {
        if !is_source(word) || (number > 0 && options[number - 1] == "-o") {
            linked.push(word.clone());
            continue;
        }
        let object = folder.join(format!("{number}.o"));
        let status = Command::new(compiler)
            .args(COMPILE)
            .args(&others)
            .args(["-c".as_ref(), word.as_os_str(), "-o".as_ref(), object.as_os_str()])
            .status();
        match status {
            Ok(status) if status.success() => linked.push(object.into()),
            Ok(status) => return Err(status.code().unwrap_or(1) as u8),
            Err(error) => {
                say!("refrain: {}: {error}", compiler.display());
                return Err(NOT_FOUND);
            }
        }
    }
    Ok(linked)
}

fn is_source(word: &OsString) -> bool {
    const ENDINGS: [&str; 20] = [
        "c", "cc", "cpp", "cxx", "c++", "C", "CC", "f", "F", "f77", "for", "FOR", "f90", "F90",
        "f95", "F95", "f03", "F03", "f08", "F08",
    ];
    let path = std::path::Path::new(word);
    !word.as_encoded_bytes().starts_with(b"-")
        && path.extension().and_then(|e| e.to_str()).is_some_and(|e| ENDINGS.contains(&e))
}

fn is_for_linker(word: &OsString) -> bool {
    let bytes = word.as_encoded_bytes();
    let is_object = [".o", ".a", ".so"].iter().any(|end| bytes.ends_with(end.as_bytes()));
    bytes.starts_with(b"-l") || bytes.starts_with(b"-L") || bytes.starts_with(b"-Wl,") || is_object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_distinguished_from_options_and_objects() {
        let is = |word: &str| is_source(&OsString::from(word));
        assert!(is("a.c") && is("dir/b.f90") && is("x.F"));
        assert!(!is("-O2") && !is("a.o") && !is("-DX=a.c") && !is("main"));
        assert!(is_for_linker(&"-lm".into()) && is_for_linker(&"b.o".into()));
    }
}
