#!/usr/bin/env python3
"""Runs `refrain check` on the MPI Bugs Initiative's programs, and says what it found and missed.

    scripts/mbi.py [--mpi NAME] [--sample N] [--seed N] [--only TEXT] [--jobs N] [--seconds N]
                   [--fresh] [--failures] [--json] [--table FILE]

The generators of the programs are in the source distribution of SimGrid 4.1 on PyPI (GPL). They are fetched to
target/mbi, and nothing of them is part of Refrain. Each program says in its first lines how it is run, and which error
it has. The programs are compiled and traced once; later runs check the traces again (--fresh traces anew).

A run is a *hit* if the program has an error and at least one finding is about it, a *miss* if there is none, and a
*false alarm* if the program has no error and there is a finding. `class` counts hits with the expected class, `line`
hits that name a line that the program marks with MBIERROR (or that its label names).
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOME = os.path.join(ROOT, "target", "mbi")
REFRAIN = os.environ.get("REFRAIN", os.path.join(ROOT, "target", "release", "refrain"))
CHECKER = os.environ.get("REFRAIN_CHECKER", REFRAIN)
SOURCE = "simgrid-4.1"
# Seconds after which a run is ended. The programs take a tenth of one; some hang in ways that `where` is not sure of.
LONGEST = 6

# The findings that are the right class for a label.
CLASSES = {
    "CallMatching": ["deadlock", "potential-deadlock", "collective-order", "unmatched-send", "unmatched-receive"],
    "IHCallMatching": ["deadlock", "collective-order"],
    "BufferingHazard": ["potential-deadlock", "deadlock"],
    "MessageRace": ["message-race", "deadlock", "potential-deadlock"],
    "CommunicatorMatching": ["communicator-mismatch", "collective-order", "deadlock", "unmatched-send"],
    "DatatypeMatching": ["datatype-mismatch"],
    "OperatorMatching": ["operation-mismatch"],
    "RootMatching": ["root-mismatch"],
    "TagMatching": ["tag-mismatch", "deadlock", "unmatched-send"],
    "InvalidBuffer": ["invalid-argument", "buffer-overlap", "rma-range"],
    "InvalidCommunicator": ["invalid-handle", "invalid-argument"],
    "InvalidDatatype": ["invalid-handle", "invalid-argument"],
    "InvalidOperator": ["invalid-handle", "invalid-argument"],
    "InvalidOtherArg": ["invalid-argument"],
    "InvalidRoot": ["invalid-argument"],
    "InvalidSrcDest": ["invalid-argument"],
    "InvalidTag": ["invalid-argument"],
    "MissingWait": ["request-leak"],
    "MissingStart": ["never-started"],
    "RequestLeak": ["request-leak"],
    "CommunicatorLeak": ["object-leak"],
    "GroupLeak": ["object-leak"],
    "OperatorLeak": ["object-leak"],
    "TypeLeak": ["object-leak"],
    "MissingEpoch": ["rma-epoch"],
    "DoubleEpoch": ["rma-epoch"],
    "LocalConcurrency": ["buffer-overlap", "rma-conflict"],
    "GlobalConcurrency": ["rma-conflict", "buffer-overlap"],
}


def generate():
    """The folder with the programs; generated when it is first needed."""
    programs = os.path.join(HOME, "programs")
    if os.path.isdir(programs):
        return programs
    os.makedirs(HOME, exist_ok=True)
    archive = os.path.join(HOME, SOURCE + ".tar.gz")
    if not os.path.exists(archive):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", HOME, SOURCE.replace("-", "==")]
        subprocess.run(command, check=True)
    generators = f"{SOURCE}/teshsuite/smpi/MBI/"
    with tarfile.open(archive) as tar:
        tar.extractall(HOME, [m for m in tar.getmembers() if m.name.startswith(generators)], filter="data")
    new = programs + ".new"
    os.makedirs(new, exist_ok=True)
    for generator in sorted(glob.glob(os.path.join(HOME, generators, "*Generator.py"))):
        subprocess.run([sys.executable, generator], cwd=new, check=True, stdout=subprocess.DEVNULL)
    os.rename(new, programs)
    return programs


def labels(path):
    """The runs that a program's header asks for: number, command, expected error (or None), message, lines."""
    with open(path) as file:
        lines = file.read().split("\n")
    marked = {n for n, line in enumerate(lines, 1) if "MBIERROR" in line}
    runs = []
    for at, line in enumerate(lines):
        found = re.match(r"\s+\$ ?(mpirun.*)", line)
        if "END_MBI_TESTS" in line:
            break
        if not found:
            continue
        error = re.match(r"[ |]*ERROR: *(\w+)", lines[at + 1])
        message = lines[at + 2].strip(" |")
        named = {int(n) for n in re.findall(r"(?:\.c:|line )(\d+)", message)}
        runs.append({
            "program": os.path.basename(path)[:-2],
            "number": len(runs),
            "command": found.group(1),
            "error": error.group(1) if error else None,
            "message": message,
            "lines": sorted(marked | named) if error else [],
        })
    return runs


