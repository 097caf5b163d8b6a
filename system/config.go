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
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/nodelog"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/progress"
)

// Config describes a node. The zero value is a sane single-process node.
type Config struct {
	// Name of the node, unique in its cluster. Empty: a random one.
	Name raysys.NodeID
	// Namespace separates the task and grain names of different programs. Empty: the path of the main package.
	Namespace string
	// Resources the node offers. CPU 0: GOMAXPROCS, so that as many tasks run as the Go scheduler has processors.
	// Memory 0: what the container may have, less the memory of Objects.
	Resources raysys.Resources
	// Devices are its accelerators; Resources.GPU is their number. Where only that is given they are known by their names in
	// CUDA_VISIBLE_DEVICES, if FromEnv has found that set, else by their index, 0 and up; Resources.GPUModel and GPUMemory say
	// what each of them is.
	Devices []raysys.Device
	// DeviceSource has the devices, in place of Devices, and says which of them are sick: those get no new work. FromEnv sets it
	// to what raysys node found, or RAYSYS_GPUS asks for. See package placement/devices.
	DeviceSource devices.Source
	// Seed fixes the job's id, and with it all task ids and raysys.Rand, so that a run repeats. 0: a random job.
	Seed uint64
	// WaitForResources has all tasks, calls and placement groups of this node wait that ask for more than any node has, until one joins that has it,
	// as raysys.WaitForResources does for one handle. Else they fail with raysys.ErrNoCapacity.
	WaitForResources bool
	// Weight is this program's share of each node among the programs whose tasks wait there: one of weight 3 gets three times what one
	// of weight 1 gets, of CPUs, devices and all else that tasks ask for. A task counts for the largest part of the node that it has of anything, and
	// for as long as it has it. 1 unless set, at most 1000.
	Weight int
	// Filters run around all tasks and calls of grains that this node runs, the first of them outermost: see raysys.Filter.
	Filters []raysys.Filter
	// Tracing gives spans to what this node runs: see package traces. Nil: none.
	Tracing Tracing
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
	// MemoryLimit is the memory that the process may have, in bytes, from 64 MiB on: near it the node lets go of
	// idle grains, and starts none. Go's collector gets a softer limit, unless GOMEMLIMIT gives one. 0: what its
	// cgroups or its machine allow. Below 0: no limit, and nobody looks.
	MemoryLimit int64
	// Logger for state changes, and for failures of tasks and calls whose result was never read. Nil: none.
	Logger *zap.Logger
	// Data is the directory of the store of a node without a cluster, in which what grains.State holds survives the
	// process, and objects that were put with raysys.OnDisk. One process at a time may use it. Empty: the store is in
	// memory.
	Data string
	// Grace bounds the time that a worker takes to leave under Main and Run, from the signal to the end of the process: 5
	// minutes unless set.
	Grace time.Duration
	// Rebalance is for how long the workers of a cluster have been the same before this worker gives grains to others,
	// so that all have even shares of the work: grains of kinds that are Durable or Movable (see package grains). 30 s
	// unless set; below 0 it gives none, and others give it none. A change is a worker that joins, drains, leaves or is
	// suspect.
	Rebalance time.Duration
	// Objects says what the object store may use.
	Objects ObjectConfig
	// Lineage says what the node keeps to make a lost value again. Unless set it is LineageDurable in a cluster, and
	// LineageInMemory alone.
	Lineage Lineage
	// LineageMemory bounds what that takes, in bytes: 256 MiB unless set. Beyond it the oldest recipes go.
	LineageMemory int64
	// Cluster says which cluster the node joins, and how. Nil: none, everything runs in this process.
	Cluster *ClusterConfig
	// NATS says which servers streams use. Without a URL the cluster's store names them, where it does: see Node.NATS.
	NATS NATS
	// HTTP is the address, HOST:PORT, at which the node serves metrics to Prometheus (/metrics), its health (/healthz, /readyz) and, to callers
	// on its host, profiles (/debug/pprof/), without a token: there are no keys and no values in them. What the commands of raysys show is at
	// / for browsers and at /api, of the whole cluster, for those whom Page lets read it. With port 0 it takes a free one, and logs which. Where the address is taken the node logs that and goes on without; below raysys node it does not start, and Start's error
	// matches ErrConfig. Empty: nowhere.
	HTTP string
	// Page says who may read what HTTP serves of the cluster.
	Page    PageConfig
	inspect core.Inspector // sees every value that changes hands, in tests; nil: values are handed over

	fakes map[*core.Entry]detour.Fake // what stands in for functions, in tests
	used  func() int64                // of MemoryLimit, in tests

	visible string         // CUDA_VISIBLE_DEVICES, as FromEnv has read it
	lines   worklog.Config // where lines of raysys.Logger go, as FromEnv has read it; else to Logger
}

