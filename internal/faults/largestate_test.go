//go:build unix

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// atlas is a grain whose State is as large as the test likes.
type atlas struct {
	pages grains.State[atlasPages]
	count grains.State[int]
}

type atlasPages struct{ Bytes []byte }

// atlases is a kind of it, whose turns are transactions or not.
type atlases struct {
	kind grains.Kind[atlas]
	set  grains.Act[atlas, blob]
	sum  grains.Func0[atlas, uint32]
	at   grains.Func0[atlas, string]
}

func newAtlases(name string, write bool, opts ...grains.Option) atlases {
	kind := grains.Define[atlas](name, opts...)
	return atlases{
		kind: kind,
		set: grains.Action(kind, "set", func(a *atlas, ctx context.Context, b blob) error {
			a.pages.Value.Bytes = b.make()
			a.count.Value++
			if write {
				return errors.Join(a.pages.Write(ctx), a.count.Write(ctx))
			}
			return nil
		}),
		sum: grains.Method0(kind, "sum", func(a *atlas, _ context.Context) (uint32, error) {
			return crc32.ChecksumIEEE(a.pages.Value.Bytes), nil
		}).ReadOnly().Idempotent(),
		at: grains.Method0(kind, "at", func(_ *atlas, ctx context.Context) (string, error) {
			t, _, err := core.TurnOf(ctx)
			if err != nil {
				return "", err
			}
			return string(t.Job().Node), nil
		}).ReadOnly().Idempotent(),
	}
}

var (
	writtenAtlases = newAtlases("faults.atlas", true)
	durableAtlases = newAtlases("faults.durableAtlas", false, grains.Durable())
)

// onAtlases runs f with grains of both kinds on a virtual cluster whose nodes have disks.
func onAtlases(t *testing.T, nodes int, f func(d *atlasDisks), more ...func(i int, cfg *system.Config)) {
	for name, kind := range map[string]atlases{"written": writtenAtlases, "durable": durableAtlases} {
		t.Run(name, func(t *testing.T) { onAtlas(t, kind, nodes, f, more...) })
	}
}

// onAtlas is onAtlases for one kind.
func onAtlas(t *testing.T, kind atlases, nodes int, f func(d *atlasDisks), more ...func(i int, cfg *system.Config)) {
	base := t.TempDir()
	each := labelled(system.ObjectConfig{Disk: 1 << 30}, append([]func(int, *system.Config){func(i int, cfg *system.Config) {
		cfg.Name = raysys.NodeID(fmt.Sprint("n", i))
		if i > 0 {
			cfg.Objects.Spill = filepath.Join(base, fmt.Sprint("n", i))
		}
	}}, more...)...)
	testkit.Virtual(t, func(k *testkit.Kit) {
		d := &disks{t: t, ctx: k.Context(), base: base, Cluster: k.Cluster()}
		f(&atlasDisks{disks: d, atlases: kind, k: k, g: kind.kind.Get("x"), nodes: nodes})
	}, testkit.Nodes(nodes), testkit.Seed(long.Seed()), each)
}

// atlasDisks is a cluster with one such grain.
type atlasDisks struct {
	*disks
	atlases
	k     *testkit.Kit
	g     grains.Grain[atlas]
	nodes int
}

func (d *atlasDisks) write(b blob) {
	d.k.T().Helper()
	if _, err := d.set.Call(d.ctx, d.g, b).Get(d.ctx); err != nil {
		d.k.T().Fatalf("write a State of %d bytes: %v", b.Size, err)
	}
}

func (d *atlasDisks) reads(when string, b blob) {
	d.k.T().Helper()
	if sum, err := d.sum.Call(d.ctx, d.g).Get(d.ctx); err != nil || sum != b.sum() {
		d.k.T().Fatalf("%s: the State of %d bytes reads as sum %x, %v; want %x", when, b.Size, sum, err, b.sum())
	}
}

// host is the number of the grain's node.
func (d *atlasDisks) host() int {
	d.k.T().Helper()
	name, err := d.at.Call(d.ctx, d.g).Get(d.ctx)
	if err != nil {
		d.k.T().Fatal(err)
	}
	for i := 1; i <= d.nodes; i++ {
		if name == fmt.Sprint("n", i) {
			return i
		}
	}
	d.k.T().Fatalf("the grain is on %q", name)
	return 0
}

