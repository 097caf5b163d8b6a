package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// record is a grain whose State is as large as the test wants it.
type record struct {
	State grains.State[content] `raysys:"content"`
	stream.Cursor
}

type content struct {
	Bytes []byte
	Sum   int // of the events of its key
}

func (r *record) Write(_ context.Context, b blob) (int, error) {
	r.State.Value.Bytes = b.make()
	return len(r.State.Value.Bytes), nil
}

func (r *record) OnSale(_ context.Context, e stream.Event[int]) error {
	r.State.Value.Sum += e.Value
	return nil
}

var (
	records     = grains.Define[record]("faults.record", grains.Durable())
	writeRecord = grains.Method(records, "write", (*record).Write)
	readRecord  = grains.Method0(records, "read", func(r *record, _ context.Context) (content, error) { return r.State.Value, nil }).ReadOnly()
	sold        = stream.Define[int]("faults.sold")
	_           = stream.Into(sold, records, (*record).OnSale)

	keepOnDisk = tasks.Define("faults.keepOnDisk", func(ctx context.Context, b blob) (string, error) {
		name := fmt.Sprint("backup/", b.Seed)
		_, err := raysys.Put(ctx, b.make(), raysys.Named(name), raysys.OnDisk()).Get(ctx)
		return name, err
	})
)

// TestBackup does what docs/operating/backup.md says: the workers are stopped, and what Consul, each RAYSYS_SPILL and NATS keep is copied, wiped,
// and put back, into another Consul. All is there, and goes on.
func TestBackup(t *testing.T) { backup(t, false) }

// TestBackupOfAllAtOnce stops the workers at the same moment. An agent of a stream may then find no leader for its last position, and its worker ends
// with 1 after ten seconds; its events come again, and count once.
func TestBackupOfAllAtOnce(t *testing.T) {
	long.Only(t)
	backup(t, true)
}

func backup(t *testing.T, together bool) {
	const small, large, onDisk, events = 200, 20, 5, 50
	var (
		spill, saved, streams = t.TempDir(), t.TempDir(), t.TempDir()
		snapshot              = filepath.Join(saved, "cluster.snap")
		nats                  = testkit.NATS(t, testkit.NATSDir(streams))
	)
	program, err := consulserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := func() *testkit.ConsulServer { return testkit.Consul(t, testkit.OnDisk(), testkit.MinTTL(time.Second)) }
	start := func(c *testkit.ConsulServer) *testkit.Procs {
		return testkit.Processes(t, 3, testkit.CPU(2), testkit.On(c), testkit.TTL(3*time.Second),
			testkit.Config(system.Config{Cluster: &system.ClusterConfig{Name: "backup"}, NATS: system.NATS{URL: nats.URL()}}), testkit.Env("RAYSYS_NATS="+nats.URL()),
			testkit.EnvOf(func(i int) []string { return []string{"RAYSYS_SPILL=" + filepath.Join(spill, fmt.Sprint("p", i))} }))
	}
	consul := func(c *testkit.ConsulServer, what string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), program, "snapshot", what, "-http-addr="+c.Address(), snapshot).CombinedOutput(); err != nil {
			t.Fatalf("consul snapshot %s: %v: %s", what, err, out)
		}
	}
	size := func(i int) blob {
		if i < large {
			return blob{byte(i), 1 << 20}
		}
		return blob{byte(i), 100 + i}
	}
	key := func(i int) string { return fmt.Sprint("record", i) }
	total := func(ctx context.Context, i, want int) content {
		t.Helper()
		var c content
		testkit.Eventually(t, time.Minute, key(i)+" has its events", func() bool {
			var err error
			c, err = readRecord.Call(ctx, records.Get(key(i))).Get(ctx)
			return err == nil && c.Sum >= want
		})
		if c.Sum != want {
			t.Errorf("%s has %d of its events, want %d", key(i), c.Sum, want)
		}
		return c
	}

	was := server()
	p := start(was)
	ctx := p.Context()
	for i := range small + large {
		if _, err := writeRecord.Call(ctx, records.Get(key(i)), size(i)).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range onDisk {
		if _, err := keepOnDisk.With(raysys.OnNode(p.Proc(i%3+1).Name())).Go(ctx, blob{byte(i), 300_000}).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for n := range events {
		if _, err := sold.Publish(ctx, key(n%5), n); err != nil {
			t.Fatal(err)
		}
	}
	sums := [5]int{}
	for n := range events {
		sums[n%5] += n
	}
	for i, want := range sums {
		total(ctx, i, want)
	}

	for i := range p.Size() {
		p.Proc(i + 1).Terminate()
		if together {
			continue
		}
		<-p.Proc(i + 1).Exited()
		if code := p.Proc(i + 1).ExitCode(); code != 0 {
			t.Fatalf("worker %d ended with %d", i+1, code)
		}
	}
	for i := range p.Size() {
		<-p.Proc(i + 1).Exited()
	}
	if err := p.Node().Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	consul(was, "save")
	nats.Stop(1)
	folders := map[string]string{spill: filepath.Join(saved, "spill"), streams: filepath.Join(saved, "nats")}
	for from, to := range folders {
		if err := errors.Join(os.CopyFS(to, os.DirFS(from)), os.RemoveAll(from)); err != nil {
			t.Fatal(err)
		}
	}
	was.Kill()

	restored := server()
	consul(restored, "restore")
	for to, from := range folders {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	nats.Start(1)
	ctx = start(restored).Context()
	for i := range small + large {
		c, err := readRecord.Call(ctx, records.Get(key(i))).Get(ctx)
		if err != nil || !bytes.Equal(c.Bytes, size(i).make()) || i < len(sums) && c.Sum != sums[i] {
			t.Errorf("%s has %d bytes and the sum %d: %v", key(i), len(c.Bytes), c.Sum, err)
		}
	}
	for i := range onDisk {
		b, err := raysys.Lookup[[]byte](ctx, fmt.Sprint("backup/", i)).Get(ctx)
		if err != nil || !bytes.Equal(b, blob{byte(i), 300_000}.make()) {
			t.Errorf("object %d on disk has %d bytes: %v", i, len(b), err)
		}
	}
	for i := range sums {
		n := i
		reading, cancel := context.WithTimeout(ctx, 20*time.Second) // of a stream without events, which would wait for them
		for e, err := range sold.Read(reading, key(i), stream.From(1)) {
			if err != nil || e.Value != n {
				t.Fatalf("event %d of %s is %d: %v", n, key(i), e.Value, err)
			}
			if n += len(sums); n >= events {
				break
			}
		}
		cancel()
		if n < events {
			t.Fatalf("%s has no event %d", key(i), n)
		}
		// The next one counts once, and no earlier one again.
		if _, err := sold.Publish(ctx, key(i), 1000); err != nil {
			t.Fatal(err)
		}
		total(ctx, i, sums[i]+1000)
	}
	if n, err := writeRecord.Call(ctx, records.Get(key(0)), blob{1, 2 << 20}).Get(ctx); n != 2<<20 || err != nil {
		t.Error("a large State cannot be written any more:", n, err)
	}
}
