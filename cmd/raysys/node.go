package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/system"
)

type nodeFlags struct {
	at        *client.Where
	app       string
	name      string
	listen    string
	advertise string
	cpu       string
	gpu       string
	gpus      string
	gpuModel  string
	gpuMemory string
	memory    string
	resources string
	labels    string
	log       string
	logFormat string
	logDir    string
	http      string
	httpToken string
	httpCert  string
	httpKey   string
	join      time.Duration

	objectMemory string
	spill        string
	spillMax     string
	noSharing    bool

	lineage       string
	lineageMemory string

	grace, settled, restartMin, restartMax time.Duration
}

// ownFlags are what only the supervisor goes by; the rest is the program's.
var ownFlags = []string{"app", "output", "settled", "restart-min", "restart-max", "gpus"}

func nodeCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node --app PROGRAM [flags] [-- ARGUMENTS]",
		Short: "Keep a program running as a worker of the cluster",
		Long: `Start PROGRAM as a worker of the cluster and keep it running. The program needs no flags: it takes everything from
RAYSYS_* variables, which this command sets from its own flags. What the program writes is passed on with the node's name
before each line, and kept in files of 16 MiB at most, which raysys logs reads.

A program that dies is reported to the cluster at once and started again, later each time; an exit with 0 that nobody asked
for is a death too. SIGTERM and SIGINT drain it, and raysys drain from elsewhere; a second signal kills it. One that dies five
times before it was ever up for --settled ends the command, as does one whose settings cannot be meant, or whose --http is taken.`,
		Example: "  raysys node --app ./bin/app\n  raysys node --app ./bin/app --name a --listen 10.0.0.5:7400 --tls-cert a.crt --tls-key a.key --tls-ca ca.crt -- --verbose",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return cli.Usagef("%q is no flag: arguments of the program go after --", args[0])
			}
			return nil
		},
	}
	flags := cmd.Flags()
	f := nodeFlags{at: whereFlags(flags)}
	host, err := os.Hostname()
	if err != nil {
		host = "" // then --name is needed, and says so
	}
	host, _, _ = strings.Cut(host, ".")
	flags.StringVar(&f.app, "app", "", "the program, a path or a name in PATH")
	flags.StringVar(&f.name, "name", host, "name of the node, unique in the cluster")
	cli.DefaultFrom(flags, "name", "default (this host)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "address for other nodes; port 0 takes a free one")
	flags.StringVar(&f.advertise, "advertise", "", "address that other nodes dial, where it is not that of --listen")
	flags.StringVar(&f.cpu, "cpu", "", "CPUs to offer (default: those of the host)")
	flags.StringVar(&f.gpu, "gpu", "", "accelerators to offer, as a mere number (default: those of --gpus)")
	flags.StringVar(&f.gpus, "gpus", "auto", "GPUs to find and watch: auto, none, or made-up ones: fake:h100x8, fake:dgx1")
	flags.StringVar(&f.gpuModel, "gpu-model", "", "model of these accelerators, such as H100")
	flags.StringVar(&f.gpuMemory, "gpu-memory", "", "memory of each accelerator, such as 80GiB")
	flags.StringVar(&f.memory, "memory", "", "memory to offer, such as 8GiB or 50% (default: the host's or the container's, less that for values)")
	flags.StringVar(&f.resources, "resources", "", "further resources to offer, NAME=N[,NAME=N...]")
	flags.StringVar(&f.labels, "labels", "", "labels of the node, KEY=VALUE[,KEY=VALUE...]")
	flags.StringVar(&f.objectMemory, "object-memory", "", "memory for values above 64 KiB, such as 8GiB or 50% (default 30% of the host's or the container's)")
	flags.StringVar(&f.spill, "spill", "", "folder for values that memory has no room for, and for objects on disk (default: one in the folder for temporary files, gone with the process)")
	flags.StringVar(&f.spillMax, "spill-max", "", "most that may lie there, such as 100GiB (default: what the disk has, less a reserve)")
	flags.BoolVar(&f.noSharing, "no-sharing", false, "send values to other processes of this host instead of sharing memory with them")
	flags.StringVar(&f.lineage, "lineage", "", "what the program keeps to make a lost value again: off, memory or durable (default durable)")
	flags.StringVar(&f.lineageMemory, "lineage-memory", "", "most that this may take, such as 1GiB or 2% (default 256MiB)")
	flags.StringVar(&f.log, "log", "", "how much the program logs: debug, info, warn or error (default warn)")
	flags.StringVar(&f.logFormat, "log-format", "", "form of its log: terminal (short, coloured) or json (default: terminal where this command writes to one)")
	flags.StringVar(&f.logDir, "log-dir", "", "folder for two files of 8 MiB, NAME.log and NAME.old.log, with what the program writes (default: one in the folder for temporary files, gone with this command)")
	flags.StringVar(&f.http, "http", "", "address at which the program serves the cluster's page and /api, /metrics, /healthz, /readyz and, to callers on this host, /debug/pprof/ (default: nowhere)")
	flags.StringVar(&f.httpToken, "http-token-file", "", "file with the token that readers of the page and of /api at --http give, 16 characters or more (default: none on loopback; else the program draws one and prints it once)")
	flags.StringVar(&f.httpCert, "http-tls-cert", "", "file with the certificate for --http, as browsers want it: with the host's name")
	flags.StringVar(&f.httpKey, "http-tls-key", "", "file with its key")
	flags.Bool("http-insecure", false, "serve the page and /api beyond this host without TLS too: any machine on the way can read them, and the token")
	flags.DurationVar(&f.join, "join-timeout", 0, "how long the program tries to reach Consul before it exits with 3 (default: for ever)")
	flags.DurationVar(&f.grace, "grace", 5*time.Minute, "how long a drain may take")
	flags.DurationVar(&f.settled, "settled", 10*time.Second, "how long the program must be up for its start to count as good")
	flags.DurationVar(&f.restartMin, "restart-min", 100*time.Millisecond, "pause before the first restart; doubles with each death before --settled")
	flags.DurationVar(&f.restartMax, "restart-max", 30*time.Second, "longest pause before a restart")
	cli.OutputFlag(flags)
	flags.Lookup("output").Usage = "form of --print-config"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		path, err := program(f.app)
		if err != nil {
			return err
		}
		return runNode(cmd, on, &f, path, args)
	}
	return cmd
}

