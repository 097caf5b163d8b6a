//go:build unix

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// diskPut says what to put on disk, and where.
type diskPut struct {
	Name     string
	Blob     blob
	Replicas int
}

// putOnDisk puts on disk, from the node that it runs on; it returns the node's name.
var putOnDisk = tasks.Define("faults.putOnDisk", func(ctx context.Context, p diskPut) (string, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return "", err
	}
	_, err = raysys.Put(ctx, p.Blob.make(), raysys.Named(p.Name), raysys.OnDisk(), raysys.Replicas(p.Replicas)).Get(ctx)
	return string(t.Job().Node), err
})

// disks is a cluster whose nodes have a directory each.
type disks struct {
	*testkit.Cluster
	t    *testing.T
	ctx  context.Context
	base string
}

func newDisks(t *testing.T, nodes int) *disks {
	d := &disks{t: t, base: t.TempDir()}
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(nodes), labelled(system.ObjectConfig{Disk: 1 << 30}, func(i int, cfg *system.Config) {
		cfg.Name = raysys.NodeID(fmt.Sprint("n", i))
		cfg.Objects.Spill = d.dir(i)
	}))
	d.ctx, d.Cluster = k.Context(), k.Cluster()
	return d
}

// Restart starts node i again, and returns when the others see it: a lookup from one that does not says that its file is away.
func (d *disks) Restart(i int) {
	d.t.Helper()
	d.Cluster.Restart(i)
	d.Ready()
}

func (d *disks) dir(i int) string { return filepath.Join(d.base, fmt.Sprint("n", i)) }

// put puts on disk, from node i.
func (d *disks) put(i int, name string, b blob, replicas int) {
	d.t.Helper()
	if _, err := putOnDisk.With(on(fmt.Sprint("n", i))).Go(d.ctx, diskPut{name, b, replicas}).Get(d.ctx); err != nil {
		d.t.Fatalf("put %s on the disk of n%d: %v", name, i, err)
	}
}

// files are those of objects in the directory of node i.
func (d *disks) files(i int) []string {
	d.t.Helper()
	list, err := filepath.Glob(filepath.Join(d.dir(i), "*", "*.obj"))
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}

// kill kills nodes, and waits until the directories of their stores are free, as those of dead processes are at once.
func (d *disks) kill(nodes ...int) {
	d.t.Helper()
	for _, i := range nodes {
		d.Kill(i)
	}
	for _, i := range nodes {
		testkit.Eventually(d.t, patience, fmt.Sprintf("the store of n%d has ended", i), func() bool { return free(d.t, d.dir(i)) })
	}
}

// free reports whether no store uses a directory below dir.
func free(t *testing.T, dir string) bool {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(dir, "*", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range locks {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		f.Close()
		if err != nil {
			return false
		}
	}
	return true
}

// has checks that a lookup finds the bytes.
func (d *disks) has(when, name string, b blob) {
	d.t.Helper()
	got, err := raysys.Lookup[[]byte](d.ctx, name).Get(d.ctx)
	if err != nil || b.is(got) != nil {
		d.t.Errorf("%s: %s: %v, %v", when, name, err, b.is(got))
	}
}

// fails checks that a lookup ends with an error that says something.
func (d *disks) fails(when, name string, kind error, says ...string) {
	d.t.Helper()
	_, err := raysys.Lookup[[]byte](d.ctx, name).Get(d.ctx)
	if !errors.Is(err, kind) {
		d.t.Errorf("%s: %s: %v, not %v", when, name, err, kind)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			d.t.Errorf("%s: %s: %v: it does not say %q", when, name, err, s)
		}
	}
}

// TestOnDiskOutlivesAllNodes: after every worker was killed, what was put on disk is unreachable until one of the nodes
// that have its file is back, whichever it is, and then it is there.
func TestOnDiskOutlivesAllNodes(t *testing.T) {
	for first := 1; first <= 2; first++ {
		t.Run(fmt.Sprintf("n%d first", first), func(t *testing.T) {
			d := newDisks(t, 3)
			b := blob{1, 3<<20 + 5}
			d.put(1, "weights", b, 3)
			d.put(1, "alone", blob{2, 200_000}, 1)
			for i := 1; i <= 3; i++ {
				if want := 1 + 1/i; len(d.files(i)) != want {
					t.Errorf("n%d has %d files, not %d", i, len(d.files(i)), want)
				}
			}
			d.has("before", "weights", b)
			d.kill(1, 2, 3)
			d.Restart(first)
			d.has("one node is back", "weights", b)
			if first == 2 {
				d.fails("its only node is away", "alone", raysys.ErrUnreachable, "n1")
			}
			for i := 1; i <= 3; i++ {
				if i != first {
					d.Restart(i)
				}
			}
			d.has("all nodes are back", "weights", b)
			d.has("all nodes are back", "alone", blob{2, 200_000})
			if err := raysys.Forget(d.ctx, "weights"); err != nil {
				t.Fatal(err)
			}
			d.fails("forgotten", "weights", raysys.ErrNotFound)
			d.noFiles(2, 3)
		})
	}
}

