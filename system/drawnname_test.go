package system_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
)

// TestDrawnNameUnused: a submitter that dies while the recipe of its task has files under a name, and no record has the name, leaves
// neither: they go when orphans do. So it is where nodes with the files began anew since. The name in a task's record stays.
func TestDrawnNameUnused(t *testing.T) {
	t.Run("the nodes live", func(t *testing.T) { drawnNameUnused(t, false) })
	t.Run("the nodes begin anew", func(t *testing.T) { drawnNameUnused(t, true) })
}

func drawnNameUnused(t *testing.T, anew bool) {
	inBubble(t, func(b *bubble) {
		t, dirs := b.t, disks{}
		worker := func(name raysys.NodeID) system.Config {
			if dirs[name] == "" {
				dirs[name] = t.TempDir()
			}
			cfg := b.config(name, "")
			cfg.Objects.Spill, cfg.Objects.Disk = dirs[name], 1<<30
			return cfg
		}
		w1, end1 := b.start(worker("w1"))
		_, end2 := b.start(worker("w2"))
		b.end = append(b.end, func() { end1() }, func() { end2() })
		s, sctx := b.join("s", system.Driver) // as most drivers, without a directory
		d, _ := b.join("d", system.Driver)
		gate := newGate()
		arg, _ := loaded(gate, 20<<10)
		lost := measure.With(raysys.Detached("lost")).Go(sctx, arg)
		named := measure.With(raysys.Detached("named")).Go(sctx, arg)
		var names []string
		for _, r := range []*core.Future{core.FutureOf(lost.Link), core.FutureOf(named.Link)} {
			settles(t, "the task is recorded", func() bool {
				rec, err := system.TaskRecord(d, r)
				return err == nil && len(rec.Recipe) > 0
			})
			for nth := 1; nth <= 2; nth++ { // they were made in any order
				name := system.RecipeName(s, r, nth)
				if owner, _, err := system.OwnerOf(d, name); err == nil && owner == "s" {
					names = append(names, name)
				}
			}
		}
		if n := dirs.files(t); len(names) != 2 || n != 4 {
			t.Fatalf("%d recipes have names and %d files, want 2 and 4", len(names), n)
		}
		// What is left is what a submitter leaves that dies before the record is there.
		if err := system.ForgetRecord(d, core.FutureOf(lost.Link)); err != nil {
			t.Fatal(err)
		}
		if err := s.Kill(context.Background(), errShort); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if anew {
			end1()
			end2()
			w1, end1 = b.start(worker("w1"))
			_, end2 = b.start(worker("w2"))
		}
		<-time.After(8 * time.Minute)
		if _, copies, err := system.OwnerOf(d, names[0]); copies != 2 || err != nil {
			t.Errorf("soon after the death the name that no record has stands for %d copies, %v; want 2", copies, err)
		}
		<-time.After(4 * time.Minute)
		for i, want := range []int{0, 2} {
			if _, copies, err := system.OwnerOf(w1, names[i]); copies != want || err != nil {
				t.Errorf("name %d stands for %d copies, %v; want %d", i, copies, err, want)
			}
		}
		if n := dirs.files(t); n != 2 {
			t.Errorf("there are %d files, want 2: those of the recipe that a record names", n)
		}
		openGate(gate)
	})
}

// files is how many files of objects there are.
func (d disks) files(t *testing.T) (n int) {
	t.Helper()
	for _, dir := range d {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".obj" {
				n++
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	return n
}
