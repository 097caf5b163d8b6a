package system

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
)

// Config describes a node. The zero value is a sane single-process node.
type Config struct {
	// Name of the node, unique in its cluster. Empty: a random one.
	Name raysys.NodeID
	// Namespace separates the task and grain names of different programs. Empty: the path of the main package.
	Namespace string
	// Resources the node offers. CPU 0: GOMAXPROCS, so that as many tasks run as the Go scheduler has processors.
	Resources raysys.Resources
	// Seed fixes the job's id, and with it all task ids and raysys.Rand, so that a run repeats. 0: a random job.
	Seed uint64
	// Table of functions. Nil: the process-wide one that Define fills.
	Table *raysys.Table
	// QueueTasks bounds the tasks that wait to start: 1,000,000 unless set. When it is reached a driver's Go blocks,
	// and a task's Go runs the child in place or gets ErrOverloaded.
	QueueTasks int
	// QueueBytes bounds the memory their arguments hold beyond the task records: 256 MiB unless set.
	QueueBytes int64
	// HeapFloor makes the garbage collector count this many bytes more than there are, so that a program with a small
	// heap, whose records of a million tasks per second are all short-lived, collects less often. The memory is never
	// touched, so it costs address space; the heap may grow by about twice of it before a collection. 0: none, and
	// FromEnv sets 16 MiB.
	HeapFloor int64
	// Logger for state changes and for failures nobody looked at. Nil: none.
	Logger *zap.Logger
	// Data is the directory of the store of a node without a cluster, in which what grains.State holds survives the
	// process. One process at a time may use it. Empty: the store is in memory.
	Data string
	// Cluster says which cluster the node joins, and how. Nil: none, everything runs in this process.
	Cluster *Cluster
	// Inspect sees every value that changes hands; the testkit's strict mode sets it. Nil: values are handed over.
	Inspect raysys.Inspector
}

// defaultHeapFloor is FromEnv's, in MiB: tasks_async went from 7.1 to 8.4 M/s with the effect of it (four times fewer
// collections), and an idle node's RSS did not change.
const (
	defaultHeapFloor = 16
	maxHeapFloor     = 4096
)

// FromEnv reads a Config from RAYSYS_NAME, RAYSYS_NAMESPACE, RAYSYS_CPU, RAYSYS_GPU, RAYSYS_SEED, RAYSYS_HEAP_FLOOR (MiB),
// RAYSYS_DATA and RAYSYS_LOG (debug, info, warn, error), and, where RAYSYS_CONSUL is set, what Cluster.FromEnv reads. It reports every
// variable that cannot be meant.
func FromEnv() (Config, error) {
	var errs []error
	cfg := Config{
		Name:      raysys.NodeID(os.Getenv("RAYSYS_NAME")),
		Namespace: os.Getenv("RAYSYS_NAMESPACE"),
	}
	number := func(name string, to *float64) {
		if v := os.Getenv(name); v != "" {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil || f < 0 {
				errs = append(errs, fmt.Errorf("%s=%q: give a number of 0 or more", name, v))
			}
			*to = f
		}
	}
	number("RAYSYS_CPU", &cfg.Resources.CPU)
	number("RAYSYS_GPU", &cfg.Resources.GPU)
	floor := float64(defaultHeapFloor)
	number("RAYSYS_HEAP_FLOOR", &floor)
	if floor > maxHeapFloor {
		errs = append(errs, fmt.Errorf("RAYSYS_HEAP_FLOOR=%v: give MiB, at most %d", floor, maxHeapFloor))
	}
	cfg.HeapFloor = int64(floor * (1 << 20))
	if v := os.Getenv("RAYSYS_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("RAYSYS_SEED=%q: give a whole number of 0 or more", v))
		}
		cfg.Seed = n
	}
	cfg.Data = os.Getenv("RAYSYS_DATA")
	if os.Getenv("RAYSYS_CONSUL") != "" {
		c, err := clusterFromEnv()
		errs = append(errs, err)
		cfg.Cluster = c
	}
	level := os.Getenv("RAYSYS_LOG")
	if level == "" {
		level = "warn"
	}
	lv, err := zap.ParseAtomicLevel(level)
	if err != nil {
		errs = append(errs, fmt.Errorf("RAYSYS_LOG=%q: give debug, info, warn or error", level))
	} else {
		cfg.Logger = stderrLogger(lv)
	}
	return cfg, errors.Join(errs...)
}

// complete validates cfg and fills what was left out.
func (cfg *Config) complete() error {
	var errs []error
	if err := cfg.Resources.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Config.Resources: %w", err))
	}
	if cfg.QueueTasks < 0 {
		errs = append(errs, fmt.Errorf("Config.QueueTasks is %d: give 0 (the default) or more", cfg.QueueTasks))
	}
	if cfg.QueueBytes < 0 {
		errs = append(errs, fmt.Errorf("Config.QueueBytes is %d: give 0 (the default) or more", cfg.QueueBytes))
	}
	if cfg.HeapFloor < 0 || cfg.HeapFloor > maxHeapFloor<<20 {
		errs = append(errs, fmt.Errorf("Config.HeapFloor is %d: give bytes, 0 to %d MiB", cfg.HeapFloor, maxHeapFloor))
	}
	drivesOnly := false
	if cfg.Cluster != nil {
		if cfg.Data != "" {
			errs = append(errs, errors.New("Config.Data and Config.Cluster: a node in a cluster keeps its state in Consul: leave Data out"))
		}
		errs = append(errs, cfg.Cluster.complete())
		drivesOnly = !cfg.Cluster.Role.hosts()
	}
	if cfg.Resources.CPU == 0 && !drivesOnly {
		cfg.Resources.CPU = float64(runtime.GOMAXPROCS(0))
	}
	if cfg.Resources.CPU < 1 && !drivesOnly {
		errs = append(errs, fmt.Errorf("Config.Resources.CPU is %v: a node that runs tasks needs at least 1", cfg.Resources.CPU))
	}
	if cfg.Table == nil {
		cfg.Table = raysys.DefaultTable
	}
	if err := cfg.Table.Freeze(); err != nil {
		errs = append(errs, err)
	}
	if cfg.Name == "" {
		cfg.Name = raysys.NodeID("node-" + hex.EncodeToString(random(4)))
	}
	if cfg.Namespace == "" {
		cfg.Namespace = mainPackage()
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return errors.Join(errs...)
}

func (cfg *Config) job() raysys.JobID {
	if cfg.Seed != 0 {
		return raysys.SeededJob(cfg.Seed)
	}
	b := random(16)
	return raysys.JobID{Hi: binary.LittleEndian.Uint64(b), Lo: binary.LittleEndian.Uint64(b[8:])}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails, says its package
	return b
}

func mainPackage() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
		return info.Path
	}
	return "main"
}
