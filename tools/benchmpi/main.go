// Command benchmpi measures AllReduce of grains/collective beside Open MPI and, where Python has torch, gloo: two ranks, each a
// process of this host, vectors of float32. All are measured in turn, so that they meet the same machine.
//
//	make bench-mpi
//
//	this process ──► raysys: a driver here, a Consul, two workers with a rank each
//	             ──► Open MPI: mpirun, two ranks of allreduce.c
//	             ──► gloo: two ranks of allreduce.py
//
// Each measurement is made by new processes, and begins with rounds that are not counted: a process that meets its memory for the
// first time is slower. A barrier stands before each round. raysys and Open MPI leave the vector as it is and give the sum
// apart, raysys in new memory; gloo puts it in the place of the vector. A ratio is of one turn and above 1 where raysys takes longer.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tools/internal/figures"
)

var turns = flag.Int("rounds", 5, "how often each is measured")

// size is a vector, with how many rounds are measured after those that are not counted.
type size struct{ bytes, warm, rounds int }

var sizes = []size{{1 << 20, 20, 100}, {100 << 20, 5, 11}}

//go:embed peers/allreduce.c
var mpiRank []byte

//go:embed peers/allreduce.py
var glooRank []byte

func main() { figures.Main(measure, host) }

// contender measures all sizes once, and returns the milliseconds of each round by the size in bytes.
type contender struct {
	name    string
	measure func() (map[int][]float64, error)
	p50     map[int][]float64 // by turn
}

