package system_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestZeroConfig(t *testing.T) {
	n, err := system.New(system.Config{Table: raysys.NewTable()})
	if err != nil {
		t.Fatal(err)
	}
	if n.Name() == "" || n.Namespace() == "" || n.Job() == (raysys.JobID{}) {
		t.Errorf("name %q, namespace %q, job %v", n.Name(), n.Namespace(), n.Job())
	}
	if got := n.Resources().CPU; got != float64(runtime.GOMAXPROCS(0)) {
		t.Error(got, "CPUs")
	}
	m, err := system.New(system.Config{Table: raysys.NewTable()})
	if err != nil || m.Name() == n.Name() || m.Job() == n.Job() {
		t.Error("two nodes have the same name or job", err)
	}
}

func TestBadConfig(t *testing.T) {
	bad := map[string]struct {
		cfg  system.Config
		says string
		is   error
	}{
		"negative CPU":  {system.Config{Resources: raysys.Resources{CPU: -1}}, "CPU", raysys.ErrBadOption},
		"too little":    {system.Config{Resources: raysys.Resources{CPU: 0.5}}, "at least 1", nil},
		"too fine":      {system.Config{Resources: raysys.Resources{CPU: 1.0005}}, "thousandths", raysys.ErrBadOption},
		"NaN":           {system.Config{Resources: raysys.Resources{GPU: math.NaN()}}, "GPU", raysys.ErrBadOption},
		"memory":        {system.Config{Resources: raysys.Resources{Memory: -1}}, "Memory", raysys.ErrBadOption},
		"custom":        {system.Config{Resources: raysys.Resources{Custom: map[string]float64{"tpu": math.Inf(1)}}}, "tpu", raysys.ErrBadOption},
		"unnamed":       {system.Config{Resources: raysys.Resources{Custom: map[string]float64{"": 1}}}, "name", raysys.ErrBadOption},
		"queue":         {system.Config{QueueTasks: -1}, "QueueTasks", nil},
		"bytes":         {system.Config{QueueBytes: -1}, "QueueBytes", nil},
		"objects":       {system.Config{Objects: system.ObjectConfig{Memory: -1}}, "Config.Objects", nil},
		"spill":         {system.Config{Objects: system.ObjectConfig{Disk: -1}}, "Config.Objects", nil},
		"memory limit":  {system.Config{MemoryLimit: 1 << 20}, "64 MiB or more", nil},
		"too high":      {system.Config{MemoryLimit: math.MaxInt64}, "its cgroup or machine has", nil},
		"all of it":     {system.Config{QueueTasks: -1, QueueBytes: -2, Resources: raysys.Resources{CPU: 0.5}}, "QueueTasks", nil},
		"all of it (2)": {system.Config{QueueTasks: -1, QueueBytes: -2, Resources: raysys.Resources{CPU: 0.5}}, "QueueBytes", nil},
		"all of it (3)": {system.Config{QueueTasks: -1, QueueBytes: -2, Resources: raysys.Resources{CPU: 0.5}}, "at least 1", nil},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			c.cfg.Table = raysys.NewTable()
			n, err := system.New(c.cfg)
			if err == nil || n != nil {
				t.Fatal("New accepts it")
			}
			if !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
}

// TestBadDefinitionsOfAllKinds: tasks and grains are reported together, beside a bad Config.
func TestBadDefinitionsOfAllKinds(t *testing.T) {
	tb := raysys.NewTable()
	tasks.DefineIn[int, int](tb, "nil task", nil)
	k := grains.DefineIn[counterGrain](tb, "kind", grains.Mailbox(-1))
	grains.Method[counterGrain, chan int, int](k, "chan", func(*counterGrain, context.Context, chan int) (int, error) { return 0, nil })
	_, err := system.New(system.Config{Table: tb, QueueTasks: -1})
	if !errors.Is(err, raysys.ErrBadDefinition) {
		t.Fatal(err)
	}
	for _, s := range []string{"nil task", "Mailbox(-1)", "kind.chan", "QueueTasks", "config_test.go:"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in %q", s, err)
		}
	}
}

// TestSeed: a seed fixes the job and with it the ids; without one they differ.
func TestSeed(t *testing.T) {
	ids := func(seed uint64) (s []string) {
		n, ctx := startNode(t, system.Config{Table: table, Seed: seed})
		for range 3 {
			r := add.Call(ctx, counters.Get("a"), 1)
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
			s = append(s, r.ID().String())
		}
		return append(s, n.Job().String())
	}
	a, b, c, d := ids(7), ids(7), ids(8), ids(0)
	for i := range a {
		if a[i] != b[i] || a[i] == c[i] || a[i] == d[i] {
			t.Errorf("id %d: %s, %s with the same seed, %s with another, %s without", i, a[i], b[i], c[i], d[i])
		}
	}
}