// check finds what the program would refuse, before it is started over and over.
func (f *nodeFlags) check() error {
	if f.app == "" {
		return cli.Usagef("there is no program: give --app PATH, or RAYSYS_APP")
	}
	if err := checkName("--name", f.name); err != nil {
		return err
	}
	if err := checkWhere(f.at); err != nil {
		return err
	}
	if err := checkAddress("--listen", f.listen, true); err != nil {
		return err
	}
	if f.advertise != "" {
		if err := checkAddress("--advertise", f.advertise, false); err != nil {
			return err
		}
	}
	if f.http != "" {
		if err := checkAddress("--http", f.http, true); err != nil {
			return err
		}
	}
	if (f.httpCert == "") != (f.httpKey == "") {
		return cli.Usagef("--http-tls-cert %q and --http-tls-key %q: give both", f.httpCert, f.httpKey)
	}
	for flag, file := range map[string]string{"--http-token-file": f.httpToken, "--http-tls-cert": f.httpCert, "--http-tls-key": f.httpKey} {
		if _, err := os.Stat(file); file != "" && err != nil {
			return cli.Usagef("%s: %w", flag, err)
		}
	}
	if f.advertise == "" && everywhere(f.listen) {
		return cli.Usagef("--listen %s is every address of this host: say with --advertise which one other nodes dial", f.listen)
	}
	if !loopback(f.listen) && f.at.Cert == "" && !f.at.Insecure {
		return cli.Usagef("--listen %s can be reached from other hosts: give --tls-cert, --tls-key and --tls-ca, or --insecure", f.listen)
	}
	for flag, v := range map[string]string{"--cpu": f.cpu, "--gpu": f.gpu} {
		if n, err := strconv.ParseFloat(v, 64); v != "" && (err != nil || !(n >= 0)) {
			return cli.Usagef("%s %q: give a number of 0 or more", flag, v)
		}
	}
	if err := devices.CheckSpec(f.gpus); err != nil {
		return cli.Usagef("--gpus: %w", err)
	}
	if f.gpu != "" && strings.HasPrefix(f.gpus, "fake:") {
		return cli.Usagef("--gpu %s and --gpus %s: give one of them", f.gpu, f.gpus)
	}
	for _, size := range []struct {
		flag, value string
		whole       int64
	}{
		{"--memory", f.memory, objectstore.AvailableMemory()},
		{"--gpu-memory", f.gpuMemory, 0},
		{"--object-memory", f.objectMemory, objectstore.AvailableMemory()},
		{"--spill-max", f.spillMax, 0},
		{"--lineage-memory", f.lineageMemory, objectstore.AvailableMemory()},
	} {
		if _, err := system.ParseSize(size.value, size.whole); size.value != "" && err != nil {
			return cli.Usagef("%s %q: %w", size.flag, size.value, err)
		}
	}
	custom := map[string]float64{}
	if err := pairs("--resources", f.resources, func(name, v string) bool {
		n, err := strconv.ParseFloat(v, 64)
		custom[name] = n
		return err == nil && n >= 0
	}); err != nil {
		return err
	}
	if err := (core.Resources{Custom: custom}).Meant(); err != nil {
		return cli.Usagef("--resources %s: %w", f.resources, err)
	}
	if err := pairs("--labels", f.labels, func(_, _ string) bool { return true }); err != nil {
		return err
	}
	if f.logFormat != "" && f.logFormat != "terminal" && f.logFormat != "json" {
		return cli.Usagef("--log-format %q: give terminal or json", f.logFormat)
	}
	if l := system.Lineage(f.lineage); l != "" && l != system.LineageOff && l != system.LineageInMemory && l != system.LineageDurable {
		return cli.Usagef("--lineage %q: give off, memory or durable", f.lineage)
	}
	if f.join < 0 {
		return cli.Usagef("--join-timeout %v: give a positive duration, or 0 for no limit", f.join)
	}
	for flag, d := range map[string]time.Duration{"--grace": f.grace, "--settled": f.settled, "--restart-min": f.restartMin, "--restart-max": f.restartMax} {
		if d <= 0 {
			return cli.Usagef("%s %v: give a positive duration", flag, d)
		}
	}
	return nil
}

