package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tools/internal/figures"
)

const (
	size  = 1 << 10   // bytes of an item
	most  = 100_000   // items of the table
	many  = 1024      // items of one Insert
	batch = 256       // items of one sample
	ahead = 2         // samples
	piece = 256 << 10 // bytes that bare TCP writes at a time

	raw = "raw"
)

// step is what an item has.
type step struct{ X []byte }

var server = replay.Define[step]("replay", replay.Config{Tables: []replay.Table{{Name: "t", Sampler: replay.Prioritized(0.6), MaxSize: most}}})

// ours measures raysys, in a new cluster.
func ours(ctx context.Context, consul string, turn int, f rates) error {
	cluster := "benchreverb-" + strconv.Itoa(turn)
	address, end, err := figures.Launch(figures.Child(consul, cluster))
	if err != nil {
		return err
	}
	defer end()
	n, err := join(ctx, consul, cluster, "driver", system.Driver)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return errors.Join(measureOurs(n.Context(ctx), conn, f), n.Close(ctx))
}

func measureOurs(ctx context.Context, conn net.Conn, f rates) error {
	items, priorities := make([]step, many), make([]float64, many)
	random := rand.NewChaCha8([32]byte{})
	for i := range items {
		items[i].X = make([]byte, size)
		_, _ = random.Read(items[i].X) // never fails
		priorities[i] = 0.1 + 0.9*rand.Float64()
	}
	c := server.Get("run")
	w, err := c.Writer(replay.NStep("t", 1))
	if err != nil {
		return err
	}
	s := c.Sampler("t", batch, ahead)
	defer s.Close()
	buffer := make([]byte, piece)
	none := func() error { return nil }
	return errors.Join(
		f.repeat("insert Insert", many, func() error { return c.Insert(ctx, "t", items, priorities) }, none),
		f.repeat("insert Writer", many, func() error {
			for _, x := range items {
				if err := w.Append(ctx, x); err != nil {
					return err
				}
			}
			return nil
		}, func() error { return w.Flush(ctx) }),
		f.repeat("sample Client.Sample", batch, func() error { return checked(c.Sample(ctx, "t", batch)) }, none),
		f.repeat("sample Sampler", batch, func() error { return checked(s.Next(ctx)) }, none),
		f.repeat(raw, piece/size, func() error {
			_, err := conn.Write(buffer)
			return err
		}, none),
	)
}

func checked(s replay.Samples[step], err error) error {
	if err == nil && (s.Len() != batch || len(s.Steps[batch-1].X) != size) {
		err = fmt.Errorf("%d samples, not %d", s.Len(), batch)
	}
	return err
}

// repeat measures what makes n items, after once that is not measured.
func (f rates) repeat(name string, n int, make, end func() error) error {
	if err := make(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	made, begin := 0, time.Now()
	for ; time.Since(begin) < *lasts; made += n {
		if err := make(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	err := end()
	f.add(name, float64(made)/time.Since(begin).Seconds())
	return err
}

//go:embed peer.py
var peer string

// reverb measures Reverb, with a new server.
func reverb(f rates) error {
	run := func(args ...string) *exec.Cmd {
		return exec.Command(*python, append([]string{"-c", peer}, args...)...)
	}
	port, end, err := figures.Launch(run("server", strconv.Itoa(most)))
	if err != nil {
		return err
	}
	defer end()
	out, err := figures.Output(run("client", port, fmt.Sprint(lasts.Seconds())))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		rate, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		f.add(name, rate)
	}
	return nil
}

// host is the process that has the shard, and reads what bare TCP brings.
func host(ctx context.Context, args []string) error {
	n, err := join(ctx, args[0], args[1], "worker", system.Worker)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			for b := make([]byte, piece); err == nil; _, err = c.Read(b) {
			}
		}
	}()
	return errors.Join(figures.Wait(l.Addr()), l.Close(), n.Close(ctx))
}

func join(ctx context.Context, consul, cluster, as string, role system.Role) (*system.Node, error) {
	n, err := system.New(system.Config{Name: raysys.NodeID(as), Cluster: &system.ClusterConfig{Name: cluster, Consul: consul, Role: role}})
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}
