package groupengine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// MaxBundles bounds the bundles of one group.
const MaxBundles = 256

// Record is one group.
type Record struct {
	ID        core.TaskID // tells it from a group that had the name before
	Namespace string      // of the work in it
	Strategy  placement.GroupStrategy
	Owner     core.NodeKey // the group goes with it; zero for a detached one: see Client.owner
	Attempt   uint64       // of the last assignment
	Removing  bool
	Waits     bool // also while no node could ever have its bundles
	// Hopes says that no node could ever have the bundles when the group was made, while workers were about to join, and that it is not
	// known yet whether with these the cluster can.
	Hopes   bool
	Bundles []Bundle
	// Left are the nodes that had bundles which were placed anew: work in them goes on to its end there, until the group is removed.
	Left []core.NodeKey
	// Made is when the group was made, in nanoseconds since 1970 by the clock of its maker. Of the groups for which a node could gather
	// room it is the one that was made first.
	Made int64
	// Never is why no state of the nodes has room for a group that hoped, once that is known: it has ended, and what waits for it fails.
	Never string
}

// Bundle is one bundle of a group.
type Bundle struct {
	Needs   raysys.Resources
	At      core.NodeKey // zero while it has no node
	Attempt uint64       // under which it was assigned
	Held    bool         // the node has prepared it, and the log says so
}

// Ready reports whether every bundle is held by a node.
func (r *Record) Ready() bool {
	return !r.Removing && !slices.ContainsFunc(r.Bundles, func(b Bundle) bool { return !b.Held })
}

// nodes are those of the bundles, "" for one that has none.
func (r *Record) nodes() []core.NodeID {
	nodes := make([]core.NodeID, len(r.Bundles))
	for i, b := range r.Bundles {
		nodes[i] = b.At.Node
	}
	return nodes
}

// clone is a copy whose bundles may be changed.
func (r *Record) clone() *Record {
	c := *r
	c.Bundles, c.Left = slices.Clone(r.Bundles), slices.Clone(r.Left)
	return &c
}

// recordVersion is the first byte of a record.
const recordVersion = 1

// Bits of a record, and of a bundle.
const (
	recordRemoving = 1
	recordWaits    = 2
	recordHopes    = 4
	bundleHeld     = 1
)

// Append appends the stored form.
func (r *Record) Append(dst []byte) []byte {
	bits := byte(0)
	if r.Removing {
		bits = recordRemoving
	}
	if r.Waits {
		bits |= recordWaits
	}
	if r.Hopes {
		bits |= recordHopes
	}
	dst = wire.AppendID(append(dst, recordVersion, bits), r.ID)
	dst = wire.AppendBytes(wire.AppendBytes(dst, r.Namespace), r.Strategy)
	dst = wire.AppendUvarint(wire.AppendNode(dst, r.Owner), r.Attempt)
	dst = wire.AppendUvarint(dst, uint64(len(r.Bundles)))
	for i := range r.Bundles {
		b := &r.Bundles[i]
		bits := byte(0)
		if b.Held {
			bits = bundleHeld
		}
		dst = appendNeeds(append(dst, bits), b.Needs)
		dst = wire.AppendUvarint(wire.AppendNode(dst, b.At), b.Attempt)
	}
	dst = wire.AppendUvarint(dst, uint64(len(r.Left)))
	for _, k := range r.Left {
		dst = wire.AppendNode(dst, k)
	}
	return wire.AppendBytes(wire.AppendUvarint(dst, uint64(r.Made)), r.Never)
}

// Read reads the stored form.
func Read(r *wire.Reader) (rec Record, err error) {
	if v := r.Byte(); v != recordVersion && r.Err() == nil {
		return rec, fmt.Errorf("%w: group record: version %d is unknown here: upgrade this node", wire.ErrCorrupt, v)
	}
	bits := r.Byte()
	rec.Removing, rec.Waits, rec.Hopes = bits&recordRemoving != 0, bits&recordWaits != 0, bits&recordHopes != 0
	rec.ID, rec.Namespace, rec.Strategy = r.ID(), r.String(), placement.GroupStrategy(r.String())
	rec.Owner, rec.Attempt = wire.ReadNode(r), r.Uvarint()
	n := r.Count(4)
	if err := r.Err(); err != nil {
		return rec, err
	}
	if n == 0 || n > MaxBundles || !validStrategy(rec.Strategy) {
		return rec, fmt.Errorf("%w: group record with %d bundles and the strategy %.32q", wire.ErrCorrupt, n, rec.Strategy)
	}
	rec.Bundles = make([]Bundle, n)
	for i := range rec.Bundles {
		b := &rec.Bundles[i]
		b.Held = r.Byte()&bundleHeld != 0
		if b.Needs, err = readNeeds(r); err != nil {
			return rec, err
		}
		b.At, b.Attempt = wire.ReadNode(r), r.Uvarint()
	}
	for range r.Count(2) {
		rec.Left = append(rec.Left, wire.ReadNode(r))
	}
	rec.Made, rec.Never = int64(r.Uvarint()), r.String()
	return rec, r.Err()
}

func appendNeeds(dst []byte, n raysys.Resources) []byte {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // Client.Create and readNeeds take valid amounts only
	}
	return wire.AppendBytes(dst, b)
}

func readNeeds(r *wire.Reader) (n raysys.Resources, err error) {
	b := r.Bytes()
	if r.Err() != nil {
		return n, r.Err()
	}
	if err = json.Unmarshal(b, &n); err == nil {
		err = core.Resources(n).ValidateWanted()
	}
	if err != nil {
		return n, fmt.Errorf("%w: the resources of a bundle: %w", wire.ErrCorrupt, err)
	}
	return n, nil
}

// ErrRemoved is raysys.ErrGroupRemoved with the group.
func ErrRemoved(group string) error {
	return fmt.Errorf("%w: %s: it was removed, or the node that it goes with has ended (give groups.Detached)", raysys.ErrGroupRemoved, Shown(group))
}

func validStrategy(s placement.GroupStrategy) bool {
	return slices.Contains(placement.GroupStrategies, s)
}

// Has reports whether the bundle as a whole has what work asks for, as far as that can be told without its devices.
func (b *Bundle) Has(n core.Resources) bool {
	h := &b.Needs
	const slack = 1e-6
	for k, v := range n.Custom {
		if v > h.Custom[k]+slack {
			return false
		}
	}
	return n.CPU <= h.CPU+slack && n.GPU <= h.GPU+slack && n.Memory <= h.Memory
}
