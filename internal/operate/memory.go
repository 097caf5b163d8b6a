package operate

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/hostmemory"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/pressure"
)

// maxHeld bounds how many objects one answer lists.
const maxHeld = 10_000

// ownMemory lists this node's own store.
func ownMemory(o *Operator, _ context.Context, limit int) (inspect.NodeMemory, error) {
	store := o.Node.Objects()
	m := inspect.NodeMemory{Name: o.Name, Store: inspect.ObjectStats(store.Stats()), Objects: []inspect.HeldObject{}}
	if c := o.Node.Cluster(); c != nil {
		m.Incarnation, m.Transfer, m.Exported = o.Self().Incarnation, inspect.TransferStats(store.Transfers()), c.Refs.Exported()
	}
	for _, i := range store.List() {
		m.Count++
		if len(i.Forms) > 0 {
			m.Bytes += i.Size
		}
		if m.Count <= min(limit, maxHeld) {
			m.Objects = append(m.Objects, inspect.HeldObject(i))
		}
	}
	m.Objects = bounded(m.Objects)
	return m, nil
}

// ownMemoryUse is what the process has of memory now.
func ownMemoryUse(o *Operator) inspect.MemoryUse {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	m := inspect.MemoryUse{Heap: int64(s[0].Value.Uint64()), Resident: hostmemory.Resident(), Limit: objectstore.AvailableMemory()}
	if w := o.Pressure; w != nil {
		m.Limit = w.Gauge.Limit
		used, is, unloaded := pressure.Seen(w)
		m.Used, m.State, m.Unloaded, m.Refused = used, is.String(), unloaded, grainengine.Refused(o.Grains)
	}
	return m
}

// maxProfile bounds a profile: in an answer, as JSON, it takes a third more.
const maxProfile = maxAnswer / 4 * 3

// HeapProfile asks a node for what its process has on its heap, as go tool pprof reads it.
func HeapProfile(ctx context.Context, o *Operator, node raysys.NodeID) (profile []byte, err error) {
	if node == "" {
		return nil, fmt.Errorf("%w: a profile of no node: give its name", raysys.ErrBadOption)
	}
	silent, err := ask(ctx, o, node, "profile", struct{}{}, func(_ core.NodeKey, p []byte) { profile = p })
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("%w: %s", raysys.ErrUnreachable, silent[0])
	}
	return profile, err
}

// ownProfile is that of this process, after a collection.
func ownProfile(*Operator, context.Context, struct{}) ([]byte, error) {
	runtime.GC()
	var b bytes.Buffer
	if err := pprof.WriteHeapProfile(&b); err != nil {
		return nil, err
	}
	if b.Len() > maxProfile {
		const cure = "fetch /debug/pprof/heap of the node's page"
		return nil, fmt.Errorf("%w: %d bytes of profile, above %d: %s", raysys.ErrTooLarge, b.Len(), maxProfile, cure)
	}
	return b.Bytes(), nil
}
