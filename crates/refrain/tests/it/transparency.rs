//! The agent changes nothing that the program can observe.
//!
//! Each victim in `tests/victims` that is run here is one hazard, which its first comment describes.
//! It runs without and with Refrain, and must print the same lines (in any order, since ranks
//! interleave) and end with the same code. A victim prints only what is the same in every run, in
//! lines that start with `> ` (`say.h`). The tests also check that the trace can be read and has calls
//! of every rank: an agent that does nothing would change nothing.
//!
//! Where the hazard hardly depends on the MPI, two MPIs represent all, one of each family, and other two for
//! the next victim. `REFRAIN_TEST_FULL=1` runs everything under every MPI.

use refrain_testing::{
    Family, Mpi, Outcome, Run, SmallFileSystem, is_full, refrain, refrain_binary, sorted_lines,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Links the program to libmpi only if it refers to it.
const WITHOUT_MPI: &[&str] = &["-Wl,--as-needed", "-ldl"];

/// Makes a shared object instead of a program.
const SHARED: &[&str] = &["-shared", "-fPIC", "-ldl"];

const THREADS: &[&str] = &["-pthread"];

/// How the program ends when it is not traced. It must end in the same way when it is traced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With exit code 0.
    Good,
    /// With another one.
    Bad,
    /// With a code that depends on the MPI.
    Either,
}

/// What a trace must have in it.
#[derive(Clone, Copy)]
enum Trace {
    /// Calls of every rank, among them calls of this function.
    Has(&'static str),
    /// There is no trace: the program does not call MPI, or bypasses the agent.
    None,
}

/// A program and how it is run.
struct Victim {
    file: &'static str,
    ranks: usize,
    flags: &'static [&'static str],
    end: End,
    trace: Trace,
    /// Under every MPI, whether or not the long tests were asked for.
    everywhere: bool,
    /// MPIs that cannot run it, by the beginning of their names.
    not_under: &'static [&'static str],
}

impl Victim {
    fn new(file: &'static str, ranks: usize) -> Victim {
        Victim {
            file,
            ranks,
            flags: &[],
            end: End::Good,
            trace: Trace::Has("MPI_Init"),
            everywhere: false,
            not_under: &[],
        }
    }

    fn flags(self, flags: &'static [&'static str]) -> Victim {
        Victim { flags, ..self }
    }

    fn end(self, end: End) -> Victim {
        Victim { end, ..self }
    }

    fn trace(self, trace: Trace) -> Victim {
        Victim { trace, ..self }
    }

    fn everywhere(self) -> Victim {
        Victim { everywhere: true, ..self }
    }

    /// Excludes some MPIs. `why` is not used by the test.
    fn not_under(self, not_under: &'static [&'static str], why: &str) -> Victim {
        assert!(!why.is_empty());
        Victim { not_under, ..self }
    }

    /// Runs it without arguments.
    fn check(&self) {
        self.check_with(&[]);
    }

    /// Runs it with these arguments.
    fn check_with(&self, args: &[&str]) {
        for mpi in self.mpis() {
            let program = mpi.compile_with(self.file, self.flags);
            self.compare(&mpi, &format!("{args:?}"), |run| run.program(&program).args(args));
        }
    }

    fn mpis(&self) -> Vec<Mpi> {
        let able = |mpi: &Mpi| !self.not_under.iter().any(|name| mpi.name().starts_with(name));
        let able: Vec<Mpi> = Mpi::installed().into_iter().filter(able).collect();
        assert!(!able.is_empty(), "no MPI here can run {}", self.file);
        if self.everywhere || is_full() {
            return able;
        }
        let one_of = |family| {
            let made: Vec<&Mpi> = able.iter().filter(|mpi| mpi.family() == family).collect();
            made.get(self.file.len() % made.len().max(1)).copied().cloned()
        };
        let chosen: Vec<Mpi> =
            [Family::Mpich, Family::OpenMpi].into_iter().filter_map(one_of).collect();
        if chosen.is_empty() { able } else { chosen }
    }

    /// Runs it without and with Refrain, and compares. Returns the trace, in its folder.
    fn compare(&self, mpi: &Mpi, how: &str, describe: impl Fn(Run) -> Run) -> (TempDir, PathBuf) {
        let who = format!("{} {how} under {}", self.file, mpi.name());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("victim.refrain");
        let run = || describe(mpi.run(self.ranks).timeout(Duration::from_secs(60)));
        let mut plain = run().output_once();
        let mut traced = run().trace_to(Some(&file)).output();
        if said(&plain) != said(&traced) || plain.code != traced.code {
            // The stored outcome of the plain run may have been disturbed.
            plain = run().output_anew();
        }
        if plain.code != traced.code {
            // Hydra kills the other ranks of one that dies, and reports the status that it collects first.
            let _ = std::fs::remove_file(&file);
            traced = run().trace_to(Some(&file)).output();
        }
        assert_same(&who, &plain, &traced);
        match self.end {
            End::Good => assert_eq!(plain.code, 0, "{who}\n{plain}"),
            End::Bad => assert_ne!(plain.code, 0, "{who}\n{plain}"),
            End::Either => {}
        }
        match self.trace {
            Trace::Has(function) => assert_recorded(&who, &file, self.ranks, function, &traced),
            Trace::None => assert!(!file.exists(), "{who}: what is in the trace?\n{traced}"),
        }
        (folder, file)
    }
}

