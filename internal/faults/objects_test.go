package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// blob names an object whose bytes everybody can make.
type blob struct {
	Seed byte
	Size int
}

// make fills in the bytes, all of which differ with the seed and with their place.
//
//go:norace
func (b blob) make() []byte {
	out := make([]byte, b.Size)
	for i := range out {
		out[i] = byte(i>>16)*59 + byte(i>>8)*31 + byte(i)*7 + b.Seed
	}
	return out
}

func (b blob) sum() uint32 { return crc32.ChecksumIEEE(b.make()) }

// is says what is wrong with bytes that should be b's.
func (b blob) is(got []byte) error {
	if want := b.make(); !bytes.Equal(got, want) {
		return fmt.Errorf("WRONG BYTES: %d of them where blob %v has %d", len(got), b, len(want))
	}
	return nil
}

var (
	// makeBlob's result is owned by the node that it runs on, and so is what putBlob puts.
	makeBlob = tasks.Define("faults.makeBlob", func(_ context.Context, b blob) ([]byte, error) { return b.make(), nil })
	putBlob  = tasks.Define("faults.putBlob", func(ctx context.Context, b blob) (raysys.Ref[[]byte], error) {
		return raysys.Put(ctx, b.make()), nil
	})
	// sumBlob gets a reference's value, viewBlob looks at it, and both return its checksum.
	sumBlob = tasks.Define("faults.sumBlob", func(ctx context.Context, h raysys.Handle[[]byte]) (uint32, error) {
		b, err := h.Ref().Get(ctx)
		return crc32.ChecksumIEEE(b), err
	})
	viewBlob = tasks.Define("faults.viewBlob", func(ctx context.Context, h raysys.Handle[[]byte]) (sum uint32, err error) {
		err = raysys.View(ctx, h.Ref(), func(b []byte) error {
			sum = crc32.ChecksumIEEE(b)
			return nil
		})
		return sum, err
	})
)

// holdBlob looks at a reference's value, says so, and holds the reference until it is cancelled: its node keeps a copy.
var (
	holdBlob = tasks.Define("faults.holdBlob", func(ctx context.Context, h raysys.Handle[[]byte]) (bool, error) {
		err := raysys.View(ctx, h.Ref(), func([]byte) error { return nil })
		if err != nil {
			return false, err
		}
		held <- struct{}{}
		<-ctx.Done()
		runtime.KeepAlive(h)
		return true, nil
	})
	held = make(chan struct{})
)

// on places a task on one node of a Kit or Procs that labels its nodes.
func on(node string) raysys.Option { return raysys.Label("node", node) }

// labelled gives each node of a Kit its label, and all of them cfg.
func labelled(o system.ObjectConfig, more ...func(i int, cfg *system.Config)) testkit.Option {
	return testkit.Each(func(i int, cfg *system.Config) {
		cfg.Cluster.Labels = map[string]string{"node": fmt.Sprint("n", i)}
		cfg.Objects = o
		for _, f := range more {
			f(i, cfg)
		}
	})
}

// typed reports an error that says nothing to a program.
func typed(err error) bool {
	for _, known := range []error{
		raysys.ErrObjectLost, raysys.ErrStoreFull, raysys.ErrNodeDead, raysys.ErrOutcomeUnknown, raysys.ErrNotDelivered, raysys.ErrInvalidRef,
		raysys.ErrReleased, raysys.ErrDeadline, raysys.ErrClosed, raysys.ErrCancelled,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// patience bounds what must not hang.
const patience = 60 * time.Second

// empty waits until no node holds an object, nor a future for another. Cleanups need collections.
func empty(t testing.TB, nodes ...*system.Node) {
	t.Helper()
	left := ""
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		runtime.GC()
		left = ""
		for _, n := range nodes {
			m, err := n.Memory(context.Background(), n.Name(), 5)
			if err != nil {
				t.Fatal(err)
			}
			for _, held := range m.Nodes {
				if held.Store.Objects > 0 || held.Exported > 0 || held.Count > 0 || held.Store.Disk > 0 {
					left += fmt.Sprintf("%s: %d exported, %+v\n  %+v\n", n.Name(), held.Exported, held.Store, held.Objects)
				}
			}
		}
		if left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v is everything freed:\n%s", patience, left)
		}
	}
}