func TestFromEnv(t *testing.T) {
	set := func(t *testing.T, env ...string) {
		for _, name := range []string{"NAME", "NAMESPACE", "CPU", "GPU", "SEED", "LOG", "CONSUL", "INSECURE", "LABELS", "OBJECT_MEMORY", "MEMORY_LIMIT", "SPILL", "SPILL_MAX", "NO_SHARING", "MEMORY", "GPU_MEMORY", "REBALANCE"} {
			t.Setenv("RAYSYS_"+name, "")
		}
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv("RAYSYS_"+name, value)
		}
	}
	t.Run("empty", func(t *testing.T) {
		set(t)
		cfg, err := system.FromEnv()
		if err != nil || cfg.Name != "" || cfg.Seed != 0 || cfg.Logger == nil {
			t.Errorf("%+v, %v", cfg, err)
		}
	})
	t.Run("all", func(t *testing.T) {
		set(t, "NAME=n1", "NAMESPACE=ns", "CPU=4", "GPU=0.5", "SEED=18446744073709551615", "LOG=debug")
		cfg, err := system.FromEnv()
		if err != nil || cfg.Name != "n1" || cfg.Namespace != "ns" || cfg.Resources.CPU != 4 || cfg.Resources.GPU != 0.5 || cfg.Seed != math.MaxUint64 {
			t.Errorf("%+v, %v", cfg, err)
		}
	})
	t.Run("objects", func(t *testing.T) {
		set(t, "OBJECT_MEMORY=512MiB", "SPILL=/fast/disk", "SPILL_MAX=1.5GB", "NO_SHARING=true")
		cfg, err := system.FromEnv()
		if want := (system.ObjectConfig{Memory: 512 << 20, Spill: "/fast/disk", Disk: 1_500_000_000, NoSharing: true}); err != nil || cfg.Objects != want {
			t.Errorf("%+v, %v", cfg.Objects, err)
		}
		set(t, "OBJECT_MEMORY=10%")
		if cfg, err := system.FromEnv(); err != nil || cfg.Objects.Memory != objectstore.AvailableMemory()/10 || cfg.Objects.Memory < 1<<20 {
			t.Errorf("a tenth of %d is %d, %v", objectstore.AvailableMemory(), cfg.Objects.Memory, err)
		}
	})
	t.Run("memory", func(t *testing.T) {
		for v, want := range map[string]int64{"4294967297": 1<<32 + 1, "8GiB": 8 << 30, "50%": objectstore.AvailableMemory() / 2} {
			set(t, "MEMORY="+v, "GPU_MEMORY=80GiB")
			if cfg, err := system.FromEnv(); err != nil || cfg.Resources.Memory != want || cfg.Resources.GPUMemory != 80<<30 {
				t.Errorf("%s: %+v, %v", v, cfg.Resources, err)
			}
		}
	})
	t.Run("memory limit", func(t *testing.T) {
		for v, want := range map[string]int64{"": 0, "512MiB": 512 << 20, "50%": objectstore.AvailableMemory() / 2, "off": -1} {
			set(t, "MEMORY_LIMIT="+v)
			if cfg, err := system.FromEnv(); err != nil || cfg.MemoryLimit != want {
				t.Errorf("%q: %d, %v", v, cfg.MemoryLimit, err)
			}
		}
	})
	t.Run("rebalance", func(t *testing.T) {
		for v, want := range map[string]time.Duration{"": 0, "2m": 2 * time.Minute, "off": -1} {
			set(t, "REBALANCE="+v)
			if cfg, err := system.FromEnv(); err != nil || cfg.Rebalance != want {
				t.Errorf("%q: %v, %v", v, cfg.Rebalance, err)
			}
		}
	})
	for _, bad := range []string{
		"MEMORY_LIMIT=0", "MEMORY_LIMIT=1MiB", "MEMORY_LIMIT=1000TiB", "MEMORY_LIMIT=-1", "MEMORY_LIMIT=on", "MEMORY_LIMIT=101%",
		"MEMORY=8Gb", "GPU_MEMORY=50%", "CPU=x", "CPU=-1", "GPU=-0.1", "SEED=-1", "SEED=1.5", "LOG=loud", "OBJECT_MEMORY=lots", "OBJECT_MEMORY=101%", "SPILL_MAX=5%", "NO_SHARING=perhaps",
		"REBALANCE=5", "REBALANCE=-1s", "REBALANCE=0s", "REBALANCE=on",
	} {
		t.Run(bad, func(t *testing.T) {
			set(t, bad)
			_, err := system.FromEnv()
			name, _, _ := strings.Cut(bad, "=")
			if err == nil || !strings.Contains(err.Error(), "RAYSYS_"+name) {
				t.Error(err)
			}
		})
	}
	t.Run("all bad", func(t *testing.T) {
		set(t, "CPU=x", "GPU=x", "SEED=x", "LOG=x", "CONSUL=x", "INSECURE=x", "LABELS=x")
		_, err := system.FromEnv()
		if err == nil {
			t.Fatal("it is accepted")
		}
		for _, name := range []string{"CPU", "GPU", "SEED", "LOG", "INSECURE", "LABELS"} {
			if !strings.Contains(err.Error(), "RAYSYS_"+name) {
				t.Errorf("%s is not in %q", name, err)
			}
		}
	})
}