func measure(ctx context.Context) error {
	consul, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
	if err != nil {
		return err
	}
	defer consul.Close()
	dir, err := os.MkdirTemp("", "benchmpi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list := []*contender{{name: "raysys", measure: func() (map[int][]float64, error) { return ours(ctx, consul.Address()) }}}
	mpi, err := openMPI(dir)
	if err != nil {
		return err
	}
	list = append(list, &contender{name: "Open MPI", measure: mpi})
	if gloo, err := gloo(dir); err != nil {
		fmt.Fprintln(os.Stderr, "gloo is left out:", err)
	} else {
		list = append(list, &contender{name: "gloo", measure: gloo})
	}
	_, err = figures.InTurn(*turns, len(list), func(_, i int) error { return list[i].turn() })
	if err != nil {
		return err
	}
	return figures.Publish("bench-mpi", table(list))
}

// turn measures c once.
func (c *contender) turn() error {
	took, err := c.measure()
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if c.p50 == nil {
		c.p50 = map[int][]float64{}
	}
	for _, s := range sizes {
		if len(took[s.bytes]) != s.warm+s.rounds {
			return fmt.Errorf("%s measured %d rounds of %d bytes, not %d", c.name, len(took[s.bytes]), s.bytes, s.warm+s.rounds)
		}
		c.p50[s.bytes] = append(c.p50[s.bytes], figures.Median(took[s.bytes][s.warm:]))
	}
	return nil
}

func table(list []*contender) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %d turns, each the p50 of", figures.Here(), *turns)
	for i, s := range sizes {
		fmt.Fprintf(&b, "%s %d rounds of %d MiB", []string{"", " and"}[min(i, 1)], s.rounds, s.bytes>>20)
	}
	b.WriteString(".\n\n| AllReduce, two ranks |")
	for _, c := range list {
		b.WriteString(" " + c.name + " |")
	}
	for _, c := range list[1:] {
		b.WriteString(" ratio to " + c.name + ", least and most of a turn |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", 2*len(list)) + "\n")
	for _, s := range sizes {
		fmt.Fprintf(&b, "| %d MiB |", s.bytes>>20)
		for _, c := range list {
			fmt.Fprintf(&b, " %.3g ms |", figures.Median(c.p50[s.bytes]))
		}
		for _, c := range list[1:] {
			fmt.Fprintf(&b, " %s |", figures.Ratio(list[0].p50[s.bytes], c.p50[s.bytes]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// openMPI returns what measures Open MPI.
func openMPI(dir string) (func() (map[int][]float64, error), error) {
	for _, program := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: install Open MPI (Debian: openmpi-bin and libopenmpi-dev)", err)
		}
	}
	source, binary := filepath.Join(dir, "allreduce.c"), filepath.Join(dir, "allreduce")
	if err := os.WriteFile(source, mpiRank, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("mpicc", "-O3", "-o", binary, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mpicc: %w: %s", err, out)
	}
	return func() (map[int][]float64, error) {
		mpirun := exec.Command("mpirun", append([]string{"-n", "2", "--oversubscribe", binary}, arguments()...)...)
		mpirun.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		return output(mpirun)
	}, nil
}

// gloo returns what measures gloo.
func gloo(dir string) (func() (map[int][]float64, error), error) {
	script, n := filepath.Join(dir, "allreduce.py"), 0
	if err := os.WriteFile(script, glooRank, 0o600); err != nil {
		return nil, err
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} { // a distribution's torch is for its own Python
		if exec.Command(python, "-c", "import torch.distributed as d; assert d.is_available()").Run() != nil {
			continue
		}
		return func() (map[int][]float64, error) {
			n++
			meet := filepath.Join(dir, "gloo-"+strconv.Itoa(n))
			rank := func(i string) *exec.Cmd {
				return exec.Command(python, append([]string{script, i, meet}, arguments()...)...)
			}
			other := rank("1")
			if err := other.Start(); err != nil {
				return nil, err
			}
			took, err := output(rank("0"))
			if err != nil {
				_ = other.Process.Kill()
			}
			return took, errors.Join(err, other.Wait())
		}, nil
	}
	return nil, errors.New("no python3 can import torch (Debian: python3-torch)")
}

// arguments are the sizes, for the ranks of others.
func arguments() (list []string) {
	for _, s := range sizes {
		list = append(list, fmt.Sprintf("%d:%d", s.bytes, s.warm+s.rounds))
	}
	return list
}

// output runs a rank that prints bytes and milliseconds in lines.
func output(cmd *exec.Cmd) (map[int][]float64, error) {
	out, err := figures.Output(cmd)
	if err != nil {
		return nil, err
	}
	took := map[int][]float64{}
	for line := range bytes.Lines(out) {
		var n int
		var ms float64
		if _, err := fmt.Sscan(string(line), &n, &ms); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		took[n] = append(took[n], ms)
	}
	return took, nil
}

var (
	group = collective.Define[float32]("benchmpi")

	rank = tasks.Define2("rank", func(ctx context.Context, rank int, s [2]int) ([]float64, error) {
		m, err := group.Join(ctx, strconv.Itoa(s[0]), rank, 2)
		if err != nil {
			return nil, err
		}
		defer m.Leave()
		vec := slices.Repeat([]float32{float32(rank + 1)}, s[0]/4)
		var took []float64
		for range s[1] {
			if err := m.Barrier(ctx); err != nil {
				return nil, err
			}
			begin := time.Now()
			sum, err := m.AllReduce(ctx, vec, collective.Sum)
			if err != nil {
				return nil, err
			}
			took = append(took, float64(time.Since(begin).Nanoseconds())/1e6)
			if sum[0] != 3 || sum[len(sum)-1] != 3 {
				return nil, fmt.Errorf("the sum is %v and %v, not 3", sum[0], sum[len(sum)-1])
			}
		}
		return took, m.Barrier(ctx)
	})

	clusters int
)

// ours measures raysys, in a new cluster.
func ours(ctx context.Context, consul string) (map[int][]float64, error) {
	clusters++
	name := "benchmpi-" + strconv.Itoa(clusters)
	for i := range 2 {
		_, end, err := figures.Launch(figures.Child(consul, name, strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		defer end()
	}
	n, err := join(ctx, consul, name, "driver", system.Driver)
	if err != nil {
		return nil, err
	}
	took := map[int][]float64{}
	for _, s := range sizes {
		refs := make([]raysys.Ref[[]float64], 2)
		for i := range refs {
			refs[i] = rank.With(raysys.Label("rank", strconv.Itoa(i))).Go(n.Context(ctx), i, [2]int{s.bytes, s.warm + s.rounds})
		}
		got, err := raysys.GetAll(n.Context(ctx), refs).Values()
		if err != nil {
			return nil, errors.Join(err, n.Close(ctx))
		}
		took[s.bytes] = got[0]
	}
	return took, n.Close(ctx)
}

// host is the process of a rank.
func host(ctx context.Context, args []string) error {
	n, err := join(ctx, args[0], args[1], "rank-"+args[2], system.Worker)
	if err != nil {
		return err
	}
	return errors.Join(figures.Wait("ready"), n.Close(ctx))
}

func join(ctx context.Context, consul, cluster, as string, role system.Role) (*system.Node, error) {
	n, err := system.New(system.Config{Name: raysys.NodeID(as), Cluster: &system.ClusterConfig{
		Name: cluster, Consul: consul, Role: role, Labels: map[string]string{"rank": strings.TrimPrefix(as, "rank-")},
	}})
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}