// defaultHeapFloor is FromEnv's, in MiB: tasks_async went from 7.1 to 8.4 M/s with the effect of it (four times fewer
// collections), and an idle node's RSS did not change.
const (
	defaultHeapFloor = 16
	maxHeapFloor     = 4096
)

// FromEnv reads a Config from RAYSYS_* variables, which docs/operating/variables.md lists: what the node is and offers,
// and, where RAYSYS_CONSUL is set, which cluster it joins and how. It reports every variable that cannot be meant.
func FromEnv() (Config, error) { return fromEnv(os.Getenv) }

func fromEnv(getenv func(string) string) (Config, error) {
	e := &environment{get: getenv}
	cfg := Config{
		Name:      raysys.NodeID(getenv("RAYSYS_NAME")),
		Namespace: getenv("RAYSYS_NAMESPACE"),
		Seed:      e.whole("RAYSYS_SEED", "", 64),
		Data:      getenv("RAYSYS_DATA"),
		Grace:     e.duration("RAYSYS_GRACE"),
		Rebalance: e.durationOrOff("RAYSYS_REBALANCE"),

		Weight:           int(e.whole("RAYSYS_WEIGHT", "1 to 1000, ", 16)),
		WaitForResources: e.boolean("RAYSYS_WAIT_FOR_RESOURCES"),
	}
	cfg.visible = getenv(devices.VisibleVariable)
	cfg.Resources.CPU = e.number("RAYSYS_CPU", 0)
	cfg.Resources.GPU = e.number("RAYSYS_GPU", 0)
	cfg.Resources.GPUModel = getenv("RAYSYS_GPU_MODEL")
	cfg.Resources.GPUMemory = e.size("RAYSYS_GPU_MEMORY", 0)
	cfg.Resources.Memory = e.size("RAYSYS_MEMORY", objectstore.AvailableMemory())
	e.pairs("RAYSYS_RESOURCES", "name=number,name=number", func(name, value string) bool {
		n, ok := amount(value)
		if cfg.Resources.Custom == nil {
			cfg.Resources.Custom = map[string]float64{}
		}
		cfg.Resources.Custom[name] = n
		return ok
	})
	floor := e.number("RAYSYS_HEAP_FLOOR", defaultHeapFloor)
	if floor > maxHeapFloor {
		e.bad("RAYSYS_HEAP_FLOOR", getenv("RAYSYS_HEAP_FLOOR"), fmt.Sprintf("MiB, at most %d", maxHeapFloor))
	}
	cfg.HeapFloor = int64(floor * (1 << 20))
	cfg.Objects = ObjectConfig{
		Memory: e.size("RAYSYS_OBJECT_MEMORY", objectstore.AvailableMemory()), Spill: getenv("RAYSYS_SPILL"),
		Disk: e.size("RAYSYS_SPILL_MAX", 0), NoSharing: e.boolean("RAYSYS_NO_SHARING"),
	}
	cfg.MemoryLimit = memoryLimit(e)
	cfg.Lineage, cfg.LineageMemory = e.lineage(), e.size("RAYSYS_LINEAGE_MEMORY", objectstore.AvailableMemory())
	if getenv("RAYSYS_CONSUL") != "" {
		cfg.Cluster = clusterFrom(e)
	}
	cfg.NATS = e.nats()
	cfg.HTTP, cfg.Page = e.address("RAYSYS_HTTP"), e.page()
	level := getenv("RAYSYS_LOG")
	if level == "" {
		level = "warn"
	}
	e.off(progress.Variable) // which package progress reads
	form, known := nodelog.Form(getenv("RAYSYS_LOG_FORMAT"))
	if !known {
		e.bad("RAYSYS_LOG_FORMAT", getenv("RAYSYS_LOG_FORMAT"), "terminal or json")
	}
	lv, err := zap.ParseAtomicLevel(level)
	if err != nil {
		e.bad("RAYSYS_LOG", level, "debug, info, warn or error")
	} else {
		beside := progress.Writer(os.Stderr)
		mark := worklog.Mark(getenv(worklog.MarkVariable))
		if form == nodelog.JSON {
			beside = mark.Writer(beside)
		}
		cfg.Logger = nodelog.New(zapcore.AddSync(beside), form, lv)
		cfg.lines = worklog.Config{
			Mark: mark, Out: beside, People: form == nodelog.Terminal, Debug: lv.Enabled(zap.DebugLevel), Folder: getenv(worklog.FolderVariable), Off: e.off(worklog.ToDriverVariable),
		}
	}
	source, err := nodedevices.Open(getenv, string(cfg.Name), cfg.Logger)
	if err != nil {
		e.errs = append(e.errs, err)
	}
	cfg.DeviceSource = source
	return cfg, e.err()
}

