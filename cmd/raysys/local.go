package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/internal/consulbuild"
	"github.com/raysys/raysys/internal/natsbuild"
	"github.com/raysys/raysys/internal/natsserver"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/system"
)

type localFlags struct {
	app     string
	consul  string
	port    int
	http    string
	nats    string
	nodes   int
	cpu     string
	timeout time.Duration
}

// maxLocal is more nodes than one host can make sense of.
const maxLocal = 32

func localCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "local --app PROGRAM [flags]",
		Short: "Run a cluster on this host, to try things",
		Long: `Start a Consul server, a NATS server for streams where one is found, and some nodes that run PROGRAM; say what can be done with
them; end all of it on SIGINT or SIGTERM. A second signal does not wait for the nodes to drain. What dies is started again. The data of
the servers is in folders for temporary files, which go with them.

The nodes share the host: each offers an equal part of its CPUs and memory, and the first node its GPUs. RAYSYS_MEMORY, RAYSYS_OBJECT_MEMORY,
RAYSYS_GPU and RAYSYS_GPUS, where they are set, hold for each node: RAYSYS_GPUS=fake:h100x8 gives each eight made-up GPUs.`,
		Args: cli.NoArgs,
	}
	var f localFlags
	flags := cmd.Flags()
	flags.StringVar(&f.app, "app", "", "the program, a path or a name in PATH")
	flags.StringVar(&f.consul, "consul-program", "consul", "Consul, a path or a name in PATH (make consul builds bin/consul)")
	flags.IntVar(&f.port, "consul-port", 0, "its port (default 8500, or a free one where that is taken)")
	flags.StringVar(&f.http, "http", "", "address of the cluster's page, which the first node serves (default 127.0.0.1:8265, or a free port where that is taken)")
	flags.StringVar(&f.nats, "nats-program", "", "the NATS server, a path or a name in PATH (make nats builds bin/nats-server; default: nats-server beside this program, in bin/ here or above in this module, or in PATH; streams are off without one)")
	flags.IntVar(&f.nodes, "nodes", 3, "how many nodes to start")
	flags.StringVar(&f.cpu, "cpu", "", "CPUs that each offers (default: an equal share of the host's, at least 1)")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long the start may take")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

func (f *localFlags) check() error {
	switch {
	case f.app == "":
		return cli.Usagef("there is no program: give --app PATH, or RAYSYS_APP")
	case f.nodes < 1 || f.nodes > maxLocal:
		return cli.Usagef("--nodes %d: give 1 to %d", f.nodes, maxLocal)
	case f.port < 0 || f.port > 65535:
		return cli.Usagef("--consul-port %d: give a port, or 0", f.port)
	case f.timeout <= 0:
		return cli.Usagef("--timeout %v: give a positive duration", f.timeout)
	}
	if f.http == "" {
		f.http = fmt.Sprintf("127.0.0.1:%d", localPort(0, pagePort))
	}
	if err := checkAddress("--http", f.http, true); err != nil {
		return err
	}
	if f.cpu == "" {
		f.cpu = strconv.Itoa(max(1, runtime.NumCPU()/f.nodes))
	}
	return nil
}

// run starts everything, waits for the signal, and ends everything.
func (f *localFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	app, err := program(f.app)
	if err != nil {
		return err
	}
	server, err := program(f.consul)
	if err != nil {
		return cli.Usagef("--consul-program %s cannot be used: run `%s` in the folder of a module that requires raysys, which takes some minutes, and give --consul-program bin/consul; or install Consul", f.consul, consulbuild.Command)
	}
	nats, off, err := f.natsProgram()
	if err != nil {
		return err
	}
	self, err := program(os.Args[0])
	if err != nil {
		return err
	}
	kill, stop := secondSignal()
	defer stop()
	h := &localCluster{talk: stderr, kill: kill}
	defer func() { err = errors.Join(err, h.end()) }()

	began, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("%w after %v: see the lines above", client.ErrTimedOut, f.timeout))
	defer cancel()
	consul, err := h.startConsul(began, server, f.port)
	if err != nil {
		return err
	}
	at := client.Where{Consul: consul, Cluster: "default"}
	streams := off
	if nats != "" {
		url, err := h.startNATS(began, nats, at)
		if err != nil {
			return err
		}
		streams = "NATS for streams is at " + url
	}
	for i := range f.nodes {
		name := "node-" + strconv.Itoa(i+1)
		env := []string{"RAYSYS_CONSUL=" + at.Consul, "RAYSYS_NAME=" + name, "RAYSYS_APP=" + app}
		env = append(env, f.part(i, objectstore.AvailableMemory(), os.Getenv)...)
		if i == 0 {
			env = append(env, "RAYSYS_HTTP="+f.http)
		}
		if os.Getenv("RAYSYS_LOG_FORMAT") == "" && readByPerson(stderr) {
			env = append(env, "RAYSYS_LOG_FORMAT=terminal")
		}
		if err := h.start(name, self, []string{"node"}, env); err != nil {
			return err
		}
	}
	var s client.Status
	err = h.until(began, client.Some(f.nodes, "node", "nodes"), func(ctx context.Context) bool {
		s = localStatus(ctx, at)
		return settled(s, f.nodes)
	})
	if err != nil {
		return err
	}
	f.tell(stdout, at, s, streams)
	return h.watch(ctx)
}

