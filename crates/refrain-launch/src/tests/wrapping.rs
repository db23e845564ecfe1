//! Where the wrapper goes.

use super::*;

#[test]
fn hydra_options_are_skipped() {
    check(
        Some(Flavour::Hydra),
        Launcher::Hydra,
        &[
            ("mpirun ./app", "mpirun W ./app"),
            ("mpirun -n 4 ./app a b", "mpirun -n 4 W ./app a b"),
            ("mpiexec -np 4 ./app -n 5", "mpiexec -np 4 W ./app -n 5"),
            ("mpirun --np=4 -ppn 2 ./app", "mpirun --np=4 -ppn 2 W ./app"),
            ("mpirun -N 4 ./app", "mpirun -N 4 W ./app"),
            ("mpirun -l -n 2 ./app", "mpirun -l -n 2 W ./app"),
            ("mpirun -prepend-rank -n 2 ./app", "mpirun -prepend-rank -n 2 W ./app"),
            ("mpirun -f hosts -hosts a,b ./app", "mpirun -f hosts -hosts a,b W ./app"),
            ("mpirun -genv FOO 1 ./app", "mpirun -genv FOO 1 W ./app"),
            ("mpirun -genv FOO=1 ./app", "mpirun -genv FOO=1 W ./app"),
            ("mpirun -env FOO bar=baz ./app", "mpirun -env FOO bar=baz W ./app"),
            ("mpirun -genv=FOO 1 ./app", "mpirun -genv=FOO 1 W ./app"),
            ("mpirun -genv=FOO=1 ./app", "mpirun -genv=FOO=1 W ./app"),
            ("mpirun -genvlist A,B -genvall ./app", "mpirun -genvlist A,B -genvall W ./app"),
            (
                "mpirun -bind-to core -map-by numa ./app",
                "mpirun -bind-to core -map-by numa W ./app",
            ),
            (
                "mpirun -launcher fork -iface eth0 ./app",
                "mpirun -launcher fork -iface eth0 W ./app",
            ),
            ("mpirun -wdir /tmp ./app", "mpirun -wdir /tmp W ./app"),
        ],
    );
}

#[test]
fn intel_mpi_options_are_skipped() {
    check(
        Some(Flavour::Hydra),
        Launcher::Hydra,
        &[
            ("mpirun -s all -n 2 ./app", "mpirun -s all -n 2 W ./app"),
            ("mpirun -perhost 2 -prot ./app", "mpirun -perhost 2 -prot W ./app"),
            ("mpirun -tune f.dat -trace ./app", "mpirun -tune f.dat -trace W ./app"),
            ("mpirun -gtool x:0 -gdb ./app", "mpirun -gtool x:0 -gdb W ./app"),
        ],
    );
}

#[test]
fn open_mpi_4_options_are_skipped() {
    check(
        Some(Flavour::OpenMpi4),
        Launcher::OpenMpi,
        &[
            ("mpirun -np 4 -x FOO ./app", "mpirun -np 4 -x FOO W ./app"),
            ("mpirun -c 4 -x FOO=1 ./app -x", "mpirun -c 4 -x FOO=1 W ./app -x"),
            ("mpirun --mca btl self,sm ./app", "mpirun --mca btl self,sm W ./app"),
            ("mpirun -mca btl ^tcp -gmca a b ./app", "mpirun -mca btl ^tcp -gmca a b W ./app"),
            (
                "mpirun --oversubscribe --tag-output ./app",
                "mpirun --oversubscribe --tag-output W ./app",
            ),
            ("mpirun --allow-run-as-root -q ./app", "mpirun --allow-run-as-root -q W ./app"),
            ("mpirun -H a:2,b:2 --map-by node ./app", "mpirun -H a:2,b:2 --map-by node W ./app"),
            (
                "mpirun --stdin all -s --timeout 9 ./app",
                "mpirun --stdin all -s --timeout 9 W ./app",
            ),
            (
                "mpirun --output-filename out -rf r ./app",
                "mpirun --output-filename out -rf r W ./app",
            ),
            ("mpirun -qv -n 2 ./app", "mpirun -qv -n 2 W ./app"),
            ("mpirun -vc 2 ./app", "mpirun -vc 2 W ./app"),
            ("mpirun --display-topo --dvm ./app", "mpirun --display-topo --dvm W ./app"),
        ],
    );
}