/// The lines of the victim, sorted.
fn said(outcome: &Outcome) -> Vec<&str> {
    sorted_lines(&outcome.stdout).into_iter().filter(|line| line.starts_with("> ")).collect()
}

fn assert_same(who: &str, plain: &Outcome, traced: &Outcome) {
    assert!(!plain.timed_out, "{who}: the victim itself hangs\n{plain}");
    assert!(!said(plain).is_empty(), "{who}: the victim says nothing\n{plain}");
    assert!(!traced.timed_out, "{who}: hangs when traced\n{traced}");
    assert_eq!(said(plain), said(traced), "{who}\n{traced}");
    assert_eq!(plain.code, traced.code, "{who}: exit code\n{plain}\n{traced}");
    assert!(!traced.stderr.contains("panicked"), "{who}: the agent panicked\n{traced}");
}

/// Asserts that the trace exists, can be read, and has calls of every rank.
fn assert_recorded(who: &str, file: &Path, ranks: usize, function: &str, traced: &Outcome) {
    assert!(file.is_file(), "{who}: no trace\n{traced}");
    for rank in 0..ranks {
        let rank = rank.to_string();
        let calls = shown(file, &["--rank", &rank, "--limit", "5"]);
        assert!(!calls.is_empty(), "{who}: no calls of rank {rank}\n{traced}");
    }
    let calls = shown(file, &["--function", function, "--limit", "1"]);
    assert!(!calls.is_empty(), "{who}: no call of {function}\n{traced}");
}

/// The lines that `refrain show` prints.
fn shown(file: &Path, options: &[&str]) -> Vec<String> {
    let mut args = vec!["show", file.to_str().expect("a plain path")];
    args.extend(options);
    refrain(args).expect_success().stdout.lines().map(str::to_owned).collect()
}

// Results: error codes, statuses, callbacks.

#[test]
fn a_truncated_message_gives_the_same_errors_and_statuses() {
    Victim::new("truncation.c", 2).everywhere().check();
}

#[test]
#[ignore = "MPICH from 4.2 on and Open MPI 5.0 treat an error in Waitall differently with and \
            without statuses, and the agent must have statuses to know what wildcards matched"]
fn a_truncated_message_in_waitall_with_ignored_statuses_gives_the_same_error() {
    Victim::new("truncation.c", 2).everywhere().check_with(&["all ignored"]);
}

#[test]
fn invalid_arguments_give_the_same_errors_and_call_the_handler_as_often() {
    Victim::new("invalid_arguments.c", 1).everywhere().check();
}

#[test]
fn error_codes_that_mpi_does_not_know_pass_through_untouched() {
    Victim::new("odd_error_codes.c", 1).everywhere().check();
}

#[test]
fn statuses_hold_what_mpi_wrote_and_nothing_else() {
    Victim::new("statuses.c", 2).everywhere().check();
}