class Bench:
    def __init__(self, args, programs):
        self.args, self.programs = args, programs
        self.folder = os.path.join(HOME, args.mpi)
        os.makedirs(self.folder, exist_ok=True)
        self.mpi = [os.path.join(ROOT, "scripts", "mpi"), args.mpi]
        # Open MPI's windows over UCX need messages over UCX, too, which scripts/mpi does not choose.
        os.environ.setdefault("OMPI_MCA_osc", "^ucx")
        # Hung jobs end without a second of patience.
        os.environ.setdefault("OMPI_MCA_odls_base_sigkill_timeout", "0")
        self.ends = time.time() + args.seconds if args.seconds else None

    def stem(self, run):
        return os.path.join(self.folder, f"{run['program']}-{run['number']}")

    def compiled(self, run):
        binary = os.path.join(self.folder, run["program"])
        source = os.path.join(self.programs, run["program"] + ".c")
        if not os.path.exists(binary):
            # A leftover folder of a killed run must not pass for a program.
            new = f"{binary}.{os.getpid()}.{run['number']}.new"
            subprocess.run(self.mpi + ["mpicc", "-g", "-w", "-o", new, source], check=True)
            os.rename(new, binary)
        return binary

    def traced(self, run):
        """The trace of a run, or the parts that it left."""
        trace = self.stem(run) + ".refrain"
        for there in (trace, trace + ".parts"):
            if os.path.exists(there) and not self.args.fresh:
                return there
        if self.ends and time.time() > self.ends:
            return None
        words = run["command"].replace("$zero_buffer", "").replace("$infty_buffer", "").split()
        words = [self.compiled(run) if word == "${EXE}" else word for word in words]
        command = self.mpi + [REFRAIN, "trace", "--callsite", "return", "-o", trace, "--"] + words
        with open(self.stem(run) + ".out", "wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            begin, asked, stuck = time.time(), time.time(), 0
            while process.poll() is None:
                time.sleep(0.02)
                if time.time() - asked > 0.25:
                    # Ranks that are in calls for a moment only are not stuck twice.
                    stuck = stuck + 1 if self.is_stuck(trace + ".parts", words) else 0
                    asked = time.time()
                    if stuck == 2 or asked - begin > LONGEST:
                        subprocess.run(["pkill", "-TERM", "-P", str(process.pid)])
                        try:
                            process.wait(5)
                        except subprocess.TimeoutExpired:
                            process.send_signal(signal.SIGKILL)
                            process.wait()
        for there in (trace, trace + ".parts"):
            if os.path.exists(there):
                return there
        return ""

    def is_stuck(self, parts, words):
        result = subprocess.run([REFRAIN, "where", "--json", parts], capture_output=True, text=True)
        try:
            where = json.loads(result.stdout)
        except ValueError:
            return False
        ranks = int(words[words.index("-np") + 1])
        return len(where["stuck"]) >= min(ranks, 2)

    def checked(self, run):
        trace = self.traced(run)
        if trace is None:
            return None
        if trace == "":
            return {"run": run, "findings": [], "failed": "no trace"}
        options = ["--assume-buffering"] if "$infty_buffer" in run["command"] else []
        command = [CHECKER, "check", "--json"] + options + [trace]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode not in (0, 1):
            return {"run": run, "findings": [], "failed": result.stderr.strip()[-300:]}
        return {"run": run, "findings": json.loads(result.stdout)["findings"], "failed": None}


def verdict(result):
    run, findings = result["run"], result["findings"]
    if run["error"] is None:
        return "false alarm" if findings else "clean"
    return "hit" if findings else "miss"


def right_class(result):
    wanted = CLASSES[result["run"]["error"]]
    return any(f["class"] in wanted for f in result["findings"])


def right_line(result):
    wanted = result["run"]["lines"]
    source = result["run"]["program"] + ".c"
    for finding in result["findings"]:
        for place in finding["places"]:
            if place.get("line") in wanted and (place.get("file") or "").endswith(source):
                return True
    return False


def table(results):
    rows = collections.OrderedDict()
    order = sorted({r["run"]["error"] or "(no error)" for r in results})
    for label in order:
        rows[label] = collections.Counter()
    for result in results:
        row = rows[result["run"]["error"] or "(no error)"]
        row[verdict(result)] += 1
        row["all"] += 1
        if result["failed"]:
            row["failed"] += 1
        if verdict(result) == "hit":
            row["class"] += right_class(result)
            row["line"] += right_line(result)
    total = collections.Counter()
    for row in rows.values():
        total.update(row)
    rows["all"] = total
    text = [f"{'label':22}{'runs':>6}{'hit':>6}{'miss':>6}{'clean':>7}{'alarm':>7}{'class':>7}{'line':>6}{'failed':>8}"]
    for label, row in rows.items():
        numbers = [row["all"], row["hit"], row["miss"], row["clean"], row["false alarm"], row["class"], row["line"]]
        text.append(f"{label:22}{numbers[0]:6}{numbers[1]:6}{numbers[2]:6}{numbers[3]:7}{numbers[4]:7}"
                    f"{numbers[5]:7}{numbers[6]:6}{row['failed']:8}")
    errors = total["hit"] + total["miss"]
    share = lambda part, of: f"{100 * part / of:.1f} %" if of else "-"
    text.append(f"recall {share(total['hit'], errors)}, right class {share(total['class'], total['hit'])}, "
                f"right line {share(total['line'], total['hit'])}, false alarms {total['false alarm']}")
    return "\n".join(text), total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", default="mpich-4.0")
    parser.add_argument("--sample", type=int, help="so many runs, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="programs whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, help="trace no more programs after this time")
    parser.add_argument("--fresh", action="store_true", help="trace programs again")
    parser.add_argument("--failures", action="store_true", help="list misses, false alarms and wrong classes")
    parser.add_argument("--trace-only", action="store_true", help="trace, and check nothing")
    parser.add_argument("--json", action="store_true", help="print the totals as JSON")
    parser.add_argument("--generate", action="store_true", help="only fetch and generate the programs")
    parser.add_argument("--table", help="write the table to this file, too")
    args = parser.parse_args()
    programs = generate()
    if args.generate:
        return
    runs = [run for path in sorted(glob.glob(os.path.join(programs, "*.c"))) for run in labels(path)]
    if args.only:
        runs = [run for run in runs if re.search(args.only, run["program"])]
    if args.sample and args.sample < len(runs):
        runs = sorted(random.Random(args.seed).sample(runs, args.sample), key=lambda r: (r["program"], r["number"]))
    bench = Bench(args, programs)
    work = bench.traced if args.trace_only else bench.checked
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(work, runs))
    if args.trace_only:
        print(f"{sum(r is not None for r in results)} of {len(runs)} traced")
        return
    left = sum(result is None for result in results)
    results = [result for result in results if result is not None]
    if args.failures:
        for result in results:
            run, said = result["run"], verdict(result)
            if said in ("hit", "clean") and (said == "clean" or right_class(result) and right_line(result)):
                if not result["failed"]:
                    continue
            found = [(f["class"], [f"{p.get('line')}" for p in f["places"]]) for f in result["findings"]]
            print(f"{said:12}{run['program']}-{run['number']} {run['error']} {run['lines']}: "
                  f"{result['failed'] or ''} {found}")
    text, total = table(results)
    missed = collections.Counter(r["run"]["error"] for r in results if verdict(r) == "miss")
    print(json.dumps(dict(total, missed=missed)) if args.json else text)
    if left:
        print(f"{left} runs were not made: the time was over")
    if args.table:
        with open(args.table, "w") as file:
            file.write(text + "\n")
    sys.exit(1 if total["false alarm"] or total["failed"] else 0)


if __name__ == "__main__":
    main()