// complete validates cfg and fills what was left out, but for the name.
func (cfg *Config) complete() error {
	var errs []error
	if err := errors.Join(cfg.Resources.Validate(), core.Resources(cfg.Resources).Meant()); err != nil {
		errs = append(errs, fmt.Errorf("Config.Resources: %w", err))
	}
	errs = append(errs, cfg.completeDevices())
	if cfg.QueueTasks < 0 {
		errs = append(errs, fmt.Errorf("Config.QueueTasks is %d: give 0 (the default) or more", cfg.QueueTasks))
	}
	for i, f := range cfg.Filters {
		if f == nil {
			errs = append(errs, fmt.Errorf("Config.Filters[%d] is nil: give a function", i))
		}
	}
	if cfg.QueueBytes < 0 {
		errs = append(errs, fmt.Errorf("Config.QueueBytes is %d: give 0 (the default) or more", cfg.QueueBytes))
	}
	if cfg.Weight < 0 || cfg.Weight > wire.MaxWeight {
		errs = append(errs, fmt.Errorf("Config.Weight is %d: give 1 to %d", cfg.Weight, wire.MaxWeight))
	}
	if cfg.Weight == 1 {
		cfg.Weight = 0 // as core.Job has it
	}
	if cfg.HeapFloor < 0 || cfg.HeapFloor > maxHeapFloor<<20 {
		errs = append(errs, fmt.Errorf("Config.HeapFloor is %d: give bytes, 0 to %d MiB", cfg.HeapFloor, maxHeapFloor))
	}
	if cfg.Objects.Memory < 0 || cfg.Objects.Disk < 0 {
		errs = append(errs, fmt.Errorf("Config.Objects has %d bytes of Memory and %d of Disk: give 0 (the default) or more", cfg.Objects.Memory, cfg.Objects.Disk))
	}
	errs = append(errs, cfg.completeLineage(), checkMemoryLimit(cfg.MemoryLimit))
	if cfg.Grace < 0 {
		errs = append(errs, fmt.Errorf("Config.Grace is %v: give 0 (the default) or more", cfg.Grace))
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Rebalance == 0 {
		cfg.Rebalance = defaultRebalance
	}
	if err := cfg.NATS.check(); err != nil {
		errs = append(errs, fmt.Errorf("Config.NATS: %w", err))
	}
	if cfg.HTTP != "" && !isAddress(cfg.HTTP) {
		errs = append(errs, fmt.Errorf("Config.HTTP is %q: give HOST:PORT, such as 127.0.0.1:9464", cfg.HTTP))
	}
	errs = append(errs, cfg.Page.check())
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
	if !drivesOnly {
		cfg.completeMemory()
	}
	if cfg.Resources.CPU < 1 && !drivesOnly {
		errs = append(errs, fmt.Errorf("Config.Resources.CPU is %v: a node that runs tasks needs at least 1", cfg.Resources.CPU))
	}
	if cfg.Table == nil {
		cfg.Table = core.DefaultTable
	}
	if err := cfg.Table.Freeze(); err != nil {
		errs = append(errs, err)
	}
	if cfg.Cluster != nil && cfg.Cluster.TLS.whole() && cfg.Cluster.parts.Network == nil {
		name, err := cfg.Cluster.certified(cfg.Name)
		errs = append(errs, err)
		cfg.Name = name
	}
	if cfg.Namespace == "" {
		cfg.Namespace = mainPackage()
	}
	cluster := ""
	if cfg.Cluster != nil {
		cluster = cfg.Cluster.Name
	}
	errs = append(errs, cfg.Table.Fit(cluster, cfg.Namespace))
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return errors.Join(errs...)
}

// completeDevices lists what DeviceSource has as Devices, and makes those and Resources.GPU agree.
func (cfg *Config) completeDevices() error {
	given, taken := nodedevices.Take(cfg.Devices, cfg.DeviceSource)
	all, err := nodedevices.Complete(&cfg.Resources, given, cfg.visible)
	cfg.Devices = all
	return errors.Join(taken, err)
}

// completeMemory has a node offer what its container may have, less what its object store may take.
func (cfg *Config) completeMemory() {
	if cfg.Resources.Memory != 0 {
		return
	}
	all := objectstore.AvailableMemory()
	store := cfg.Objects.Memory
	if store == 0 {
		store = objectstore.DefaultBudget()
	}
	cfg.Resources.Memory = max(all-store, 0)
}

// name draws a name for a node that was given none, and reports whether it did: the node has another one after each
// start.
func (cfg *Config) name() (drawn bool) {
	if cfg.Name != "" {
		return false
	}
	cfg.Name = raysys.NodeID("node-" + hex.EncodeToString(random(4)))
	return true
}

func (cfg *Config) job() raysys.JobID {
	if cfg.Seed != 0 {
		return core.SeededJob(cfg.Seed)
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