#[test]
fn ignored_statuses_of_wildcard_receives_change_nothing() {
    Victim::new("ignored_statuses.c", 3).everywhere().check();
}

#[test]
fn cancelled_receives_with_ignored_statuses_change_nothing() {
    Victim::new("cancelled_receives.c", 2).everywhere().check();
}

#[test]
fn callbacks_that_call_mpi_are_recorded_and_not_changed() {
    for flags in [&[][..], &["-no-pie", "-O0"]] {
        let victim = Victim::new("callbacks.c", 2).flags(flags).everywhere();
        for mpi in victim.mpis() {
            let program = mpi.compile_with(victim.file, flags);
            let (_folder, trace) = victim.compare(&mpi, "", |run| run.program(&program));
            let who = format!("{flags:?} under {}", mpi.name());
            let count = |function| shown(&trace, &["--function", function]).len();
            // One from each callback that calls it last.
            for function in ["Type_size", "Comm_test_inter", "Status_set_elements"] {
                assert!(count(function) > 0, "{who}: no {function} of a callback");
            }
            // On each rank, one call is made when the request is cancelled, and one by the program itself.
            assert_eq!(count("Grequest_complete"), 4, "{who}");
        }
    }
}

#[test]
fn calls_three_hundred_deep_are_not_changed() {
    Victim::new("recursion.c", 2).check();
}

#[test]
fn arguments_of_any_size_are_passed_on() {
    Victim::new("large_arguments.c", 1).check();
}

// The beginning and the end.

#[test]
fn calls_before_init_and_after_finalize_are_allowed() {
    Victim::new("outside_init.c", 2).flags(THREADS).everywhere().check();
}

#[test]
fn the_tools_interface_works_before_init_and_after_finalize() {
    let has = Trace::Has("MPI_T_cvar_get_index");
    Victim::new("tools_interface.c", 1).trace(has).everywhere().check();
}

#[test]
fn sessions_without_init_work() {
    Victim::new("sessions.c", 2)
        .trace(Trace::Has("MPI_Session_init"))
        .not_under(&["openmpi-4", "path"], "it has no sessions")
        .everywhere()
        .check();
}

#[test]
fn receives_that_are_pending_at_finalize_do_no_harm() {
    let victim = Victim::new("pending_at_finalize.c", 2).everywhere();
    victim.check();
    victim.check_with(&["leave"]);
}

#[test]
fn callbacks_can_communicate_in_finalize() {
    Victim::new("callbacks_in_finalize.c", 3).everywhere().check();
}

#[test]
fn init_and_finalize_in_static_constructors_and_destructors_work() {
    Victim::new("finalize_at_exit.cpp", 2).everywhere().check();
}

#[test]
fn a_program_that_aborts_ends_with_its_own_code() {
    let victim = Victim::new("leaves_early.c", 2).end(End::Bad);
    Victim { trace: Trace::Has("MPI_Abort"), ..victim }.everywhere().check_with(&["abort"]);
    let victim = Victim::new("leaves_early.c", 2).end(End::Bad);
    victim.check_with(&["abort on self"]);
    victim.check_with(&["error"]);
}

#[test]
fn a_program_that_exits_without_finalize_ends_with_its_own_code() {
    let victim = Victim::new("leaves_early.c", 2).end(End::Bad);
    for way in ["exit", "_exit", "quick_exit", "return"] {
        victim.check_with(&[way]);
    }
    // Open MPI treats it as a failure.
    victim.end(End::Either).check_with(&["return 0"]);
}

#[test]
fn a_program_that_dies_of_a_signal_dies_of_the_same_signal() {
    let victim = Victim::new("leaves_early.c", 2).end(End::Bad);
    for way in ["segfault", "segfault inside", "SIGTERM", "SIGKILL", "abort()"] {
        victim.check_with(&[way]);
    }
}

// Leaving a call without returning from it.

#[test]
fn an_exception_out_of_an_error_handler_reaches_its_catch() {
    Victim::new("exception.cpp", 2).everywhere().check();
}

