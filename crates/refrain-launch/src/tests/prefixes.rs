//! Commands in front of the launcher, and what the options say about the ranks.

use super::*;

#[test]
fn prefix_commands_are_skipped_when_a_launcher_follows() {
    check(
        None,
        Launcher::Slurm,
        &[
            ("env A=B C= srun ./app", "env A=B C= srun W ./app"),
            ("env -i -u X -C /tmp A=B srun ./app", "env -i -u X -C /tmp A=B srun W ./app"),
            ("env - A=B srun ./app", "env - A=B srun W ./app"),
            ("time srun ./app", "time srun W ./app"),
            ("/usr/bin/time -v -o log srun ./app", "/usr/bin/time -v -o log srun W ./app"),
            ("nice srun ./app", "nice srun W ./app"),
            ("nice -n 5 srun ./app", "nice -n 5 srun W ./app"),
            ("nice -5 srun ./app", "nice -5 srun W ./app"),
            ("nice -n5 -- srun ./app", "nice -n5 -- srun W ./app"),
            ("timeout 10 srun ./app", "timeout 10 srun W ./app"),
            ("timeout -k 5 -s INT 10m srun ./app", "timeout -k 5 -s INT 10m srun W ./app"),
            (
                "timeout --foreground --signal=9 1 srun ./app",
                "timeout --foreground --signal=9 1 srun W ./app",
            ),
            ("taskset -c 0-3 srun ./app", "taskset -c 0-3 srun W ./app"),
            ("taskset : srun ./a : ./b", "taskset : srun W ./a : W ./b"),
            ("taskset 0xff srun ./app", "taskset 0xff srun W ./app"),
            ("stdbuf -oL -e 0 srun ./app", "stdbuf -oL -e 0 srun W ./app"),
            ("nohup srun ./app", "nohup srun W ./app"),
            ("setsid -w srun ./app", "setsid -w srun W ./app"),
            ("numactl --membind=0 -N 1 -l srun ./app", "numactl --membind=0 -N 1 -l srun W ./app"),
            (
                "nohup nice env A=B timeout 9 srun ./app",
                "nohup nice env A=B timeout 9 srun W ./app",
            ),
        ],
    );
}

#[test]
fn a_prefix_without_a_launcher_belongs_to_a_bare_command() {
    check(
        None,
        Launcher::Bare,
        &[
            ("env A=B ./app", "W env A=B ./app"),
            ("nice -n 5 ./app mpirun", "W nice -n 5 ./app mpirun"),
            ("timeout 10", "W timeout 10"),
            ("timeout", "W timeout"),
            ("timeout --odd 10 srun ./app", "W timeout --odd 10 srun ./app"),
            ("env -S srun ./app", "W env -S srun ./app"),
            ("env -u", "W env -u"),
            ("env", "W env"),
        ],
    );
}

#[test]
fn the_number_of_ranks_is_read_where_it_is_given() {
    let examples = [
        (Flavour::Hydra, "mpirun -n 4 ./app -n 9", Some(4)),
        (Flavour::Hydra, "mpirun --np=4 ./app", Some(4)),
        (Flavour::Hydra, "mpirun -n 2 ./a : -np 3 ./b", Some(5)),
        (Flavour::Hydra, "mpirun -n 2 ./a : ./b", None),
        (Flavour::Hydra, "mpirun ./app", None),
        (Flavour::OpenMpi4, "mpirun -c 4 ./app", Some(4)),
        (Flavour::OpenMpi5, "mpirun --n 4 ./app", Some(4)),
        (Flavour::OpenMpi5, "mpirun -N 4 ./app", None),
        (Flavour::Hydra, "srun -ln4 ./app", Some(4)),
        (Flavour::Hydra, "srun --ntasks=4 ./app", Some(4)),
        (Flavour::Hydra, "srun --ntasks 4 ./app", Some(4)),
        (Flavour::Hydra, "flux run -n 4 ./app", Some(4)),
        (Flavour::Hydra, "mpirun -n many ./app", None),
        (Flavour::Hydra, "./app", Some(1)),
    ];
    for (flavour, command, ranks) in examples {
        assert_eq!(parse_as(flavour, command).unwrap().ranks(), ranks, "{command}");
    }
}

#[test]
fn the_programs_directory_is_read_where_it_is_given() {
    let directories = |command: &str| -> Vec<Option<String>> {
        let plan = parse_as(Flavour::Hydra, command).unwrap();
        let text = |d: OsString| d.into_string().unwrap();
        plan.programs.into_iter().map(|p| p.directory.map(text)).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(directories("mpirun -wdir d ./a : ./b"), [some("d"), None]);
    assert_eq!(directories("mpirun -gwdir g -wdir d ./a : ./b"), [some("d"), some("g")]);
    assert_eq!(directories("mpirun.openmpi --wd d ./a"), [some("d")]);
    assert_eq!(directories("srun -D d ./a : --chdir=e ./b"), [some("d"), some("e")]);
    assert_eq!(directories("flux run --cwd=d ./a"), [some("d")]);
    let plan = parse_as(Flavour::Hydra, "env -C d mpirun ./a").unwrap();
    assert_eq!(plan.start_directory, Some("d".into()));
}

#[test]
fn a_preload_that_the_user_sets_is_noticed() {
    let passing = [
        (Flavour::OpenMpi4, "mpirun -x LD_PRELOAD ./app"),
        (Flavour::OpenMpi5, "mpirun -x LD_PRELOAD=/x.so ./app"),
        (Flavour::OpenMpi5, "mpirun --prepend-env LD_PRELOAD /x.so ./app"),
        (Flavour::Hydra, "mpirun -genv LD_PRELOAD /x.so ./app"),
        (Flavour::Hydra, "mpirun -env LD_PRELOAD=/x.so ./app"),
        (Flavour::Hydra, "mpirun -genvlist A,LD_PRELOAD ./app"),
        (Flavour::Hydra, "mpirun ./a : -env LD_PRELOAD x ./b"),
        (Flavour::Hydra, "srun --export=ALL,LD_PRELOAD=x ./app"),
        (Flavour::Hydra, "flux run --env LD_PRELOAD=x ./app"),
        (Flavour::Hydra, "env LD_PRELOAD=x mpirun ./app"),
    ];
    for (flavour, command) in passing {
        assert!(parse_as(flavour, command).unwrap().passes_preload, "{command}");
    }
    let not_passing = [
        (Flavour::OpenMpi4, "mpirun -x LD_PRELOADS ./app"),
        (Flavour::OpenMpi4, "mpirun -n 1 ./app -x LD_PRELOAD"),
        (Flavour::Hydra, "mpirun -genv A LD_PRELOAD ./app"),
        (Flavour::Hydra, "./app LD_PRELOAD=x"),
    ];
    for (flavour, command) in not_passing {
        assert!(!parse_as(flavour, command).unwrap().passes_preload, "{command}");
    }
}
