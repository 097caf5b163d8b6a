package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// seededVariable is set in a process that is the driver of TestSeedAfterSIGKILL. It has the directory of the run.
const seededVariable = "RAYSYS_FAULTS_SEEDED"

// count is what a counted task does: it waits for the file Gate, and takes the next number of the directory Numbers.
type count struct{ Gate, Numbers string }

// tray keeps the tasks that it was given.
type tray struct{ list []raysys.Handle[int] }

var (
	counted = tasks.Define("faults.counted", func(ctx context.Context, c count) (int, error) {
		for {
			_, err := os.Stat(c.Gate)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
		}
		for n := 1; ; n++ {
			f, err := os.OpenFile(filepath.Join(c.Numbers, strconv.Itoa(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			switch {
			case err == nil:
				return n, f.Close()
			case !errors.Is(err, fs.ErrExist):
				return 0, err
			}
		}
	})

	trays   = grains.Define[tray]("faults.tray")
	trayAdd = grains.Method(trays, "add", func(g *tray, _ context.Context, h raysys.Handle[int]) (int, error) {
		g.list = append(g.list, h)
		return len(g.list) - 1, nil
	})
	trayRead = grains.Method(trays, "read", func(g *tray, ctx context.Context, i int) (int, error) { return g.list[i].Ref().Get(ctx) })
)

// seededRun is what the driver of a fixed seed reports.
type seededRun struct {
	IDs     []string // of its tasks and calls
	Sum     int      // what its durable call gave
	Settled int      // the value of its first task, as another node has it
}

// seededDriver is the driver of a fixed seed: each of its runs does the same. It has a task that settles and one that waits, both of
// which another node holds, and makes a durable call. It reports that, and lives until it is killed.
func seededDriver(dir string) {
	system.Main(func(ctx context.Context) error {
		in := func(name string) string { return filepath.Join(dir, name) }
		if err := os.Remove(in("first")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		settles := counted.Go(ctx, count{Gate: in("first"), Numbers: in("settled")})
		waits := counted.Go(ctx, count{Gate: in("last"), Numbers: in("waiting")})
		at := 0
		for _, h := range []raysys.Handle[int]{settles.Handle(), waits.Handle()} {
			i, err := trayAdd.Call(ctx, trays.Get("x"), h).Get(ctx)
			if err != nil {
				return fmt.Errorf("give a task to the grain: %w", err)
			}
			at = i - 1
		}
		if err := os.WriteFile(in("first"), nil, 0o600); err != nil {
			return err
		}
		n, err := trayRead.Call(ctx, trays.Get("x"), at).Get(ctx)
		if err != nil {
			return fmt.Errorf("read the task that has settled: %w", err)
		}
		call := vaultAdd.Call(ctx, vaults.Get("seeded"), step{N: 5})
		sum, err := call.Get(ctx)
		if err != nil {
			return fmt.Errorf("the durable call: %w", err)
		}
		report, err := json.Marshal(seededRun{IDs: []string{settles.ID().String(), waits.ID().String(), call.ID().String()}, Sum: sum, Settled: n})
		if err != nil {
			return err
		}
		if err := os.WriteFile(in("report.part"), report, 0o600); err != nil {
			return err
		}
		if err := os.Rename(in("report.part"), in(strconv.Itoa(os.Getpid()))); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // which ends with the test
		return nil
	})
}

// TestSeedAfterSIGKILL: a driver process with a fixed seed is killed, runs again, and is killed again. The tasks and calls of the second
// run have the ids that those of the first had, and meet nothing that the first left in the store: not the records of its tasks,
// settled or not, and not the reply to its durable call. What another node holds of a run is adopted for that run.
func TestSeedAfterSIGKILL(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"settled", "waiting"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const driver = 3
	p := testkit.Processes(t, driver, testkit.CPU(4), testkit.EnvOf(func(i int) []string {
		if i != driver {
			return nil
		}
		return []string{seededVariable + "=" + dir, "RAYSYS_ROLE=driver", "RAYSYS_SEED=7", "RAYSYS_CPU="}
	}))
	ctx, d := p.Context(), p.Proc(driver)
	report := func() (r seededRun) {
		t.Helper()
		var text []byte
		eventually.Holds(t, time.Minute, "the driver reports", func() bool {
			b, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(d.PID())))
			text = b
			if !d.Runs() {
				t.Fatalf("the driver has ended:\n%s", d.Output())
			}
			return err == nil
		})
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := report()
	d.Restart() // the first run ends by SIGKILL
	second := report()

	if len(first.IDs) != 3 || fmt.Sprint(first.IDs) != fmt.Sprint(second.IDs) {
		t.Errorf("the runs of one seed have the ids\n%v\n%v", first.IDs, second.IDs)
	}
	if first.Sum != 5 || second.Sum != 10 {
		t.Errorf("the durable calls of the runs give %d and %d, want 5 and 10", first.Sum, second.Sum)
	}
	if first.Settled != 1 || second.Settled != 2 {
		t.Errorf("the tasks that settled give %d and %d, want 1 and 2: each run has its own", first.Settled, second.Settled)
	}
	d.Kill() // the grain's node asks the records from now on
	if err := os.WriteFile(filepath.Join(dir, "last"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var got [4]int // the tasks of the first run, then those of the second
	for i := range got {
		n, err := trayRead.Call(ctx, trays.Get("x"), i).Get(ctx)
		if err != nil {
			t.Errorf("task %d of the grain: %v", i, err)
		}
		got[i] = n
	}
	if got[0] != 1 || got[2] != 2 {
		t.Errorf("the grain has the values %v: those of the tasks that had settled are 1 and 2", got)
	}
	if got[1] == got[3] {
		t.Errorf("the grain has the values %v: the runs have one task that waited, want one each", got)
	}
}
