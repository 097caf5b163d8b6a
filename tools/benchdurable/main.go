// Command benchdurable measures calls that count once ("add n, return the sum"): of raysys's Durable grains, of
// Restate's virtual objects, and of DBOS's workflows over Postgres, in turn, so that they meet the same machine.
//
//	make bench-durable
//
//	this process ──► a process for each side and turn, which calls the counters
//	                 ├── raysys, three nodes: three workers, and a Consul on disk
//	                 ├── raysys, solo: nothing more, its data in a folder
//	                 ├── Restate: a restate-server; the calling process serves the object
//	                 └── DBOS: a Postgres; the calling process runs the workflows
//
// Each side has new processes and an empty folder in each turn, and writes through to the disk before it answers. A
// turn has four parts: 1, 100 and 1,000 callers of 1,000 counters, and 100 callers of one. A side has two turns a
// round, without keys and with a key for each call, by which it may be made again. Every second round has the turns in
// the other order. A side that needs what is not on this machine is skipped.
//
// The tool fails where a sum comes twice, or a call is lost or counted twice: see package countload. A ratio is of the
// calls/s of one round, to the best of the peers.
//
// It is a module of its own, so that no user of raysys gets the libraries of the others.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/tools/internal/countload"
	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	rounds  = flag.Int("rounds", 5, "how often each side is measured")
	each    = flag.Duration("for", 20*time.Second, "how long each part is measured")
	only    = flag.String("only", "", "the sides to measure, with commas: nodes, solo, restate, dbos; empty: all")
	restate = flag.String("restate", "", "the path of restate-server, or a pattern of it")
)

// side is a system under load.
type side struct {
	id, name string
	// missing says what the side needs and this machine has not; nil where it can be measured.
	missing func() error
	// start starts what serves the counters, with its data in dir. With keyed a call's id is its key.
	start func(ctx context.Context, dir string, keyed bool) (countload.Peer, error)
}

var allSides = []side{
	{"nodes", "raysys, three nodes", consulMissing, startNodes},
	{"solo", "raysys, solo", func() error { return nil }, startSolo},
	{"restate", "Restate", restateMissing, startRestate},
	{"dbos", "DBOS", postgresMissing, startDBOS},
}

func main() { figures.Main(measure, host) }

func measure(context.Context) error {
	if *rounds < 1 || *each <= 0 {
		return errors.New("-rounds and -for must be above 0")
	}
	if err := countload.CheckUsage(); err != nil {
		return err
	}
	list, err := chooseSides(*only)
	if err != nil {
		return err
	}
	t := countload.Table{Each: *each}
	var turns []func() error
	for _, s := range list {
		if err := s.missing(); err != nil {
			t.Skipped = append(t.Skipped, fmt.Sprintf("%s was skipped: %v.", s.name, err))
			fmt.Fprintln(os.Stderr, t.Skipped[len(t.Skipped)-1])
			continue
		}
		for _, keyed := range []bool{false, true} {
			l := &countload.Line{Name: s.name, Keyed: keyed, Ours: strings.HasPrefix(s.name, "raysys")}
			t.Lines = append(t.Lines, l)
			turns = append(turns, func() error { return measureTurn(s, l) })
		}
	}
	if len(turns) == 0 {
		return errors.New("no side can be measured here")
	}
	t.Loads, err = figures.InTurn(*rounds, 1, func(round, _ int) error {
		for _, i := range countload.OrderRound(round, len(turns)) {
			if err := turns[i](); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := t.Wrong(); err != nil {
		fmt.Print(t.String()) // and not into a document
		return err
	}
	return figures.Publish("bench-durable", t.String())
}

// chooseSides returns the sides with these ids; all for "".
func chooseSides(ids string) (list []side, err error) {
	if ids == "" {
		return allSides, nil
	}
	for id := range strings.SplitSeq(ids, ",") {
		i := slices.IndexFunc(allSides, func(s side) bool { return s.id == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no side %q: give some of nodes, solo, restate and dbos", id)
		}
		list = append(list, allSides[i])
	}
	return list, nil
}

// measureTurn measures a side once, in a process of its own.
func measureTurn(s side, l *countload.Line) error {
	how := "plain"
	if l.Keyed {
		how = "keyed"
	}
	cmd := figures.Child(s.id, how)
	cmd.Args = slices.Insert(cmd.Args, 1, "-for", each.String(), "-restate", *restate)
	out, err := figures.Output(cmd)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s, %s:", s.name, how)
	for text := range bytes.Lines(out) {
		var r countload.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %q: %w", s.name, text, err)
		}
		l.Add(r)
		fmt.Fprintf(os.Stderr, " %s %.0f/s", r.Part, r.Rate)
		if r.Failed > 0 {
			fmt.Fprintf(os.Stderr, " (%d calls failed, the last one: %s)", r.Failed, r.Error)
		}
	}
	fmt.Fprintln(os.Stderr)
	return nil
}

// host is the process of a turn, or a node that such a process started.
func host(ctx context.Context, args []string) error {
	if args[0] == "node" {
		return hostNode(ctx, args[1], args[2])
	}
	list, err := chooseSides(args[0])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "benchdurable-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keyed := args[1] == "keyed"
	p, err := list[0].start(ctx, dir, keyed)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	err = countload.Load(p, keyed, *each, func(r countload.Result) error { return out.Encode(r) })
	return errors.Join(err, p.End())
}