#[test]
fn a_longjmp_out_of_an_error_handler_leaves_the_program_as_it_was() {
    Victim::new("longjmp.c", 2).everywhere().check();
}

#[test]
fn freed_stacks_of_coroutines_are_not_accessed() {
    Victim::new("user_stacks.c", 2).everywhere().check();
}

#[test]
fn a_cancelled_thread_ends_at_the_same_point() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("cancelled_threads.c", 2).flags(THREADS).trace(has).everywhere().check();
}

// Threads.

#[test]
fn eight_threads_on_each_of_four_ranks_communicate() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("threads.c", 4).flags(THREADS).trace(has).check();
}

#[test]
fn two_hundred_threads_start_and_end() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("short_threads.c", 2).flags(THREADS).trace(has).check();
}

#[test]
fn destructors_of_thread_local_data_may_call_mpi() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("thread_destructors.cpp", 2).flags(THREADS).trace(has).check();
}

#[test]
fn the_agent_fits_on_the_smallest_stacks() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("tiny_stacks.c", 2).flags(THREADS).trace(has).check();
}

// Signals.

#[test]
fn signals_at_any_moment_do_not_disturb_a_call() {
    Victim::new("timer.c", 2).everywhere().check();
}

#[test]
fn a_program_that_handles_page_faults_handles_those_of_the_agent() {
    Victim::new("fault_handler.c", 2).everywhere().check();
}

#[test]
fn signal_handlers_masks_and_stacks_are_as_the_program_left_them() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("signal_settings.c", 2).flags(THREADS).trace(has).check();
}

// Processes and what belongs to them.

#[test]
fn child_processes_of_every_kind_are_not_disturbed() {
    Victim::new("children.c", 2).check();
}

#[test]
fn processes_that_mpi_spawns_communicate_with_their_parents() {
    Victim::new("spawned.c", 2)
        .not_under(&["mpich-4"], "it cannot spawn on this machine")
        .everywhere()
        .check();
}

#[test]
fn a_program_that_replaces_itself_is_recorded_as_what_it_became() {
    Victim::new("replaces_itself.c", 2).check();
}

#[test]
fn file_descriptors_stay_the_same() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("descriptors.c", 2).flags(THREADS).trace(has).check();
}

#[test]
fn errno_and_dlerror_are_preserved() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("errno_kept.c", 2).flags(&["-pthread", "-ldl"]).trace(has).check();
}

#[test]
fn a_changed_environment_directory_and_umask_do_not_matter() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("environment.c", 2).flags(THREADS).trace(has).check();
}

#[test]
fn a_program_that_drops_its_privileges_continues() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("drops_privileges.c", 2).flags(THREADS).trace(has).check();
}

#[test]
fn limits_on_files_sizes_and_memory_stop_the_log_and_not_the_program() {
    let has = Trace::Has("MPI_Init_thread");
    let victim = Victim::new("limits.c", 2).flags(THREADS).trace(has);
    for limit in ["files", "file size", "file size, unhandled", "memory"] {
        victim.check_with(&[limit]);
    }
}

#[test]
fn a_limit_on_file_sizes_holds_on_every_kind_of_file_system() {
    let victim = Victim::new("limits.c", 2).flags(THREADS);
    for mpi in victim.mpis() {
        let program = mpi.compile_with(victim.file, victim.flags);
        let plain = mpi.run(2).program(&program).args(["file size, unhandled"]).output_once();
        // In memory, where reserving blocks also counts against the limit, and on disk.
        for place in ["/dev/shm", "/tmp", "/var/tmp"] {
            let Ok(parts) = tempfile::tempdir_in(place) else { continue };
            let run = with_parts_in(parts.path(), &program)(mpi.run(2));
            let traced = run.args(["file size, unhandled"]).output();
            assert_same(&format!("parts in {place} under {}", mpi.name()), &plain, &traced);
        }
    }
}

#[test]
fn sixty_four_ranks_run() {
    Victim::new("many_ranks.c", 64).check();
}

// Where the log goes.