// noFiles waits until nodes have no file left.
func (d *disks) noFiles(nodes ...int) {
	d.t.Helper()
	for _, i := range nodes {
		testkit.Eventually(d.t, patience, fmt.Sprintf("n%d has deleted its files", i), func() bool {
			runtime.GC()
			return len(d.files(i)) == 0
		})
	}
}

// TestOnDiskForgottenMeanwhile: a node that comes back deletes a file whose name was forgotten, or has another object by
// then.
func TestOnDiskForgottenMeanwhile(t *testing.T) {
	d := newDisks(t, 3)
	d.put(1, "forgotten", blob{1, 200_000}, 1)
	d.put(1, "replaced", blob{2, 200_000}, 1)
	d.kill(1)
	if err := raysys.Forget(d.ctx, "forgotten"); err != nil {
		t.Fatal(err)
	}
	d.put(2, "replaced", blob{3, 200_000}, 2)
	if len(d.files(1)) != 2 {
		t.Fatalf("the killed node has %d files: the test shows nothing", len(d.files(1)))
	}
	d.Restart(1)
	d.noFiles(1)
	d.fails("the node that had it is back", "forgotten", raysys.ErrNotFound)
	d.has("the node that had the older one is back", "replaced", blob{3, 200_000})
}

// TestOnDiskDamaged: damage of a file is found, another node serves, and the file is made anew; without another node
// the error names the file.
func TestOnDiskDamaged(t *testing.T) {
	for how, damage := range map[string]func(t *testing.T, name string){
		"cut":     func(t *testing.T, name string) { must(t, os.Truncate(name, 100_000)) },
		"deleted": func(t *testing.T, name string) { must(t, os.Remove(name)) },
		"changed": func(t *testing.T, name string) {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("rot"), 150_000)
			must(t, errors.Join(err, f.Close()))
		},
	} {
		t.Run(how, func(t *testing.T) {
			d := newDisks(t, 2)
			two, one := blob{1, 300_000}, blob{2, 250_000}
			d.put(1, "two", two, 2)
			d.kill(1, 2)
			damage(t, d.files(1)[0])
			d.Restart(2)
			d.Restart(1)
			// A reader on the node with the damaged file. One that comes before the node has looked at its file gets the bytes
			// from the other node, and does not see the damage.
			read := func() {
				sum, err := sumBlob.With(on("n1")).Go(d.ctx, raysys.Lookup[[]byte](d.ctx, "two").Handle()).Get(d.ctx)
				if err != nil || sum != two.sum() {
					t.Errorf("read on the node whose file was %s: sum %x, %v", how, sum, err)
				}
			}
			read()
			d.has("elsewhere", "two", two)
			testkit.Eventually(t, patience, "the file is made anew", func() bool {
				read()
				files := d.files(1)
				if len(files) != 1 {
					return false
				}
				bytes, err := os.ReadFile(files[0])
				return err == nil && len(bytes) > two.Size && two.is(bytes[len(bytes)-two.Size:]) == nil
			})
			d.kill(1, 2)
			d.Restart(1)
			d.has("the node whose file was made anew is alone", "two", two)

			d.put(1, "one", one, 1)
			var name string
			for _, f := range d.files(1) {
				if info, err := os.Stat(f); err == nil && info.Size() < 280_000 {
					name = f
				}
			}
			d.kill(1)
			damage(t, name)
			d.Restart(1)
			if how == "deleted" {
				d.fails("the only file was deleted", "one", raysys.ErrObjectLost, "n1")
			} else {
				d.fails("the only file is damaged", "one", raysys.ErrObjectLost, filepath.Base(name)[:20])
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOnDiskRefused: what cannot be kept on disk is a typed error, and takes no name.
func TestOnDiskRefused(t *testing.T) {
	base := t.TempDir()
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(2), labelled(system.ObjectConfig{}, func(i int, cfg *system.Config) {
		if i < 2 {
			cfg.Objects.Spill = filepath.Join(base, fmt.Sprint(i))
		}
		if i == 0 {
			cfg.Objects.Disk = 1 << 20
		}
	}))
	ctx := k.Context()
	type page struct{ Next raysys.Handle[[]byte] }
	if _, err := putOnDisk.With(on("n1")).Go(ctx, diskPut{"taken", blob{1, 200_000}, 1}).Get(ctx); err != nil {
		t.Fatal(err)
	}
	held := raysys.Put(ctx, blob{2, 200_000}.make())
	for name, c := range map[string]struct {
		put  func(name string) error
		want error
	}{
		"a node without a directory": {func(name string) error {
			_, err := putOnDisk.With(on("n2")).Go(ctx, diskPut{name, blob{3, 200_000}, 1}).Get(ctx)
			return err
		}, raysys.ErrNoStore},
		"replicas on nodes without a directory": {func(name string) error {
			_, err := putOnDisk.With(on("n1")).Go(ctx, diskPut{name, blob{3, 200_000}, 2}).Get(ctx)
			return err
		}, raysys.ErrNoCapacity},
		"a full disk": {func(name string) error {
			_, err := raysys.Put(ctx, blob{3, 2 << 20}.make(), raysys.Named(name), raysys.OnDisk()).Get(ctx)
			return err
		}, raysys.ErrStoreFull},
		"references inside": {func(name string) error {
			_, err := raysys.Put(ctx, page{held.Handle()}, raysys.Named(name), raysys.OnDisk()).Get(ctx)
			return err
		}, raysys.ErrBadOption},
		"no name": {func(string) error {
			_, err := raysys.Put(ctx, 1, raysys.OnDisk()).Get(ctx)
			return err
		}, raysys.ErrBadOption},
	} {
		for _, taken := range []bool{true, false} {
			as := "free"
			if taken {
				as = "taken"
			}
			if err := c.put(as); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, not %v", name, err, c.want)
			}
		}
		if got, err := raysys.Lookup[[]byte](ctx, "taken").Get(ctx); err != nil || (blob{1, 200_000}).is(got) != nil {
			t.Errorf("%s: the name is not of the object before any more: %v", name, err)
		}
		if _, err := raysys.Lookup[[]byte](ctx, "free").Get(ctx); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("%s: the name was taken by what failed: %v", name, err)
		}
	}
	runtime.KeepAlive(held)
}

// TestOnDiskAfterDrain: a node that left in good order brings its file back, beside the copy that it left to another.
func TestOnDiskAfterDrain(t *testing.T) {
	d := newDisks(t, 3)
	b := blob{1, 300_000}
	d.put(1, "weights", b, 1)
	d.Drain(1)
	d.has("the node with the file has left", "weights", b)
	for i := 2; i <= 3; i++ { // one of them has the copy
		d.kill(i)
		d.Restart(i)
	}
	d.fails("the copy is gone", "weights", raysys.ErrUnreachable, "n1")
	d.Restart(1)
	d.has("the node with the file is back", "weights", b)
}

// TestOnDiskSIGKILL: objects on disk are there after SIGKILL of every worker process, and of Consul, whose data are kept.
func TestOnDiskSIGKILL(t *testing.T) {
	long.Only(t)
	base := t.TempDir()
	server := testkit.Consul(t, testkit.OnDisk(), testkit.MinTTL(time.Second))
	p := testkit.Processes(t, 3, testkit.CPU(1), testkit.On(server), testkit.TTL(3*time.Second), testkit.EnvOf(func(i int) []string {
		return []string{fmt.Sprintf("RAYSYS_SPILL=%s/p%d", base, i), "RAYSYS_SPILL_MAX=1000000000"}
	}))
	ctx := p.Context()
	var blobs []blob
	for i := range 12 {
		b := blob{byte(i), 100_000 + i*200_000}
		if _, err := putOnDisk.Go(ctx, diskPut{fmt.Sprint("w", i), b, 1 + i%3}).Get(ctx); err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, b)
	}
	for i := range 3 {
		p.Proc(i + 1).Kill()
	}
	server.Kill()
	server.Start()
	for i := range 3 {
		p.Proc(3 - i).Restart()
	}
	p.Ready()
	for i, b := range blobs {
		got, err := raysys.Lookup[[]byte](ctx, fmt.Sprint("w", i)).Get(ctx)
		if err != nil || b.is(got) != nil {
			t.Errorf("object %d, %d copies: %v, %v", i, 1+i%3, err, b.is(got))
		}
	}
	figure(t, "%d objects on disk, every worker and Consul killed by SIGKILL: all were there after the restart", len(blobs))
}
