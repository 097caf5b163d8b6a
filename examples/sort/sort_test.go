package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// small is a file of eight times the budget of each node's store.
const (
	smallSize = 8 << 20
	budget    = 1 << 20
	cut       = 6 // parts and partitions: blocks are of 230 KiB, so they are objects
)

// smallSort makes a sort of a file that is generated.
func smallSort(ctx context.Context, t *testing.T) (s *sorter, input summary) {
	t.Helper()
	dir := t.TempDir()
	s = newSorter(filepath.Join(dir, "in"), filepath.Join(dir, "out"), smallSize, cut, cut, 4)
	s.log = t.Logf
	err := s.generate(ctx, 11)
	if err == nil {
		input, err = s.summarize(ctx, s.in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, input
}

// verify compares the sorted file with the input sorted the plain way.
func verify(ctx context.Context, t *testing.T, s *sorter, input summary) {
	t.Helper()
	out, err := s.summarize(ctx, s.out)
	if err == nil {
		err = out.sortedFrom(input)
	}
	if err != nil {
		t.Error(err)
	}
	in, err1 := os.ReadFile(s.in)
	got, err2 := os.ReadFile(s.out)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, inOrder(in)) {
		t.Errorf("the file is not the input in order: %v", err)
	}
}

func config() testkit.Option {
	return testkit.Config(system.Config{Resources: raysys.Resources{CPU: 2}, Objects: system.ObjectConfig{Memory: budget}})
}

// TestSort: a file of eight times the budget, in one process, strictly and not, and on a cluster.
func TestSort(t *testing.T) {
	for name, opts := range map[string][]testkit.Option{
		"process": {config(), testkit.Loose()}, "strict": {config()}, "cluster": {config(), testkit.Nodes(3)},
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, opts...)
			ctx := k.Context()
			s, input := smallSort(ctx, t)
			if err := s.sort(ctx, input.Sample); err != nil {
				t.Fatal(err)
			}
			verify(ctx, t, s, input)
			if s.report.Spilled < smallSize/2 {
				t.Errorf("%d bytes were spilled of %d, with a budget of %d: %+v", s.report.Spilled, smallSize, budget, s.report)
			}
			if name == "cluster" {
				if s.report.Moved == 0 || k.Node().Objects().ReceivedBytes > 0 {
					t.Errorf("%d bytes moved between workers, and %d to the driver", s.report.Moved, k.Node().Objects().ReceivedBytes)
				}
			}
		})
	}
}

// TestLostWorker: a worker is killed with sorted blocks on it. They are made again; nothing else is.
func TestLostWorker(t *testing.T) {
	one := testkit.Config(system.Config{Resources: raysys.Resources{CPU: 1}, Objects: system.ObjectConfig{Memory: budget}})
	k := testkit.New(t, one, testkit.Nodes(3))
	ctx := k.Context()
	s, input := smallSort(ctx, t)
	done := make(chan error, 1)
	go func() { done <- s.sort(ctx, input.Sample) }()
	victim := 0
	testkit.Eventually(t, 20*time.Second, "a worker has the blocks of a part", func() bool {
		for i := 1; i <= 3; i++ {
			if k.Cluster().Node(i).Objects().Objects > cut { // it runs one task at a time
				victim = i
			}
		}
		return victim > 0
	})
	k.Cluster().Kill(victim)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	verify(ctx, t, s, input)
	if s.report.Redone == 0 || s.report.Redone == cut {
		t.Errorf("%d of %d parts were sorted again", s.report.Redone, cut)
	}
}

// TestLostTooOften: when blocks are lost again and again, the sort ends, and says what was lost and why.
func TestLostTooOften(t *testing.T) {
	k := testkit.New(t, config(), testkit.Nodes(2))
	ctx := k.Context()
	s, input := smallSort(ctx, t)
	s.again = 0
	s.cuts = splitters(input.Sample, cut)
	if err := errors.Join(blank(s.out, smallSize), s.mapParts(ctx, count(cut))); err != nil {
		t.Fatal(err)
	}
	k.Cluster().Kill(1)
	_, err := s.mergePartitions(ctx)
	if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "n1") {
		t.Errorf("%v", err)
	}
	if err != nil {
		t.Log(err)
	}
}
