//! The tables and layouts against the `mpi.h` and the library of every MPI on this machine.
//!
//! A C program shows what each MPI's compiler makes of every name; the tables must say the
//! same, in both directions. A second one has MPI fill in statuses and shows how MPI itself
//! reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use refrain_mpi::abi::{Family, Layout, Source};
use refrain_mpi::kind::kinds;
use refrain_mpi::names::{
    Condition, Variant, constant_value, constants, handles, predefined_handles,
};
use refrain_mpi::status::{CountEncoding, StatusFields};

/// Names in some `mpi.h` that are no argument and no result of any call.
const NOT_VALUES: &[&str] = &[
    // Versions of the header, asked for by the preprocessor.
    "MPI_VERSION",
    "MPI_SUBVERSION",
    "MPI_ABI",
    "MPI_ABI_VERSION",
    "MPI_ABI_SUBVERSION",
    // Statuses of Fortran, as arrays; the bindings turn them into C's.
    "MPI_F_STATUS_SIZE",
    "MPI_F_SOURCE",
    "MPI_F_TAG",
    "MPI_F_ERROR",
    "MPI_F_STATUS_IGNORE",
    "MPI_F_STATUSES_IGNORE",
    "MPI_F08_STATUS_IGNORE",
    "MPI_F08_STATUSES_IGNORE",
    // Strings.
    "MPI_AINT_FMT_DEC_SPEC",
    "MPI_AINT_FMT_HEX_SPEC",
    "MPI_INFO_KEY_SESSION_PSET_SIZE",
    // How many keys Open MPI predefines.
    "MPI_ATTR_PREDEFINED_KEY_MAX",
];

