//! Recognition of launchers.

use super::*;
use crate::{flavour_of_file, flavour_of_version_output, version_command};

#[test]
fn launchers_are_recognised_by_name_with_or_without_a_directory() {
    let names = [
        ("mpiexec.hydra", Launcher::Hydra),
        ("mpirun.mpich", Launcher::Hydra),
        ("mpirun.openmpi", Launcher::OpenMpi),
        ("mpiexec.openmpi", Launcher::OpenMpi),
        ("orterun", Launcher::OpenMpi),
        ("prterun", Launcher::OpenMpi),
        ("prun", Launcher::OpenMpi),
        ("srun", Launcher::Slurm),
        ("flux run", Launcher::Flux),
        ("mpirun", Launcher::Other),
        ("mpiexec", Launcher::Other),
        ("mpirun.fancy", Launcher::Other),
        ("mpiexec.fancy", Launcher::Other),
        ("mpirunner", Launcher::Bare),
        ("srun.sh", Launcher::Bare),
        ("flux", Launcher::Bare),
        ("flux start", Launcher::Bare),
    ];
    for (name, launcher) in names {
        for directory in ["", "/opt/mpi/bin/", "./", "../x/"] {
            let command = format!("{directory}{name} ./app");
            let plan = Plan::parse(words(&command), None).unwrap();
            assert_eq!(plan.launcher, launcher, "{command}");
        }
    }
}

#[test]
fn a_plain_mpirun_is_recognised_by_its_version_output() {
    let launcher = |flavour| parse_as(flavour, "mpirun ./app").unwrap().launcher;
    assert_eq!(launcher(Flavour::Hydra), Launcher::Hydra);
    assert_eq!(launcher(Flavour::OpenMpi4), Launcher::OpenMpi);
    assert_eq!(launcher(Flavour::OpenMpi5), Launcher::OpenMpi);
    // An unambiguous name takes precedence.
    let plan = parse_as(Flavour::OpenMpi5, "mpirun.mpich -genv A B ./app").unwrap();
    assert_eq!(plan.launcher, Launcher::Hydra);
}

#[test]
fn version_texts_determine_the_flavour() {
    let texts = [
        ("HYDRA build details:\n    Version:      4.0.2\n", Some(Flavour::Hydra)),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build", Some(Flavour::Hydra)),
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to", Some(Flavour::OpenMpi4)),
        ("mpirun (Open MPI) 1.10.7\n", Some(Flavour::OpenMpi4)),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs", Some(Flavour::OpenMpi4)),
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to", Some(Flavour::OpenMpi5)),
        ("mpiexec (Open MPI) 10.0.0a1", Some(Flavour::OpenMpi5)),
        ("prterun (PRRTE) 3.0.6", Some(Flavour::OpenMpi5)),
        ("mpiexec version 1.2.4 revision 5d", None),
        ("(Open MPI) soon", None),
        ("", None),
    ];
    for (text, flavour) in texts {
        assert_eq!(flavour_of_version_output(text), flavour, "{text}");
    }
}

#[test]
fn the_version_is_asked_for_only_if_the_name_is_ambiguous() {
    let examples = [
        ("mpirun -n 4 ./app", Some("mpirun --version")),
        ("/opt/bin/mpiexec ./app", Some("/opt/bin/mpiexec --version")),
        ("mpirun.openmpi ./app", Some("mpirun.openmpi --version")),
        ("env PATH=/x nice -n 5 mpirun ./app", Some("env PATH=/x mpirun --version")),
        ("timeout 5 mpirun ./app", Some("mpirun --version")),
        ("mpiexec.hydra ./app", None),
        ("orterun ./app", None),
        ("srun ./app", None),
        ("./app", None),
        ("nice ./app", None),
        ("", None),
    ];
    for (command, expected) in examples {
        assert_eq!(version_command(&words(command)), expected.map(words), "{command}");
    }
}

#[test]
fn the_target_of_a_link_determines_the_flavour() {
    let files = [
        ("/usr/bin/orterun", Some(Flavour::OpenMpi4)),
        ("/opt/openmpi/bin/prterun", Some(Flavour::OpenMpi5)),
        ("/usr/bin/mpiexec.hydra", Some(Flavour::Hydra)),
        ("/usr/bin/mpirun", None),
        ("/usr/bin/mpirun.openmpi", None),
        ("/usr/bin/srun", None),
        ("/usr/bin/app", None),
    ];
    for (file, flavour) in files {
        assert_eq!(flavour_of_file(file.as_ref()), flavour, "{file}");
    }
}