/// Runs the program with its ranks' parts in that folder; the parts are not collected.
fn with_parts_in(folder: &Path, program: &Path) -> impl Fn(Run) -> Run {
    let agent = refrain_binary().with_file_name("librefrain_agent.so");
    let mut args: Vec<PathBuf> = ["__rank", "--agent"].map(PathBuf::from).into();
    args.extend([agent, "--parts".into(), folder.into(), "--".into(), program.into()]);
    move |run| run.program(refrain_binary()).args(&args)
}

#[test]
fn a_folder_that_is_removed_ends_the_log_and_not_the_program() {
    let victim = Victim::new("loses_folder.c", 2).flags(THREADS);
    for mpi in victim.mpis() {
        let program = mpi.compile_with(victim.file, victim.flags);
        let outer = tempfile::tempdir().expect("a temporary folder");
        let parts = outer.path().join("parts");
        std::fs::create_dir(&parts).expect("a new folder");
        let plain = mpi.run(2).program(&program).output();
        let traced = with_parts_in(&parts, &program)(mpi.run(2)).args([&parts]).output();
        assert_same(mpi.name(), &plain, &traced);
        assert!(!parts.exists(), "the victim removes it\n{traced}");
    }
}

#[test]
fn a_full_file_system_ends_the_log_and_not_the_program() {
    let victim = Victim::new("calls_much.c", 2);
    for mpi in victim.mpis() {
        // Space for almost nothing, for one of two windows, for both windows and little more.
        for bytes in [4 << 10, 400 << 10, 1 << 20] {
            let Some(small) = SmallFileSystem::new(bytes) else { return };
            let who = format!("{bytes} bytes under {}", mpi.name());
            let program = mpi.compile(victim.file);
            let plain = mpi.run(2).program(&program).output_once();
            let traced = with_parts_in(small.path(), &program)(mpi.run(2)).output();
            assert_same(&who, &plain, &traced);
            if bytes < 1 << 20 {
                continue;
            }
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("victim.refrain");
            let merge = ["merge".as_ref(), small.path().as_os_str(), "-o".as_ref(), file.as_ref()];
            refrain(merge).expect_success();
            assert_recorded(&who, &file, 2, "MPI_Comm_size", &traced);
        }
    }
}

// Libraries: MPI opened late, other tools.

#[test]
fn calls_of_an_mpi_that_is_opened_with_dlopen_bypass_the_agent() {
    Victim::new("opened_mpi.c", 2).flags(WITHOUT_MPI).trace(Trace::None).everywhere().check();
}

#[test]
fn an_mpi_that_comes_with_a_plugin_is_found() {
    let victim = Victim::new("plugin_host.c", 2).flags(WITHOUT_MPI).everywhere();
    for mpi in victim.mpis() {
        let program = mpi.compile_with(victim.file, victim.flags);
        let plugin = mpi.compile_with("plugin.c", SHARED);
        for how in [&[][..], &["probe"]] {
            let how_said = format!("{how:?}");
            victim.compare(&mpi, &how_said, |run| run.program(&program).args([&plugin]).args(how));
        }
    }
}

#[test]
fn a_program_without_mpi_that_refers_to_it_weakly_finds_none() {
    let victim = Victim::new("weak_references.c", 1).flags(WITHOUT_MPI);
    victim.trace(Trace::None).check();
}

#[test]
fn a_program_with_mpi_functions_of_its_own_keeps_them() {
    Victim::new("own_wrappers.c", 2).check();
}

/// Runs a victim with a tool before the agent and after it, and passes the traces of both to `look`.
fn check_tool(victim: &Victim, tool: &'static str, look: impl Fn(&Path, bool)) {
    for mpi in victim.mpis() {
        let program = mpi.compile(victim.file);
        let tool = mpi.compile_with(tool, SHARED);
        for is_behind in [false, true] {
            let script = match is_behind {
                false => r#"LD_PRELOAD="$0:$LD_PRELOAD" exec "$1""#,
                true => r#"LD_PRELOAD="$LD_PRELOAD:$0" exec "$1""#,
            };
            let how =
                format!("with {} {}", tool.display(), if is_behind { "behind" } else { "before" });
            let (_folder, trace) = victim.compare(&mpi, &how, |run| {
                run.program("sh").args(["-c", script]).args([&tool, &program])
            });
            look(&trace, is_behind);
        }
    }
}