/// The sentinels of a layout by their names in `mpi.h`.
fn sentinels(layout: &Layout) -> [(&'static str, Source); 10] {
    [
        ("MPI_STATUS_IGNORE", layout.status_ignore),
        ("MPI_STATUSES_IGNORE", layout.statuses_ignore),
        ("MPI_BOTTOM", layout.bottom),
        ("MPI_IN_PLACE", layout.in_place),
        ("MPI_BUFFER_AUTOMATIC", layout.buffer_automatic),
        ("MPI_UNWEIGHTED", layout.unweighted),
        ("MPI_WEIGHTS_EMPTY", layout.weights_empty),
        ("MPI_ARGV_NULL", layout.argv_null),
        ("MPI_ARGVS_NULL", layout.argvs_null),
        ("MPI_ERRCODES_IGNORE", layout.errcodes_ignore),
    ]
}

/// One MPI of this machine, and what its `mpi.h` and its library say.
struct Mpi {
    name: String,
    family: Family,
    /// Version of the library, major and minor; the standard ABI has none.
    version: (u32, u32),
    /// Intel's, not Argonne's, MPICH.
    intel: bool,
    /// Names in `mpi.h` that stand for something of the library's own machinery.
    internal: BTreeSet<String>,
    /// All names in `mpi.h`.
    names: BTreeSet<String>,
    /// What those names mean that mean a number or an address.
    values: BTreeMap<String, u64>,
    /// Addresses of the library's symbols, and the words found there.
    symbols: BTreeMap<String, (u64, u64)>,
    /// Sizes and offsets.
    sizes: BTreeMap<String, usize>,
}

#[test]
fn every_name_of_the_tables_has_the_value_that_mpi_h_gives_it() {
    let mut wrong = Vec::new();
    for mpi in mpis() {
        for row in constants() {
            let wanted = mpi.expect(row.variants(mpi.family)).map(|v| v as u64);
            mpi.check(&mut wrong, row.name, wanted, mpi.values.get(row.name).copied());
        }
        for row in handles() {
            let source = mpi.expect(row.variants(mpi.family));
            let wanted = source.and_then(|source| mpi.resolve(source));
            if wanted.is_none() && source.is_some() && !mpi.is_optional(row.name) {
                wrong.push(format!("{}: {} has no symbol {source:?}", mpi.name, row.name));
            }
            let mut found = mpi.values.get(row.name).copied();
            if mpi.family == Family::Mpich && mpi.bytes_of(row.group) == 4 {
                found = found.map(|handle| handle & 0xffff_ffff);
            }
            // A datatype that the library was built without.
            if found == mpi.resolve(Layout::of(mpi.family).datatype_null)
                && may_be_missing(row.name)
            {
                continue;
            }
            mpi.check(&mut wrong, row.name, wanted, found);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_name_of_mpi_h_is_in_the_tables() {
    let known: BTreeSet<&str> = constants()
        .iter()
        .map(|row| row.name)
        .chain(handles().iter().map(|row| row.name))
        .chain(sentinels(Layout::of(Family::Mpich)).map(|(name, _)| name))
        .chain(NOT_VALUES.iter().copied())
        .collect();
    let mut unknown = Vec::new();
    for mpi in mpis() {
        for (name, value) in &mpi.values {
            let is_standard = name.starts_with("MPI_");
            if is_standard && !mpi.internal.contains(name) && !known.contains(name.as_str()) {
                unknown.push(format!("{}: {name} is {value:#x}", mpi.name));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn the_layouts_are_those_of_mpi_h() {
    let mut wrong = Vec::new();
    for mpi in mpis() {
        let layout = Layout::of(mpi.family);
        for (name, wanted) in [
            ("MPI_Status", layout.status.bytes),
            ("MPI_SOURCE", layout.status.source),
            ("MPI_TAG", layout.status.tag),
            ("MPI_ERROR", layout.status.error),
            ("MPI_Comm", layout.bytes_of("comm")),
            ("MPI_Datatype", layout.bytes_of("datatype")),
            ("MPI_Group", layout.bytes_of("group")),
            ("MPI_Op", layout.bytes_of("op")),
            ("MPI_Request", layout.bytes_of("request")),
            ("MPI_Errhandler", layout.bytes_of("errhandler")),
            ("MPI_Info", layout.bytes_of("info")),
            ("MPI_Win", layout.bytes_of("win")),
            ("MPI_File", layout.bytes_of("file")),
            ("MPI_Message", layout.bytes_of("message")),
            ("MPI_T_enum", layout.tool_bytes),
            ("MPI_T_cvar_handle", layout.tool_bytes),
            ("MPI_T_pvar_handle", layout.tool_bytes),
            ("MPI_T_pvar_session", layout.tool_bytes),
            ("int", 4),
            ("MPI_Aint", 8),
            ("MPI_Count", 8),
            ("MPI_Offset", 8),
        ] {
            if mpi.sizes.get(name) != Some(&wanted) {
                wrong.push(format!("{}: {name}: {wanted}, {:?}", mpi.name, mpi.sizes.get(name)));
            }
        }
        for (name, source) in sentinels(layout) {
            // The one sentinel that came after MPI 3.
            let may_be_absent = name == "MPI_BUFFER_AUTOMATIC";
            match mpi.values.get(name) {
                None if may_be_absent => {}
                found => mpi.check(&mut wrong, name, mpi.resolve(source), found.copied()),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_layouts_agree_with_the_tables() {
    for family in Family::ALL {
        let layout = Layout::of(family);
        for (name, value) in [
            ("MPI_ANY_SOURCE", layout.any_source),
            ("MPI_ANY_TAG", layout.any_tag),
            ("MPI_PROC_NULL", layout.proc_null),
            ("MPI_ROOT", layout.root),
            ("MPI_UNDEFINED", layout.undefined),
            ("MPI_KEYVAL_INVALID", layout.keyval_invalid),
            ("MPI_SUCCESS", layout.success),
            ("MPI_ERR_REQUEST", layout.err_request),
            ("MPI_ERR_TRUNCATE", layout.err_truncate),
            ("MPI_ERR_OTHER", layout.err_other),
            ("MPI_ERR_IN_STATUS", layout.err_in_status),
            ("MPI_ERR_PENDING", layout.err_pending),
            ("MPI_ERR_UNSUPPORTED_OPERATION", layout.err_unsupported_operation),
            ("MPI_THREAD_SINGLE", layout.thread_single),
            ("MPI_THREAD_FUNNELED", layout.thread_funneled),
            ("MPI_THREAD_SERIALIZED", layout.thread_serialized),
            ("MPI_THREAD_MULTIPLE", layout.thread_multiple),
            ("MPI_GRAPH", layout.graph),
            ("MPI_CART", layout.cart),
            ("MPI_DIST_GRAPH", layout.dist_graph),
        ] {
            assert_eq!(constant_value(family, name), Some(value.into()), "{family:?} {name}");
        }
        let source_of = |name| handles().iter().find(|row| row.name == name)?.value(family);
        for (name, source) in [
            ("MPI_COMM_WORLD", layout.comm_world),
            ("MPI_COMM_SELF", layout.comm_self),
            ("MPI_BYTE", layout.byte),
            ("MPI_COMM_NULL", layout.null("comm")),
            ("MPI_GROUP_NULL", layout.null("group")),
            ("MPI_DATATYPE_NULL", layout.null("datatype")),
            ("MPI_OP_NULL", layout.null("op")),
            ("MPI_REQUEST_NULL", layout.null("request")),
            ("MPI_ERRHANDLER_NULL", layout.null("errhandler")),
            ("MPI_INFO_NULL", layout.null("info")),
            ("MPI_WIN_NULL", layout.null("win")),
            ("MPI_FILE_NULL", layout.null("file")),
            ("MPI_MESSAGE_NULL", layout.null("message")),
            ("MPI_MESSAGE_NO_PROC", layout.message_no_proc),
            ("MPI_SESSION_NULL", layout.null("session")),
            ("MPI_T_ENUM_NULL", layout.null("tenum")),
            ("MPI_T_CVAR_HANDLE_NULL", layout.null("tcvar")),
            ("MPI_T_PVAR_HANDLE_NULL", layout.null("tpvar")),
            ("MPI_T_PVAR_SESSION_NULL", layout.null("tpvarsession")),
        ] {
            assert_eq!(source_of(name), Some(source), "{family:?} {name}");
        }
    }
}

#[test]
fn what_a_kind_reads_as_is_in_the_tables() {
    let plain = ["number", "bool", "address", "-"];
    for kind in kinds() {
        let known = plain.contains(&kind.reads_as)
            || constants().iter().any(|row| row.group == kind.reads_as)
            || handles().iter().any(|row| row.group == kind.reads_as);
        assert!(known, "{} reads as `{}`", kind.name, kind.reads_as);
    }
}

/// Has MPI fill in statuses, and shows each as `what elements cancelled bytes…`.
const STATUS_C: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void show(const char *what, MPI_Status *status)
{
    MPI_Count elements;
    int cancelled;
    MPI_Get_elements_x(status, MPI_BYTE, &elements);
    MPI_Test_cancelled(status, &cancelled);
    printf("%s %lld %d", what, (long long)elements, cancelled);
    for (size_t i = 0; i < sizeof *status; i++)
        printf(" %u", ((unsigned char *)status)[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    char out[1000] = {0}, in[1000];
    MPI_Request request;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    memset(&status, 0xee, sizeof status);
    MPI_Sendrecv(out, 123, MPI_BYTE, 0, 7, in, 1000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_SELF, &status);
    show("received", &status);

    memset(&status, 0xee, sizeof status);
    MPI_Isend(out, 44, MPI_BYTE, 0, 3, MPI_COMM_SELF, &request);
    MPI_Probe(0, 3, MPI_COMM_SELF, &status);
    show("probed", &status);
    MPI_Recv(in, 1000, MPI_BYTE, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    memset(&status, 0xee, sizeof status);
    MPI_Irecv(in, 10, MPI_BYTE, 0, 99, MPI_COMM_SELF, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    show("cancelled", &status);

    memset(&status, 0xee, sizeof status);
    MPI_Recv(in, 10, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_SELF, &status);
    show("from-nobody", &status);

    memset(&status, 0xee, sizeof status);
    request = MPI_REQUEST_NULL;
    MPI_Wait(&request, &status);
    show("empty", &status);

    memset(&status, 0, sizeof status);
    MPI_Status_set_elements_x(&status, MPI_BYTE, 0x12a05f27bLL);
    show("large", &status);
    MPI_Status_set_cancelled(&status, 1);
    show("sample", &status);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn a_status_is_read_as_mpi_itself_reads_it() {
    for mpi in mpis() {
        let layout = Layout::of(mpi.family);
        let file = scratch(&format!("{}-status", mpi.name));
        fs::write(file.with_extension("c"), STATUS_C).expect("scratch file");
        let build = under(&mpi.name, "mpicc", &["-w", "-o", path(&file), &c_file(&file)]);
        assert!(build.status.success(), "{}", text(&build.stderr));
        let run = under(&mpi.name, "mpirun", &["-n", "1", path(&file)]);
        assert!(run.status.success(), "{}: {}", mpi.name, text(&run.stderr));

        let mut shown = 0;
        for line in text(&run.stdout).lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [what, elements, cancelled, bytes @ ..] = &words[..] else {
                continue;
            };
            let status: Vec<u8> = bytes.iter().map(|b| b.parse().expect("a byte")).collect();
            let fields = layout.status.status_fields(&status).expect("a whole status");
            let about = format!("{}: {what}: {fields:?}", mpi.name);
            let StatusFields { source, tag, count_bytes, .. } = fields;
            assert_eq!(count_bytes, elements.parse().ok(), "{about}");
            assert_eq!(fields.cancelled, *cancelled != "0", "{about}");
            match *what {
                "received" => assert_eq!((source, tag, count_bytes), (0, 7, Some(123)), "{about}"),
                "probed" => assert_eq!((source, tag, count_bytes), (0, 3, Some(44)), "{about}"),
                "cancelled" => assert!(fields.cancelled, "{about}"),
                "from-nobody" => {
                    let nobody = (layout.proc_null, layout.any_tag, Some(0));
                    assert_eq!((source, tag, count_bytes), nobody, "{about}");
                }
                "empty" => {
                    let empty = (layout.any_source, layout.any_tag, Some(0));
                    assert_eq!((source, tag, count_bytes), empty, "{about}");
                }
                "large" => assert_eq!(count_bytes, Some(CountEncoding::SAMPLE), "{about}"),
                "sample" if mpi.family == Family::StandardAbi => {
                    let recognised = CountEncoding::recognise(&status);
                    assert_eq!(recognised, layout.status.count, "{about}");
                }
                _ => {}
            }
            let mut written = status.clone();
            assert!(layout.status.write(&mut written, &fields));
            assert_eq!(written, status, "{about}");
            shown += 1;
        }
        assert_eq!(shown, 7, "{}: {}", mpi.name, text(&run.stdout));
    }
}

impl Mpi {
    /// The value that a row of the tables promises for this MPI.
    fn expect<T: Copy>(&self, variants: &[Variant<T>]) -> Option<T> {
        let holds = |condition| match condition {
            Condition::Always | Condition::Some => true,
            // Intel MPI takes over from newer versions of MPICH as it likes.
            Condition::Since(major, minor) => self.intel || (major, minor) <= self.version,
            Condition::Vendor(vendor) => vendor == "intel" && self.intel,
        };
        variants.iter().rev().find(|v| holds(v.condition)).map(|v| v.value)
    }

    /// The value of a handle or sentinel in the probing program; `None` without its symbol.
    fn resolve(&self, source: Source) -> Option<u64> {
        match source {
            Source::Value(value) => Some(value as u64),
            Source::Address(symbol) => self.symbols.get(symbol).map(|(address, _)| *address),
            Source::Content(symbol) => self.symbols.get(symbol).map(|(_, content)| *content),
        }
    }

    fn bytes_of(&self, kind: &str) -> usize {
        Layout::of(self.family).bytes_of(kind)
    }

    /// Notes a difference between a table and `mpi.h`.
    fn check(&self, wrong: &mut Vec<String>, name: &str, wanted: Option<u64>, found: Option<u64>) {
        let may_be_absent = self.intel || self.is_optional(name);
        if wanted == found || (found.is_none() && may_be_absent) {
            return;
        }
        let show = |value: Option<u64>| value.map_or("nothing".into(), |v| format!("{v:#x}"));
        wrong.push(format!(
            "{} {}.{}: {name} is {} in the tables, {} in mpi.h",
            self.name,
            self.version.0,
            self.version.1,
            show(wanted),
            show(found)
        ));
    }

    /// Whether only some builds of the library have a name.
    fn is_optional(&self, name: &str) -> bool {
        let is_some = |condition| matches!(condition, Condition::Some);
        constants()
            .iter()
            .filter(|row| row.name == name)
            .flat_map(|row| row.variants(self.family).iter().map(|v| v.condition))
            .chain(
                handles()
                    .iter()
                    .filter(|row| row.name == name)
                    .flat_map(|row| row.variants(self.family).iter().map(|v| v.condition)),
            )
            .any(is_some)
    }
}

/// Datatypes that a library may be built without: those of Fortran and C++, and long doubles.
fn may_be_missing(name: &str) -> bool {
    let of_fortran = ["INTEGER", "REAL", "COMPLEX", "LOGICAL", "CHARACTER", "DOUBLE_PRECISION"];
    of_fortran.iter().any(|word| name.contains(word))
        || name.contains("LONG_DOUBLE")
        || name.starts_with("MPI_CXX_")
}

/// Every MPI of this machine, probed once.
fn mpis() -> &'static [Mpi] {
    static MPIS: OnceLock<Vec<Mpi>> = OnceLock::new();
    MPIS.get_or_init(|| {
        let list = script(&["--list"]);
        assert!(list.status.success(), "{}", text(&list.stderr));
        let names = text(&list.stdout);
        if names.is_empty() {
            eprintln!("no MPI here: nothing is compared; `scripts/setup.sh test` installs some");
        }
        names.lines().map(probe).collect()
    })
}

/// Has an MPI's compiler show what it makes of every name.
fn probe(name: &str) -> Mpi {
    let family = text(&script(&["--family", name]).stdout).trim().to_owned();
    let family = Family::named(&family).expect("a family that Refrain knows");
    let header = header_of(name);
    let internal = enumerators(&header, "enum QMPI_Functions_enum");
    let names: BTreeSet<String> = words(&header)
        .filter(|word| word.starts_with("MPI_") && word.chars().all(is_upper))
        .map(str::to_owned)
        .chain(constants().iter().map(|row| row.name.to_owned()))
        .chain(handles().iter().map(|row| row.name.to_owned()))
        .filter(|word| !internal.contains(word))
        .collect();

    let mut mpi = Mpi {
        name: name.to_owned(),
        family,
        version: (0, 0),
        intel: false,
        internal,
        names,
        values: BTreeMap::new(),
        symbols: BTreeMap::new(),
        sizes: BTreeMap::new(),
    };
    let output = run_probe(&mpi);
    for line in output.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["value", name, value] => {
                mpi.values.insert(name.to_owned(), number(value) as u64);
            }
            ["symbol", name, address, content] => {
                let words = (number(address) as u64, number(content) as u64);
                mpi.symbols.insert(name.to_owned(), words);
            }
            ["size", name, bytes] => {
                mpi.sizes.insert(name.to_owned(), number(bytes) as usize);
            }
            ["version", major, minor] => mpi.version = (number(major) as u32, number(minor) as u32),
            ["intel"] => mpi.intel = true,
            _ => panic!("{name}: the probe says `{line}`"),
        }
    }
    mpi
}

/// What comes before the names in the probing program.
const PROBE_C: &str = r#"
#define _GNU_SOURCE
#include <mpi.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define VALUE(name) printf("value " #name " %lld\n", (long long)(intptr_t)(name));
#define SIZE(type) printf("size " #type " %zu\n", sizeof(type));
#define OFFSET(field) printf("size " #field " %zu\n", offsetof(MPI_Status, field));

static void symbol(const char *name)
{
    long long *at = dlsym(RTLD_DEFAULT, name);
    if (at)
        printf("symbol %s %lld %lld\n", name, (long long)(intptr_t)at, *at);
}

int main(void)
{
    /* Without a call the linker may leave the library out. */
    int ready;
    MPI_Initialized(&ready);
#if defined(I_MPI_NUMVERSION)
    printf("intel\n");
#endif
#if defined(MPICH_NUMVERSION)
    printf("version %d %d\n", MPICH_NUMVERSION / 10000000, MPICH_NUMVERSION / 100000 % 100);
#elif defined(OMPI_MAJOR_VERSION)
    printf("version %d %d\n", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
#endif
    OFFSET(MPI_SOURCE) OFFSET(MPI_TAG) OFFSET(MPI_ERROR)
    SIZE(int) SIZE(MPI_Aint) SIZE(MPI_Count) SIZE(MPI_Offset) SIZE(MPI_Status)
    SIZE(MPI_Comm) SIZE(MPI_Datatype) SIZE(MPI_Group) SIZE(MPI_Op) SIZE(MPI_Request)
    SIZE(MPI_Errhandler) SIZE(MPI_Info) SIZE(MPI_Win) SIZE(MPI_File) SIZE(MPI_Message)
    SIZE(MPI_T_enum) SIZE(MPI_T_cvar_handle) SIZE(MPI_T_pvar_handle) SIZE(MPI_T_pvar_session)
"#;

/// Builds and runs the probing program. A name that is no expression (a type, the guard of a
/// header, a name the header forbids) does not compile: its line is left out.
fn run_probe(mpi: &Mpi) -> String {
    let file = scratch(&format!("{}-probe", mpi.name));
    let mut names: Vec<&str> = mpi.names.iter().map(String::as_str).collect();
    for _ in 0..10 {
        let mut program = PROBE_C.to_owned();
        let first_line = program.lines().count() + 1;
        for name in &names {
            let _ = writeln!(program, "VALUE({name})");
        }
        for symbol in symbols(mpi.family) {
            let _ = writeln!(program, "symbol(\"{symbol}\");");
        }
        program.push_str("return 0;\n}\n");
        fs::write(file.with_extension("c"), program).expect("scratch file");

        let source = c_file(&file);
        let build = under(
            &mpi.name,
            "mpicc",
            &["-w", "-fmax-errors=0", "-o", path(&file), &source, "-ldl"],
        );
        if build.status.success() {
            let run = under(&mpi.name, path(&file), &[]);
            assert!(run.status.success(), "{}: {}", mpi.name, text(&run.stderr));
            return text(&run.stdout).to_owned();
        }
        // Messages begin with `file:line:`, also those about what a macro in the header does.
        let failed: BTreeSet<&str> = text(&build.stderr)
            .lines()
            .filter_map(|message| message.strip_prefix(&source)?.strip_prefix(':'))
            .filter_map(|rest| rest.split(':').next()?.parse::<usize>().ok())
            .filter_map(|line| names.get(line.checked_sub(first_line)?).copied())
            .collect();
        assert!(!failed.is_empty(), "{}: {}", mpi.name, text(&build.stderr));
        names.retain(|name| !failed.contains(name));
    }
    panic!("{}: the probe does not compile", mpi.name)
}

/// The symbols behind a family's handles and sentinels.
fn symbols(family: Family) -> BTreeSet<&'static str> {
    predefined_handles(family)
        .map(|(_, _, source)| source)
        .chain(sentinels(Layout::of(family)).map(|(_, source)| source))
        .filter_map(|source| match source {
            Source::Value(_) => None,
            Source::Address(symbol) | Source::Content(symbol) => Some(symbol),
        })
        .collect()
}

/// `mpi.h` and all it includes, macros and all.
fn header_of(name: &str) -> String {
    let file = scratch(&format!("{name}-header"));
    fs::write(file.with_extension("c"), "#include <mpi.h>\n").expect("scratch file");
    let output = under(name, "mpicc", &["-E", "-dD", &c_file(&file)]);
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// The words between the braces after `start`: MPICH numbers its own functions that way.
fn enumerators(header: &str, start: &str) -> BTreeSet<String> {
    let body = header.split_once(start).and_then(|(_, rest)| rest.split_once('}'));
    body.map_or_else(BTreeSet::new, |(body, _)| words(body).map(str::to_owned).collect())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

fn is_upper(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("a crate two levels below the workspace")
}

fn script(args: &[&str]) -> Output {
    let script = workspace().join("scripts/mpi");
    let _turn = refrain_testing::turn();
    let run = Command::new(&script).args(args).output();
    run.unwrap_or_else(|error| panic!("{}: {error}", script.display()))
}

/// Runs a command with an MPI's commands on the `PATH`.
fn under(mpi: &str, command: &str, args: &[&str]) -> Output {
    script(&[&[mpi, command], args].concat())
}

fn scratch(name: &str) -> PathBuf {
    // Each test may be a process of its own, and several run at once.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    fs::create_dir_all(&folder).expect("the folder for tests can be written to");
    folder.join(name)
}

fn c_file(file: &Path) -> String {
    path(&file.with_extension("c")).to_owned()
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path in UTF-8")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output in UTF-8")
}
