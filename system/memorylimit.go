package system

import (
	"fmt"
	"os"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/hostmemory"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/pressure"
)

// leastMemoryLimit is the least Config.MemoryLimit, in bytes: a node without work takes less.
const leastMemoryLimit = 64 << 20

// checkMemoryLimit says what is wrong with Config.MemoryLimit.
func checkMemoryLimit(limit int64) error {
	if most := objectstore.AvailableMemory(); limit > most {
		return fmt.Errorf("Config.MemoryLimit is %d bytes, and its cgroup or machine has %d: give less, or 0", limit, most)
	}
	if limit > 0 && limit < leastMemoryLimit {
		return fmt.Errorf("Config.MemoryLimit is %d bytes: give %d MiB or more, 0 for what there is, or -1 for none",
			limit, leastMemoryLimit>>20)
	}
	return nil
}

// memoryLimit reads RAYSYS_MEMORY_LIMIT.
func memoryLimit(e *environment) int64 {
	const name = "RAYSYS_MEMORY_LIMIT"
	if e.get(name) == "off" {
		return -1
	}
	most, before := objectstore.AvailableMemory(), len(e.errs)
	limit := e.size(name, most)
	if v := e.get(name); v != "" && len(e.errs) == before && (limit < leastMemoryLimit || limit > most) {
		const give = "a size or share from %d MiB to the %d MiB of its cgroup or machine, or off"
		e.bad(name, v, fmt.Sprintf(give, leastMemoryLimit>>20, most>>20))
		return 0
	}
	return limit
}

// newMemoryWatch makes what looks after the memory of a node with grains; nil where nobody does.
func newMemoryWatch(n *Node) *pressure.Watch {
	if n.cfg.MemoryLimit < 0 || n.cfg.Cluster != nil && !n.cfg.Cluster.Role.hosts() {
		return nil
	}
	gauge := hostmemory.Read().At(n.cfg.MemoryLimit)
	used := n.cfg.used
	if used == nil {
		used = gauge.Used
	}
	return &pressure.Watch{
		Node: n.cfg.Name, Gauge: gauge, Used: used, Free: debug.FreeOSMemory, Waste: func() int64 { return hostmemory.OfGo().Waste },
		Soft: n.cfg.used == nil && os.Getenv("GOMEMLIMIT") == "",
		Warn: func(s pressure.Short) { warnOfMemory(n, s) },
		Grains: pressure.Grains{
			Unload: func(share float64) (int, map[string]map[string]int) {
				return grainengine.UnloadIdle(n.grains, share)
			},
			Wanted: func() (again, gone int) { return grainengine.Wanted(n.grains) },
			Refuse: func(err error) { grainengine.Refuse(n.grains, err) },
			Changed: func() {
				if n.cluster != nil {
					n.cluster.Placer.LoadChanged()
				}
			},
		},
	}
}

func warnOfMemory(n *Node, s pressure.Short) {
	n.log.Warn("memory is short: idle grains go", zap.String("node", string(n.cfg.Name)),
		zap.Int64("used MiB", s.Used>>20), zap.Int64("limit MiB", s.Limit>>20), zap.Int("gone", s.Gone),
		zap.String("stay", s.Stay), zap.String("next", s.Next))
}