// holders are the nodes with files.
func (d *atlasDisks) holders() (nodes []int) {
	for i := 1; i <= d.nodes; i++ {
		for range d.files(i) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// hasFiles waits until so many files are there.
func (d *atlasDisks) hasFiles(when string, n int) {
	d.k.T().Helper()
	testkit.Eventually(d.t, 30*time.Minute, fmt.Sprintf("%s: %d files", when, n), func() bool {
		d.k.Advance(time.Second)
		return len(d.holders()) == n
	})
}

func (d *atlasDisks) restartAll() {
	d.k.T().Helper()
	for i := 1; i <= d.nodes; i++ {
		d.kill(i)
	}
	for i := 1; i <= d.nodes; i++ {
		d.Cluster.Restart(i)
	}
	d.Ready()
}

func pages(n byte, size int) blob { return blob{n, size} }

// TestLargeState: a State above 128 KiB lies on the disks of two nodes: it outlives the node of its grain, and all nodes; a
// version that is replaced goes.
func TestLargeState(t *testing.T) {
	onAtlases(t, 3, func(d *atlasDisks) {
		d.write(pages(1, 1<<20))
		two := d.holders()
		if len(two) != 2 || two[0] == two[1] || !slices.Contains(two, d.host()) {
			d.k.T().Fatalf("the State of a grain on n%d lies on the disks of %v: want two nodes, and that one", d.host(), two)
		}
		killed := d.host()
		d.kill(killed)
		d.reads("its node was killed", pages(1, 1<<20))
		d.Cluster.Restart(killed)
		d.Ready()
		d.write(pages(2, 3<<20))
		d.reads("written again", pages(2, 3<<20))
		d.hasFiles("the version before is replaced", 2)
		d.restartAll()
		d.reads("all nodes began anew", pages(2, 3<<20))
		d.write(pages(3, 100))
		d.hasFiles("the State is small", 0)
		d.write(pages(4, 200_000))
		d.hasFiles("the State is large again", 2)
		d.restartAll()
		d.reads("all nodes began anew", pages(4, 200_000))
		d.hasFiles("all nodes began anew", 2)
	})
}

// TestLargeStateLostDisk: the file of a lost disk is made anew from the other node; with both disks lost the State is
// unreadable, and stays as it is.
func TestLargeStateLostDisk(t *testing.T) {
	onAtlases(t, 3, func(d *atlasDisks) {
		d.write(pages(1, 1<<20))
		two := d.holders()
		lose := func(nodes ...int) {
			for i := 1; i <= d.nodes; i++ {
				d.kill(i)
			}
			for _, i := range nodes {
				must(t, os.RemoveAll(d.dir(i)))
			}
			for i := 1; i <= d.nodes; i++ {
				d.Cluster.Restart(i)
			}
			d.Ready()
		}
		lose(two[0])
		d.reads("one of its disks was lost", pages(1, 1<<20))
		d.hasFiles("one of its disks was lost", 2)
		lose(two[1])
		d.reads("the other disk was lost", pages(1, 1<<20))
		d.hasFiles("the other disk was lost", 2)
		lose(two...)
		unreadable := func(when string) {
			if _, err := d.sum.Call(d.ctx, d.g).Get(d.ctx); !errors.Is(err, grains.ErrUnreadable) || !errors.Is(err, raysys.ErrObjectLost) {
				d.k.T().Errorf("%s: %v, want ErrUnreadable and ErrObjectLost", when, err)
			}
		}
		unreadable("both disks were lost")
		if _, err := d.set.Call(d.ctx, d.g, pages(2, 10)).Get(d.ctx); err == nil {
			d.k.T().Error("a State that cannot be read is overwritten")
		}
		unreadable("a call wanted to write it")
	})
}

// TestLargeStateAway: while both nodes with a file are away, and one may come back, the State is unreachable and not lost.
func TestLargeStateAway(t *testing.T) {
	onAtlases(t, 3, func(d *atlasDisks) {
		d.write(pages(1, 1<<20))
		two := d.holders()
		d.kill(two...)
		_, err := d.sum.With(raysys.Deadline(time.Minute)).Call(d.ctx, d.g).Get(d.ctx)
		if !errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrObjectLost) {
			d.k.T().Errorf("both nodes are away: %v, want ErrUnreachable", err)
		}
		d.Restart(two[1])
		d.reads("one of them is back", pages(1, 1<<20))
	})
}

// TestLargeStateCrash: nodes are killed at any moment of a write. The State is that of the write or the one before, never older
// than one that was acknowledged, and in the end there are the two files of that version and no other.
func TestLargeStateCrash(t *testing.T) {
	onAtlases(t, 3, func(d *atlasDisks) {
		d.write(pages(1, 200_000))
		last := pages(1, 200_000)
		for round := range byte(long.Form(4, 40)) {
			next := pages(10+round, 300_000+1000*int(round))
			victim := 1 + d.k.Rand().IntN(d.nodes)
			if d.k.Rand().IntN(2) == 0 {
				victim = d.host()
			}
			d.DiskSlow(victim, time.Duration(d.k.Rand().IntN(20))*time.Millisecond)
			done := make(chan error, 1)
			go func() {
				_, err := d.set.Call(d.ctx, d.g, next).Get(d.ctx)
				done <- err
			}()
			d.k.Advance(time.Duration(d.k.Rand().IntN(60)) * time.Millisecond)
			d.Kill(victim)
			err := <-done
			d.DiskSlow(victim, 0)
			sum, bad := d.sum.Call(d.ctx, d.g).Get(d.ctx)
			switch {
			case bad != nil:
				d.k.T().Fatalf("round %d: after the kill the State cannot be read: %v", round, bad)
			case sum == next.sum():
				last = next
			case err == nil:
				d.k.T().Fatalf("round %d: a write was acknowledged, and the State reads as another", round)
			case sum != last.sum():
				d.k.T().Fatalf("round %d: the State is neither that of the last write nor the one before", round)
			}
			d.kill(victim)
			d.Restart(victim)
		}
		d.reads("at the end", last)
		d.hasFiles("at the end", 2)
		d.restartAll()
		d.reads("all nodes began anew", last)
		d.hasFiles("all nodes began anew", 2)
	})
}

// TestLargeStateRefused: a State that the disks do not take fails its write with a typed error, and stays as it was.
func TestLargeStateRefused(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		spare func(i int, cfg *system.Config) // takes disks away
		want  error
		files int // of the large State
	}{
		"no disk":     {2, func(_ int, cfg *system.Config) { cfg.Objects.Spill = "" }, raysys.ErrNoStore, 0},
		"a full disk": {2, func(_ int, cfg *system.Config) { cfg.Objects.Disk = 100_000 }, raysys.ErrStoreFull, 0},
		"one node":    {1, func(int, *system.Config) {}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onAtlases(t, c.nodes, func(d *atlasDisks) {
				d.write(pages(1, 100))
				_, err := d.set.Call(d.ctx, d.g, pages(2, 300_000)).Get(d.ctx)
				if !errors.Is(err, c.want) {
					d.k.T().Errorf("written with %v, want %v", err, c.want)
				}
				if n := len(d.holders()); n != c.files {
					d.k.T().Errorf("%d files, want %d", n, c.files)
				}
				if c.want != nil {
					d.reads("after the write that was refused", pages(1, 100))
					return
				}
				d.restartAll()
				d.reads("the node began anew", pages(2, 300_000))
			}, c.spare)
		})
	}
	t.Run("the other node has no disk", func(t *testing.T) {
		onAtlases(t, 2, func(d *atlasDisks) {
			d.write(pages(1, 100))
			_, err := d.set.Call(d.ctx, d.g, pages(2, 300_000)).Get(d.ctx)
			if want := []error{nil, raysys.ErrNoCapacity, raysys.ErrNoStore}[d.host()]; !errors.Is(err, want) {
				d.k.T().Errorf("written on n%d with %v, want %v", d.host(), err, want)
			}
			d.reads("after the write that was refused", pages(1, 100))
			d.hasFiles("after the write that was refused", 0)
		}, func(i int, cfg *system.Config) {
			if i == 2 {
				cfg.Objects.Spill = ""
			}
		})
	})
}