#[test]
fn open_mpi_5_options_are_skipped() {
    check(
        Some(Flavour::OpenMpi5),
        Launcher::OpenMpi,
        &[
            ("mpirun -np 4 -x FOO ./app", "mpirun -np 4 -x FOO W ./app"),
            (
                "mpirun --np=4 --map-by=:oversubscribe ./app",
                "mpirun --np=4 --map-by=:oversubscribe W ./app",
            ),
            (
                "mpirun --prtemca a b --pmixmca c d ./app",
                "mpirun --prtemca a b --pmixmca c d W ./app",
            ),
            ("mpirun -mca pml ob1 ./app -mca", "mpirun -mca pml ob1 W ./app -mca"),
            (
                "mpirun --output tag -display-topo all ./app",
                "mpirun --output tag -display-topo all W ./app",
            ),
            ("mpirun --runtime-opt x ./app", "mpirun --runtime-opt x W ./app"),
            ("mpirun --dvm file:x -n 2 ./app", "mpirun --dvm file:x -n 2 W ./app"),
            ("mpirun --output-proctable ./app", "mpirun --output-proctable W ./app"),
            ("mpirun --output-proctable=- ./app", "mpirun --output-proctable=- W ./app"),
            ("mpirun --prepend-env PATH /x ./app", "mpirun --prepend-env PATH /x W ./app"),
        ],
    );
}

#[test]
fn options_of_another_open_mpi_version_are_understood_too() {
    check(
        Some(Flavour::OpenMpi5),
        Launcher::OpenMpi,
        &[("mpirun --slot-list 0,1 -q ./app", "mpirun --slot-list 0,1 -q W ./app")],
    );
    check(
        Some(Flavour::OpenMpi4),
        Launcher::OpenMpi,
        &[(
            "mpirun --with-ft ulfm --display map ./app",
            "mpirun --with-ft ulfm --display map W ./app",
        )],
    );
}

#[test]
fn open_mpi_of_unknown_version_takes_what_all_versions_agree_on() {
    check(
        None,
        Launcher::OpenMpi,
        &[
            ("mpirun.openmpi -n 4 --mca a b ./app", "mpirun.openmpi -n 4 --mca a b W ./app"),
            ("mpirun.openmpi --with-ft ulfm -q ./app", "mpirun.openmpi --with-ft ulfm -q W ./app"),
            (
                "mpirun.openmpi --output-proctable ./app",
                "mpirun.openmpi --output-proctable W ./app",
            ),
        ],
    );
}

#[test]
fn srun_options_are_skipped() {
    check(
        None,
        Launcher::Slurm,
        &[
            ("srun ./app", "srun W ./app"),
            ("srun -n4 -N2 ./app -n", "srun -n4 -N2 W ./app -n"),
            ("srun -n 4 -c 2 ./app", "srun -n 4 -c 2 W ./app"),
            ("srun --ntasks=4 --nodes 2 ./app", "srun --ntasks=4 --nodes 2 W ./app"),
            ("srun --ntasks-per-n 2 ./app", "srun --ntasks-per-n 2 W ./app"),
            ("srun -lun4 ./app", "srun -lun4 W ./app"),
            ("srun -lun 4 ./app", "srun -lun 4 W ./app"),
            ("srun -K ./app", "srun -K W ./app"),
            ("srun -K1 --exclusive ./app", "srun -K1 --exclusive W ./app"),
            ("srun --exclusive=user --pty ./app", "srun --exclusive=user --pty W ./app"),
            ("srun --mpi=pmix --cpu-bind=cores ./app", "srun --mpi=pmix --cpu-bind=cores W ./app"),
            ("srun -p batch -t 10 -D /tmp ./app", "srun -p batch -t 10 -D /tmp W ./app"),
            ("srun --container-image=x ./app", "srun --container-image=x W ./app"),
            ("srun -n 4 -- ./app", "srun -n 4 W ./app"),
        ],
    );
}

