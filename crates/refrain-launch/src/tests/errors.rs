//! Commands that are refused, and the messages.

use super::*;

fn message(flavour: Option<Flavour>, command: &str) -> String {
    match Plan::parse(words(command), flavour) {
        Err(error) => error.to_string(),
        Ok(plan) => panic!("`{command}` was understood as `{}`", wrapped(&plan)),
    }
}

#[test]
fn an_unknown_option_asks_for_the_marker() {
    assert_eq!(
        message(Some(Flavour::Hydra), "/opt/bin/mpirun -n 2 --weird 3 ./app"),
        "mpirun: unknown option `--weird`: Refrain cannot tell where the program begins; put `--` \
         before the program: refrain trace -- mpirun --weird … -- ./app",
    );
    let unknown = [
        (Flavour::Hydra, "mpirun -c 4 ./app"),
        (Flavour::Hydra, "mpirun -mca a b ./app"),
        (Flavour::Hydra, "mpirun -prepend-rank=1 ./app"),
        (Flavour::Hydra, "mpirun -l4 ./app"),
        (Flavour::Hydra, "mpirun - ./app"),
        (Flavour::OpenMpi4, "mpirun -genv A B ./app"),
        (Flavour::OpenMpi4, "mpirun -qz ./app"),
        (Flavour::OpenMpi5, "mpirun --display- map ./app"),
    ];
    for (flavour, command) in unknown {
        assert!(message(Some(flavour), command).contains("unknown option `-"), "{command}");
    }
    for command in ["srun -nodes ./app -@", "srun -n4 -@ ./app", "srun --odd ./app"] {
        // srun reads `-nodes` as `-n odes`, and so does Refrain.
        let understood = command.contains("-nodes");
        assert_eq!(Plan::parse(words(command), None).is_ok(), understood, "{command}");
    }
}

#[test]
fn an_option_that_versions_read_differently_is_unknown_without_the_version() {
    let command = "mpirun.openmpi --display-topo ./app ./b";
    assert!(message(None, command).contains("unknown option `--display-topo`"));
    let four = parse_as(Flavour::OpenMpi4, command).unwrap();
    assert_eq!(wrapped(&four), "mpirun.openmpi --display-topo W ./app ./b");
    let five = parse_as(Flavour::OpenMpi5, command).unwrap();
    assert_eq!(wrapped(&five), "mpirun.openmpi --display-topo ./app W ./b");
}

#[test]
fn an_mpirun_of_unknown_make_refuses_what_only_some_makes_know() {
    // HPE's mpiexec reads `-d 8` as a depth, Open MPI's as a flag and a program named `8`.
    assert!(message(None, "mpiexec -n 4 -d 8 ./app").contains("unknown option `-d`"));
    assert!(message(None, "mpiexec -genv A B ./app").contains("unknown option `-genv`"));
}

#[test]
fn a_launcher_known_only_by_name_asks_for_the_marker() {
    assert_eq!(
        message(None, "aprun -n 4 ./app"),
        "aprun: Refrain does not know the options of this launcher and cannot tell where the \
         program begins; put `--` before the program: refrain trace -- aprun … -- ./app",
    );
    assert!(message(None, "jsrun -n 4 ./app -n 2").starts_with("jsrun: "));
}

#[test]
fn a_command_without_a_program_is_refused() {
    assert_eq!(
        message(Some(Flavour::Hydra), "mpirun -n 4"),
        "mpirun: no program after the launcher's options: refrain trace -- mpirun … ./app",
    );
    let empty = [
        "mpirun",
        "mpirun :",
        "mpirun -n 4 --",
        "mpirun -n 2 ./a : -n 2",
        "mpirun -n 2 : ./a",
        "srun",
        "aprun -n 4 --",
    ];
    for command in empty {
        let error = Plan::parse(words(command), Some(Flavour::Hydra)).unwrap_err();
        assert!(matches!(error, LaunchError::NoProgram { .. }), "{command}: {error}");
    }
    assert_eq!(
        message(Some(Flavour::Hydra), "mpirun -genv A"),
        "mpirun: option `-genv` has no value, and no program follows",
    );
}

#[test]
fn programs_listed_in_a_file_are_refused_with_the_way_out() {
    assert_eq!(
        message(Some(Flavour::OpenMpi4), "mpirun --app jobs"),
        "mpirun: `--app` names the programs in a file, where Refrain cannot reach them; write \
         them on the command line instead: refrain trace -- mpirun -n 1 ./a : -n 2 ./b",
    );
    let in_files = [
        (Some(Flavour::Hydra), "mpirun -configfile jobs"),
        (Some(Flavour::OpenMpi5), "mpirun --app=jobs"),
        (None, "srun -n4 --multi-prog jobs"),
        (None, "srun --multi -n4 jobs"),
    ];
    for (flavour, command) in in_files {
        assert!(message(flavour, command).contains("in a file"), "{command}");
    }
}

#[test]
fn a_search_path_of_the_launchers_own_is_refused_where_it_matters() {
    assert_eq!(
        message(Some(Flavour::OpenMpi4), "mpirun --path /opt/bin -n 1 app"),
        "mpirun: `--path` says where to look for `app`, but does not say it to Refrain, which \
         starts the program; write the program with its directory",
    );
    let plan = parse_as(Flavour::Hydra, "mpirun -path /opt/bin -n 1 ./app").unwrap();
    assert_eq!(wrapped(&plan), "mpirun -path /opt/bin -n 1 W ./app");
}

#[test]
fn nothing_at_all_is_refused() {
    for command in ["", "--"] {
        assert_eq!(
            message(None, command),
            "no command given; put it after `--`: refrain trace -- mpirun -n 4 ./app",
        );
    }
}