#[test]
fn a_profiling_library_before_or_after_the_agent_sees_the_same_calls() {
    let victim = Victim::new("tooled.c", 2).everywhere();
    check_tool(&victim, "tool_profiler.c", |trace, is_behind| {
        let count = |function| shown(trace, &["--function", function]).len();
        assert_eq!(count("Send"), 10);
        // Calls of a tool before the agent reach the agent. Calls of a tool after it do not.
        assert_eq!(count("Allreduce"), if is_behind { 20 } else { 40 });
        assert_eq!(count("Comm_dup"), if is_behind { 0 } else { 20 });
    });
}

#[test]
fn a_tool_that_looks_for_the_next_function_finds_it() {
    let victim = Victim::new("tooled.c", 2).everywhere();
    check_tool(&victim, "tool_next.c", |trace, _| {
        assert_eq!(shown(trace, &["--function", "Send"]).len(), 10);
        assert_eq!(shown(trace, &["--function", "Allreduce"]).len(), 20);
    });
}

#[test]
fn pcontrol_reaches_a_tool_with_all_its_arguments() {
    let victim = Victim::new("pcontrol.c", 1).everywhere();
    check_tool(&victim, "tool_pcontrol.c", |trace, is_behind| {
        // The tool passes each call on, with the level alone.
        assert_eq!(shown(trace, &["--function", "Pcontrol"]).len(), 7, "behind: {is_behind}");
    });
}

// Memory.

#[test]
fn threads_can_allocate_and_free() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("allocations.c", 2).flags(THREADS).trace(has).everywhere().check();
}

#[test]
fn a_program_with_its_own_allocator_keeps_it() {
    for flags in [&[][..], &["-DPARTLY"]] {
        Victim::new("own_allocator.c", 2).flags(flags).check();
    }
}

#[test]
fn forked_children_can_allocate_and_free() {
    Victim::new("fork_and_allocate.c", 2).flags(THREADS).check();
}

#[test]
fn buffers_in_memory_of_every_kind_are_not_changed() {
    let has = Trace::Has("MPI_Init_thread");
    Victim::new("buffers.c", 2).flags(&["-pthread", "-ldl"]).trace(has).everywhere().check();
}

#[test]
fn functions_of_absent_gpu_libraries_are_not_found() {
    Victim::new("device_buffers.c", 1).flags(&["-DABSENT", "-ldl"]).check();
}

#[test]
fn functions_of_present_gpu_libraries_work() {
    let victim = Victim::new("device_buffers.c", 1);
    for mpi in victim.mpis() {
        let library = mpi.compile_with("fake_cudart.c", SHARED);
        let library = library.to_str().expect("a plain path");
        let flags = ["-Wl,--no-as-needed", library, "-ldl"];
        let program = mpi.compile_with(victim.file, &flags);
        victim.compare(&mpi, "", |run| run.program(&program).reads(library));
    }
}

#[test]
fn programs_that_switch_recording_work() {
    Victim::new("switches.c", 2).everywhere().check();
}

#[test]
fn communicators_created_in_every_way_have_the_same_members() {
    Victim::new("communicators.c", 3).everywhere().check();
}

#[test]
fn call_stacks_are_walked_without_harm() {
    // Through signal handlers, coroutines, callbacks, jumps and the smallest stacks.
    let victims = [
        Victim::new("callbacks.c", 2),
        Victim::new("exception.cpp", 2),
        Victim::new("longjmp.c", 2),
        Victim::new("user_stacks.c", 2),
        Victim::new("timer.c", 2),
        Victim::new("tiny_stacks.c", 2).flags(THREADS).trace(Trace::Has("MPI_Init_thread")),
    ];
    for victim in victims {
        for mpi in victim.mpis() {
            let program = mpi.compile_with(victim.file, victim.flags);
            victim.compare(&mpi, "with stacks", |run| {
                run.program(&program).env("REFRAIN_CALLSITE", "stack:16")
            });
        }
    }
}