#[test]
fn flux_run_options_are_skipped() {
    check(
        None,
        Launcher::Flux,
        &[
            ("flux run ./app", "flux run W ./app"),
            ("flux run -n4 -o mpi=x ./app", "flux run -n4 -o mpi=x W ./app"),
            ("flux run -N 2 -xl --env=A=B ./app", "flux run -N 2 -xl --env=A=B W ./app"),
            ("flux mini run -n 2 ./app : b", "flux mini run -n 2 W ./app : b"),
        ],
    );
}

#[test]
fn an_mpirun_of_unknown_make_takes_what_all_makes_agree_on() {
    check(
        None,
        Launcher::Other,
        &[
            ("mpirun -n 4 ./app", "mpirun -n 4 W ./app"),
            (
                "mpiexec -np 4 -hostfile h -wdir d ./app",
                "mpiexec -np 4 -hostfile h -wdir d W ./app",
            ),
            (
                "mpirun --bind-to core --map-by node ./app",
                "mpirun --bind-to core --map-by node W ./app",
            ),
            ("mpirun.fancy -n 1 ./a : -n 2 ./b", "mpirun.fancy -n 1 W ./a : -n 2 W ./b"),
        ],
    );
}

#[test]
fn every_program_of_an_mpmd_command_is_wrapped() {
    check(
        Some(Flavour::Hydra),
        Launcher::Hydra,
        &[
            ("mpirun -n 2 ./a x : -n 3 ./b y", "mpirun -n 2 W ./a x : -n 3 W ./b y"),
            ("mpirun ./a : ./a : ./a", "mpirun W ./a : W ./a : W ./a"),
            ("mpirun -n 1 ./a :", "mpirun -n 1 W ./a :"),
        ],
    );
    check(
        Some(Flavour::OpenMpi4),
        Launcher::OpenMpi,
        &[("mpirun -n 2 ./a : -x B=1 -n 3 ./b", "mpirun -n 2 W ./a : -x B=1 -n 3 W ./b")],
    );
    check(
        None,
        Launcher::Slurm,
        &[("srun -n1 ./a : -n2 -c4 ./b z", "srun -n1 W ./a : -n2 -c4 W ./b z")],
    );
}

#[test]
fn a_second_double_dash_marks_the_program_and_is_dropped() {
    check(
        Some(Flavour::Hydra),
        Launcher::Hydra,
        &[
            ("mpirun -n 4 -- ./app", "mpirun -n 4 W ./app"),
            ("mpirun --weird 3 -- ./app a", "mpirun --weird 3 W ./app a"),
            ("mpirun --weird -x 3 -- ./app -- a", "mpirun --weird -x 3 W ./app -- a"),
            ("mpirun -n 1 ./app -- a", "mpirun -n 1 W ./app -- a"),
            ("mpirun --odd=3 -n 1 ./app -- a", "mpirun --odd=3 -n 1 W ./app -- a"),
            (
                "mpirun -odd 1 -- ./a : -n 2 ./b : -odd 2 -- ./c",
                "mpirun -odd 1 W ./a : -n 2 W ./b : -odd 2 W ./c",
            ),
        ],
    );
    check(
        None,
        Launcher::Other,
        &[
            ("aprun -n 4 -d 2 -- ./app", "aprun -n 4 -d 2 W ./app"),
            ("aprun -n 4 -- ./a : -n 2 -- ./b", "aprun -n 4 W ./a : -n 2 W ./b"),
            ("jsrun -n 4 -- ./app : x", "jsrun -n 4 W ./app : x"),
            ("flux submit -n 4 -- ./app", "flux submit -n 4 W ./app"),
        ],
    );
}

#[test]
fn a_bare_command_is_wrapped_from_its_first_word() {
    check(
        None,
        Launcher::Bare,
        &[
            ("./app a b", "W ./app a b"),
            ("./app -- mpirun -n 4", "W ./app -- mpirun -n 4"),
            ("-- ./app", "W ./app"),
            ("python3 -m mpi4py x.py", "W python3 -m mpi4py x.py"),
        ],
    );
}

#[test]
fn a_wrapper_of_several_words_goes_in_whole() {
    let plan = parse_as(Flavour::Hydra, "mpirun -n 1 ./a : -- ./b").unwrap();
    let command = plan.command_with(&words("/r/refrain __rank --out t --"));
    let expected =
        "mpirun -n 1 /r/refrain __rank --out t -- ./a : /r/refrain __rank --out t -- ./b";
    assert_eq!(command, words(expected));
}
