//! Memory traces of real programs without regular loops: their size relative to `zstd -3` of their
//! words, and references per second.

use crate::Figure;
use crate::memory::{Job, number};
use std::path::{Path, PathBuf};

/// A trace takes at most this share of the size of the words after `zstd -3` (1 / 2.5).
const SHARE: f64 = 0.4;
/// At least 15 million references a second.
const NANOSECONDS: f64 = 1000.0 / 15.0;
/// Bytes that are compressed, lines that are sorted.
const BYTES: usize = 1 << 20;
const LINES: u64 = 100_000;

const SQL: &str = "\
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<6000)
  insert into t select i, 'name'||(i*7919%6007), i*0.5 from n;
create index tb on t(b);
select count(*), sum(c) from t where b like 'name1%';
select t1.b, t2.c from t t1 join t t2 on t1.a = t2.a*3 where t2.c < 100 order by t1.b limit 20;
select substr(b,1,5), count(*), avg(c) from t group by 1 order by 2 desc limit 5;
";

const PYTHON: &str = "\
counts = {}
for i in range(20000):
    key = str(i * 7919 % 1009)
    counts[key] = counts.get(key, 0) + len(key)
print(sorted(counts.items())[:3], sum(counts.values()))
";

/// A program, what is recorded of it, and which bounds it has.
struct Program {
    name: &'static str,
    path: &'static str,
    args: Vec<String>,
    libs: bool,
    is_small: bool,
    is_fast: bool,
}

/// Measures the programs that are installed.
pub fn measure(folder: &Path, rounds: usize) -> Vec<Figure> {
    programs(folder).iter().flat_map(|program| figures(folder, program, rounds)).collect()
}

fn programs(folder: &Path) -> Vec<Program> {
    let write = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    };
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let own = std::fs::read(refrain_testing::refrain_binary()).expect("the binary can be read");
    let data = text(write("data", &own[..own.len().min(BYTES)]));
    let lines = (1..=LINES).map(|line| format!("{}\n", line * 7919 % 100_003));
    let lines = text(write("lines", lines.collect::<String>().as_bytes()));
    let script = text(write("script.py", PYTHON.as_bytes()));
    let program = |name, path, args: &[&str], libs, is_small, is_fast| Program {
        name,
        path,
        args: args.iter().map(ToString::to_string).collect(),
        libs,
        is_small,
        is_fast,
    };
    let all = vec![
        program("gzip", "/usr/bin/gzip", &["-kc", &data], false, false, true),
        program("xz -0, with libraries", "/usr/bin/xz", &["-kc0", &data], true, false, true),
        program("sort", "/usr/bin/sort", &[&lines], false, false, true),
        program(
            "sqlite3, with libraries",
            "/usr/bin/sqlite3",
            &[":memory:", SQL],
            true,
            true,
            false,
        ),
        program("python3, with libraries", "/usr/bin/python3", &["-S", &script], true, true, false),
    ];
    let is_here = |program: &Program| {
        let is_here = Path::new(program.path).exists();
        if !is_here {
            eprintln!("not measured: there is no {}", program.path);
        }
        is_here
    };
    all.into_iter().filter(is_here).collect()
}

fn figures(folder: &Path, program: &Program, rounds: usize) -> Vec<Figure> {
    let args: Vec<&str> = program.args.iter().map(String::as_str).collect();
    let job = Job { program: Path::new(program.path), args: &args, threads: 1 };
    let libs: &[&str] = if program.libs { &["--libs"] } else { &[] };
    let trace = folder.join("irregular.refrain");
    let plain = (0..rounds).map(|_| job.plain()).fold(f64::INFINITY, f64::min);
    let whole = (0..rounds).map(|_| job.traced(libs, &trace)).fold(f64::INFINITY, f64::min);
    let (references, bytes) = (number(&trace, "references"), number(&trace, "bytes"));
    job.traced(&[libs, &["--raw"]].concat(), &trace);
    // Raw words are stored packed by zstd at level 3.
    let packed = number(&trace, "raw");
    let bound = |is_bounded: bool, bound: f64| if is_bounded { bound } else { f64::INFINITY };
    vec![
        Figure {
            name: format!("{}: size, of zstd -3 of the words", program.name),
            detail: format!(
                "{bytes} bytes, {:.2} times below zstd's {packed}; {:.2} bits a reference",
                packed / bytes,
                8.0 * bytes / references
            ),
            value: bytes / packed,
            bound: bound(program.is_small, SHARE),
            unit: "",
        },
        Figure {
            name: format!("{}: a reference, all in all", program.name),
            detail: format!(
                "{:.1} M references, {plain:.3} s plain, {whole:.2} s traced, {:.1} M/s",
                references / 1e6,
                references / whole / 1e6
            ),
            value: 1e9 * whole / references,
            bound: bound(program.is_fast, NANOSECONDS),
            unit: "ns",
        },
    ]
}