// TestLargeStateDrain: a node that leaves for good leaves its States on two disks.
func TestLargeStateDrain(t *testing.T) {
	onAtlases(t, 4, func(d *atlasDisks) {
		d.write(pages(1, 1<<20))
		two := d.holders()
		for _, i := range two {
			d.Drain(i)
		}
		var rest []int
		for i := 1; i <= d.nodes; i++ {
			if !slices.Contains(two, i) {
				rest = append(rest, i)
				d.kill(i)
			}
		}
		for _, i := range rest {
			d.Cluster.Restart(i)
		}
		d.Ready()
		// That the nodes which the State's record names are away is all that a reader knows until a node with a copy has looked at
		// its files.
		testkit.Eventually(d.k.T(), patience, "the State can be read", func() bool {
			_, err := d.sum.Call(d.ctx, d.g).Get(d.ctx)
			if err != nil && !errors.Is(err, raysys.ErrUnreachable) {
				d.k.T().Fatalf("the nodes that wrote it have left, the others began anew: %v", err)
			}
			return err == nil
		})
		d.reads("the nodes that wrote it have left, the others began anew", pages(1, 1<<20))
	})
}

// TestLargeStateUnwritten: the node of a grain is killed after the other node has begun its file, and before the commit. The
// State is the one before, and both files go.
func TestLargeStateUnwritten(t *testing.T) {
	onAtlas(t, writtenAtlases, 3, func(d *atlasDisks) { // a durable call is made again
		d.write(pages(1, 200_000))
		host := d.host()
		slow := func(by time.Duration) {
			for i := 1; i <= d.nodes; i++ {
				if i != host {
					d.DiskSlow(i, by)
				}
			}
		}
		slow(time.Second)
		done := make(chan struct{})
		go func() {
			_, _ = d.set.Call(d.ctx, d.g, pages(2, 300_000)).Get(d.ctx)
			close(done)
		}()
		d.k.Advance(500 * time.Millisecond)
		d.Kill(host)
		<-done
		d.k.Advance(10 * time.Second)
		slow(0)
		if n := len(d.holders()); n < 3 { // the store of the host, which is no process of its own, may have ended in good order
			d.k.T().Fatalf("%d files, not those of two versions: the test shows nothing", n)
		}
		d.reads("its node was killed before the commit", pages(1, 200_000))
		d.kill(host)
		d.Restart(host)
		d.hasFiles("the writer is dead", 2)
		d.reads("the files of the unwritten version are gone", pages(1, 200_000))
	})
}
