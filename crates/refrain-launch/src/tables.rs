//! The launchers' options. Names are written without dashes; see [`Table`] for the columns.
//!
//! Only the number of words that an option takes matters. Options of old versions are kept, since no
//! later version gave their names another meaning. The exceptions are between ORTE and PRRTE, which
//! have separate tables.

use crate::options::{Dialect, NOTHING, Syntax, Table};

/// Hydra, from the option table in MPICH's sources (3.0 to 5.0), checked against
/// `mpiexec.hydra` of MPICH 4.0 and 5.0; then what Intel MPI 2021 adds, from its `mpiexec.hydra`.
const HYDRA_OPTIONS: Table = Table {
    none: "
        help h version info v verbose debug
        genvall genvnone envall envnone
        prepend-rank l print-all-exitcodes report-bindings profile
        enable-x disable-x pmi-port skip-launch-node hybrid-hosts
        disable-auto-cleanup enable-auto-cleanup dac
        disable-hostname-propagation enable-hostname-propagation

        aps mps trace trace-imbalance trace_imbalance trace-pt2pt trace-collectives
        check-mpi check_mpi check ilp64 rr nolocal prot silent-abort
        print-rank-map prepend-timestamp ordered-output v6 gdb gdb-ia tv idb
        noconf pmi-aggregate pmi-noaggregate cleanup prefork",
    one: "
        n np ppn f hostfile machinefile machine machines machinelist host hosts hostlist rankmap
        wdir configfile genvlist envlist memory-alloc-kinds
        launcher launcher-exec bootstrap bootstrap-exec rmk
        topolib binding bind-to map-by membind demux
        output-from prepend-pattern outfile-pattern errfile-pattern outfile errfile
        iface localhost nameserver order-nodes usize
        g gpus-per-proc gpu-subdevs-per-proc
        ckpointlib ckpoint-interval ckpoint-prefix ckpoint-num

        perhost grr gwdir gpath path envexcl genvexcl hosts-group s tune cpu-bind tree-width
        gtool gtoolfile gdb-args gdba tva bootstrap-exec-args rsh
        pmi-connect use-app-topology tmpdir",
    assignment: "genv env",
    ranks: "n np",
    directory: "wdir",
    every_directory: "gwdir",
    environment: "genv env genvlist envlist",
    search: "path gpath",
    program_file: "configfile",
    ..NOTHING
};

/// `orterun` of Open MPI up to 4.x, from `mpirun --help all` of 4.1 and the sources of 1.6 to 4.1.
const ORTE_OPTIONS: Table = Table {
    none: "
        V version v verbose q quiet d debug-devel debug tv
        debug-daemons debug-daemons-file leave-session-attached
        allow-run-as-root s preload-binary noprefix
        bind-to-core bind-to-socket bind-to-none bind-to-board
        bycore bynode byslot bysocket byboard pernode loadbalance
        oversubscribe nooversubscribe nolocal use-hwthread-cpus
        display-map display-devel-map display-diffable-map display-topo
        display-allocation display-devel-allocation report-bindings show-progress
        tag-output timestamp-output merge-stderr-to-stdout xml index-argv-by-rank
        continuous enable-recovery disable-recovery staged
        do-not-launch do-not-resolve dvm novm hetero hetero-apps hetero-nodes
        enable-instant-on-support fwd-mpirun-port use-regexp crdebug
        get-stack-traces report-state-on-timeout report-child-jobs-separately
        output-proctable set-cwd-to-session-dir wait-for-server",
    one: "
        h help n np c N npernode npersocket nperboard
        num-boards num-cores num-sockets stride
        H host hostfile machinefile default-hostfile rf rankfile cf cartofile slot-list
        map-by rank-by bind-to ppr cpu-list cpu-set cpus-per-proc cpus-per-rank
        x wd wdir path prefix preload-files preload-files-dest-dir tmpdir
        am tune app stdin output-filename xml-file xterm debugger personality
        timeout max-restarts max-vm-size launch-agent
        hnp ompi-server server-wait-time report-events report-pid report-uri sstore-load",
    two: "mca gmca",
    ranks: "n np c",
    directory: "wd wdir",
    environment: "x",
    search: "path",
    program_file: "app",
    ..NOTHING
};