// natsProgram finds the server for streams. Without --nats-program a server that is nowhere is no error: off says that streams
// are off, and what to do.
func (f *localFlags) natsProgram() (path, off string, err error) {
	if f.nats == "" {
		path, err = natsserver.Find()
		if errors.Is(err, childserver.ErrNone) {
			return "", fmt.Sprintf("Streams are off, without a NATS server: `%s` in the folder of a module that requires raysys builds one", natsbuild.Command), nil
		}
		return path, "", err
	}
	if path, err = program(f.nats); err != nil {
		return "", "", cli.Usagef("--nats-program %s cannot be used: run `%s` in the folder of a module that requires raysys, and give --nats-program bin/nats-server; or leave it out", f.nats, natsbuild.Command)
	}
	return path, "", nil
}

// leastMemoryLimit is the least that a node takes, in bytes.
const leastMemoryLimit = 64 << 20

// part is what node i offers of the host, which has that much memory: an equal share of what can be divided, and the first node the
// GPUs. What is set for all nodes stays.
func (f *localFlags) part(i int, memory int64, getenv func(string) string) []string {
	env := []string{"RAYSYS_CPU=" + f.cpu}
	objects := getenv("RAYSYS_OBJECT_MEMORY")
	if objects == "" {
		objects = fmt.Sprintf("%d%%", min(30, 60/f.nodes))
		env = append(env, "RAYSYS_OBJECT_MEMORY="+objects)
	}
	if getenv("RAYSYS_MEMORY") == "" {
		store, _ := system.ParseSize(objects, memory) // the node says what is wrong with it
		env = append(env, fmt.Sprintf("RAYSYS_MEMORY=%d", max(memory/int64(f.nodes)-store, 1)))
	}
	if getenv("RAYSYS_MEMORY_LIMIT") == "" {
		env = append(env, fmt.Sprintf("RAYSYS_MEMORY_LIMIT=%d", max(memory/int64(f.nodes), leastMemoryLimit)))
	}
	if i > 0 && getenv("RAYSYS_GPUS") == "" && getenv("RAYSYS_GPU") == "" {
		env = append(env, "RAYSYS_GPUS=none")
	}
	return env
}

// settled: every node is up and every shard has a leader.
func settled(s client.Status, nodes int) bool {
	if len(s.Nodes) != nodes || len(s.Shards) == 0 {
		return false
	}
	for _, n := range s.Nodes {
		if n.State != inspect.NodeActive {
			return false
		}
	}
	for _, sh := range s.Shards {
		if sh.Node == "" {
			return false
		}
	}
	return true
}

// localStatus is empty while the cluster cannot be asked.
func localStatus(ctx context.Context, at client.Where) (s client.Status) {
	o, err := observe(ctx, at)
	if err != nil {
		return s
	}
	defer o.Close()
	s, _ = o.Status(ctx)
	return s
}

// The ports at which clients look for a server first.
const (
	consulPort = 8500
	natsPort   = 4222
	pagePort   = 8265
)

// localPort is the port that was asked for, else the usual one where it is free, else 0: any that is free.
func localPort(asked, usual int) int {
	if asked != 0 {
		return asked
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", usual))
	if err != nil {
		return 0
	}
	l.Close()
	return usual
}

// tell says what to do next, in commands that can be pasted.
func (f *localFlags) tell(w io.Writer, at client.Where, s client.Status, streams string) {
	self, pid := os.Args[0], "PID"
	if !strings.Contains(self, string(filepath.Separator)) {
		self = "raysys" // found in PATH
	}
	client.Sort(&s)
	if p := s.Nodes[0].PID; p != 0 {
		pid = strconv.Itoa(p)
	}
	first, last := s.Nodes[0].Name, s.Nodes[len(s.Nodes)-1].Name
	fmt.Fprintf(w, "%s up: %s, in cluster default, with Consul at http://%s/ui\n%s\n\nIn another terminal:\n\n", client.Some(f.nodes, "node is", "nodes are"), f.app, at.Consul, streams)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range [][2]string{
		{"export RAYSYS_CONSUL=" + at.Consul, "where the cluster is"},
		{self + " status", "nodes, who leads which shards, grains"},
		{f.app, "the program as a driver: the nodes do its work"},
		{"kill -9 " + pid, fmt.Sprintf("a crash of %s: its work moves at once, and it is started again", first)},
		{fmt.Sprintf("%s drain %s", self, last), fmt.Sprintf("a good end of %s: its work moves first", last)},
		{self + " doctor", "what would keep a cluster from working"},
	} {
		fmt.Fprintf(t, "  %s\t# %s\n", row[0], row[1])
	}
	_ = t.Flush() // a reader that is gone would end the command
	fmt.Fprint(w, "\nCtrl-C here ends everything.\n")
}