func pairs(flag, list string, valid func(name, value string) bool) error {
	if list == "" {
		return nil
	}
	for _, p := range strings.Split(list, ",") {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" || !valid(k, v) {
			return cli.Usagef("%s: %q cannot be meant: see raysys node --help", flag, p)
		}
	}
	return nil
}

// replaced: on an empty store the program would begin anew, as if nothing had ever been there. That is for people to decide.
func replaced(e supervise.Exit) error {
	if e.Code != system.ExitStoreReplaced {
		return nil
	}
	return fmt.Errorf("%w, then start it again", raysys.ErrStoreReplaced)
}

func runNode(cmd *cobra.Command, on cluster, f *nodeFlags, path string, args []string) error {
	node := raysys.NodeID(f.name)
	lines := supervise.NewLines(f.name + " | ")
	own := supervise.NewLines("raysys " + f.name + ": ")
	kept, err := keepLog(cmd, f, lines, own.Writer(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer kept.close()
	gpus := watchGPUs(cmd.Context(), f, own.Writer(cmd.ErrOrStderr()))
	defer gpus.stop()
	if gpus.count > 0 {
		if err := cmd.Flags().Set("gpu", strconv.Itoa(gpus.count)); err != nil {
			return err
		}
	}
	program := &supervise.Command{
		Path: path, Args: args, Env: append(environment(cmd.Flags(), os.Environ()), worklog.MarkVariable+"="+string(kept.keeper.Mark())),
		Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Lines: lines, Feed: gpus.feed,
	}
	cfg := supervise.Config{
		Name: node, Launch: program.Launch, Talk: kept.talk,
		Final: replaced, Grace: f.grace, Settled: f.settled, RestartMin: f.restartMin, RestartMax: f.restartMax,
	}
	if on.reporter != nil {
		if cfg.Reporter, err = on.reporter(*f.at, node); err != nil {
			return fmt.Errorf("make reporter: %w", err)
		}
		if c, ok := cfg.Reporter.(io.Closer); ok {
			defer c.Close()
		}
	}
	s, err := supervise.New(cfg)
	if err != nil {
		return err
	}
	kill, stop := secondSignal()
	defer stop()
	if err := s.Run(cmd.Context(), kill); err != nil {
		return fmt.Errorf("node %s: %w", f.name, err)
	}
	return nil
}