/// PRRTE's `prterun` and `prun`, and Open MPI's `mpirun` from 5.x on, from the option tables in
/// PRRTE's sources (3.0 to 4.1), checked against `mpirun` of Open MPI 5.0.
const PRRTE_OPTIONS: Table = Table {
    none: "
        V version v verbose p parseable parsable
        debug debug-daemons debug-daemons-file leave-session-attached
        allow-run-as-root s preload-binary noprefix no-app-prefix no-aggregate-help
        bind-to-core bycore bynode byslot pernode
        oversubscribe nooversubscribe nolocal use-hwthread-cpus
        display-map display-devel-map display-allocation display-devel-allocation
        display-comm display-comm-finalize report-bindings show-progress
        tag-output timestamp-output merge-stderr-to-stdout xml
        continuous enable-recovery disable-recovery
        do-not-launch stop-on-exec stop-in-init uniform-nodes hetero-nodes soft
        get-stack-traces report-state-on-timeout report-child-jobs-separately
        set-cwd-to-session-dir set-sid daemonize system-server test-suicide
        system-server-first system-server-only do-not-connect",
    one: "
        n np c N npernode npersocket
        H host hostfile machinefile default-hostfile add-host add-hostfile rankfile
        map-by mapby rank-by rankby bind-to bindto runtime-options rtos
        ppr cpu-list cpu-set cpus-per-proc cpus-per-rank
        x set-env unset-env wd wdir path prefix pmix-prefix app-pmix-prefix
        preload-files tmpdir
        am tune app stdin output output-directory output-filename stream-buffering
        display display-topo xterm personality pset arch file
        timeout spawn-timeout max-restarts max-vm-size launch-agent keepalive
        forward-signals with-ft initial-errhandler memory-alloc-kinds gpu-support
        dvm dvm-uri pid namespace wait-to-connect num-connect-retries
        alloc-id alloc-refid session-id activate report-pid report-uri",
    two: "mca gmca omca gomca prtemca pmixmca amca prepend-env append-env",
    attached: "h help stop-in-app output-proctable fwd-environment",
    ranks: "n np c",
    directory: "wd wdir",
    environment: "x set-env prepend-env append-env",
    search: "path",
    program_file: "app",
    ..NOTHING
};

/// `srun`, from its manual pages (Slurm 17.11 to 26.05).
const SRUN_OPTIONS: Table = Table {
    none: "
        h help usage V version v verbose Q quiet
        async consolidate-segments contiguous debugger-test X disable-status exact
        H hold interactive l label launch-cmd multi-prog Z no-allocate R no-rotate
        O overcommit s oversubscribe share parsable E preserve-env quit-on-interrupt reboot
        spread-job spread-segments stepmgr test-only u unbuffered use-min-nodes
        wait-for-children whole",
    one: "
        n ntasks N nodes c cpus-per-task
        ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres
        tasks-per-node cores-per-socket sockets-per-node threads-per-core T threads mincpus
        D chdir export mpi m distribution cpu-bind cpu_bind mem-bind accel-bind tres-bind
        A account acctg-freq autocomplete bb bbf bcast-exclude b begin
        cluster M clusters cluster-constraint comment C constraint
        container container-id context S core-spec thread-spec cpu-freq deadline delay-boot
        d dependency epilog prolog task-epilog task-prolog
        e error i input o output open-mode x exclude extra B extra-node-info
        G gpus gpus-per-node gpus-per-socket gpus-per-task cpus-per-gpu gpu-bind gpu-freq
        gres gres-flags tres-per-task het-group pack-group hint ignore-signals
        J job-name jobid L licenses mail-type mail-user mcs-label
        mem mem-per-cpu mem-per-gpu mem-update msg-timeout network
        F nodefile w nodelist p partition power prefer priority profile q qos
        r relative reservation resources runtime segment signal slurmd-debug switches
        t time time-min tmp treewidth W wait wckey
        checkpoint checkpoint-dir restart-dir launcher-opts uid gid
        blrts-image cnload-image ioload-image linux-image mloader-image ramdisk-image
        conn-type g geometry",
    attached: "
        bcast compress exclusive external-launcher I immediate K kill-on-bad-exit
        nice k no-kill oom-kill-step overlap propagate pty resv-ports send-libs x11",
    ranks: "n ntasks",
    directory: "D chdir",
    environment: "export",
    program_file: "multi-prog",
    ..NOTHING
};

/// `flux run`, from flux-run(1) and the sources of flux-core.
const FLUX_OPTIONS: Table = Table {
    none: "
        u unbuffered l label-io dry-run dry quiet list-plugins debug debug-emulate
        x exclusive v verbose",
    one: "
        n ntasks N nodes c cores-per-task g gpus-per-task
        cores tasks-per-node tasks-per-core gpus-per-node
        B bank q queue t time-limit urgency job-name o setopt S setattr add-file
        dependency requires require begin-time env env-remove env-file rlimit
        input output error cwd flags signal taskmap wait-event",
    attached: "h help",
    ranks: "n ntasks",
    directory: "cwd",
    environment: "env",
    ..NOTHING
};

/// See [`HYDRA_OPTIONS`].
pub(crate) const HYDRA: Dialect = Dialect { table: &HYDRA_OPTIONS, syntax: Syntax::Hydra };

/// See [`ORTE_OPTIONS`].
pub(crate) const ORTE: Dialect = Dialect { table: &ORTE_OPTIONS, syntax: Syntax::Orte };

/// See [`PRRTE_OPTIONS`].
pub(crate) const PRRTE: Dialect = Dialect { table: &PRRTE_OPTIONS, syntax: Syntax::Prrte };

/// See [`SRUN_OPTIONS`].
pub(crate) const SRUN: Dialect = Dialect { table: &SRUN_OPTIONS, syntax: Syntax::Getopt };

/// See [`FLUX_OPTIONS`].
pub(crate) const FLUX: Dialect = Dialect { table: &FLUX_OPTIONS, syntax: Syntax::Getopt };
