package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
)

// A node that drains has other nodes copy the objects that they need: objects that other nodes hold references to, that
// have a name, or that a State lists, and copies that this node keeps for others. A holder of a reference finds the copy
// by the directory once this node has left. An object that no other node knows ends with this node. So does a value that
// holds references itself, since their owner is this node too.

// atOnce is how many objects are copied at the same time.
const atOnce = 8

// evacuation is an object that others need when this node has left.
type evacuation struct {
	future  *core.Future // nil for a copy
	object  *objectstore.Object
	names   []string // keys of the directory
	states  []string // keys of States that refer to it
	state   string   // key of the State that it is
	files   []raysys.NodeID
	holders []core.NodeKey // nodes that hold references to it
	copies  []core.NodeKey // nodes that keep copies of it for this one
}

// ErrEveryoneLeaves is the cause of the end of a drain that has no node to move anything to: all workers of the cluster
// drain, or have left.
var ErrEveryoneLeaves = errors.New("every worker of the cluster leaves")

// leaving is what a drain does with the objects of this node.
type leaving struct {
	o         *Objects
	evacuated []evacuated // of the drain in progress; Objects.mu guards it
}

// countMissed counts the objects that a node which stays needs, or a State.
func (lv *leaving) countMissed() (n int) {
	for _, e := range lv.evacuations() {
		if len(e.states) > 0 || slices.ContainsFunc(e.holders, lv.staysAt) {
			n++
		}
	}
	return n
}

// staysAt reports whether a node is a member that does not drain.
func (lv *leaving) staysAt(k core.NodeKey) bool {
	n, ok := lv.o.view().Node(k.Node)
	return ok && n.Incarnation == k.Incarnation && !n.Info.Draining
}

// collectDone has the nodes that hold references to list run a collection, and give back the references that they do not
// need. A small heap is seldom collected; without this, objects that tasks of a departed driver left behind would be
// copied, or counted as lost (rule C25).
func (lv *leaving) collectDone(ctx context.Context, list []*evacuation) {
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	asked := map[core.NodeKey]bool{}
	var wg sync.WaitGroup
	for _, e := range list {
		for _, k := range e.holders {
			if asked[k] {
				continue
			}
			asked[k] = true
			wg.Go(func() { // where it fails the references of that node count as they are
				_ = lv.o.askWait(ctx, k, opCollect, objectRequest{})
			})
		}
	}
	wg.Wait()
}

// collectLimit bounds collect: a collection of a large heap takes some tenths of a second, and seconds on a machine
// that is overloaded.
const collectLimit = 10 * time.Second

// evacuated is a copy that another node keeps when this one leaves.
type evacuated struct {
	at  core.NodeKey
	oid raysys.TaskID
}

// evacuations lists the objects that others need.
func (lv *leaving) evacuations() []*evacuation {
	byFuture := map[*core.Future]*evacuation{}
	var list []*evacuation
	for future, at := range lv.o.refs.Holders() {
		holders := living(lv.o, at)
		if len(holders) == 0 || !future.Settled() || refs.RemoteOf(future) != nil {
			continue // RemoteOf: a future of another node, borrowed through this one; the holder asks its owner once this node has left
		}
		e := &evacuation{future: future, holders: holders}
		byFuture[future] = e
		list = append(list, e)
	}
	lv.o.kept.mu.Lock()
	defer lv.o.kept.mu.Unlock()
	for _, k := range lv.o.kept.byID {
		if !k.wanted() {
			continue
		}
		e := byFuture[k.future]
		if e == nil || k.future == nil {
			e = &evacuation{future: k.future, object: k.object}
			list = append(list, e)
		}
		for key := range k.keys {
			switch {
			case isName(key):
				e.names = append(e.names, key)
			case k.state != nil:
				e.state, e.files = key, k.files
			default:
				e.states = append(e.states, key)
			}
		}
	}
	return list
}

// living returns the other nodes among holders that live.
func living(o *Objects, holders map[core.NodeKey]int) []core.NodeKey {
	return slices.DeleteFunc(slices.Collect(maps.Keys(holders)), func(k core.NodeKey) bool { return k == o.self() || !o.mesh.Alive(k) })
}

// isName reports whether a key of the directory is that of a name.
func isName(key string) bool { return strings.HasPrefix(key, "n/") }

// evacuate has another node take a copy, and keep it for the names and States of the object.
func (lv *leaving) evacuate(ctx context.Context, e *evacuation) error {
	oid, err := lv.evacuatedID(ctx, e)
	if err != nil || oid.IsZero() {
		return err
	}
	targets := lv.o.candidates(oid)
	// A node that holds a reference is likely to need the bytes, or has them.
	slices.SortStableFunc(targets, func(a, b core.NodeKey) int {
		return boolOrder(slices.Contains(e.holders, b), slices.Contains(e.holders, a))
	})
	stays := false // another node has a file of the State
	if e.state != "" {
		targets = slices.DeleteFunc(targets, func(k core.NodeKey) bool {
			has := slices.Contains(e.files, k.Node)
			stays = stays || has
			return has
		})
	}
	var errs []error
	for _, k := range targets {
		_, err := lv.leaveTo(ctx, k, oid, e)
		if err == nil {
			lv.o.mu.Lock()
			lv.evacuated = append(lv.evacuated, evacuated{k, oid})
			lv.o.mu.Unlock()
			return nil
		}
		errs = append(errs, fmt.Errorf("node %s: %w", k.Node, err))
		if ctx.Err() != nil {
			break
		}
	}
	if stays {
		return nil
	}
	if errs == nil {
		return fmt.Errorf("%w: no other node keeps objects", raysys.ErrNoCapacity)
	}
	return errors.Join(errs...)
}

// evacuatedID returns the id of the object in this node's store, zero for a future that has no value to leave.
func (lv *leaving) evacuatedID(ctx context.Context, e *evacuation) (raysys.TaskID, error) {
	if e.future == nil {
		return e.object.ID(), nil
	}
	if err := e.future.Failure(); err != nil && (e.future.Failed() || errors.Is(err, raysys.ErrReleased)) {
		return raysys.TaskID{}, nil // one whose value is lost has none to leave, and others need it: ensure says so
	}
	for {
		oid, err := lv.o.ensure(e.future)
		var elsewhere *core.Elsewhere
		switch {
		case errors.As(err, &elsewhere):
			if _, stored := elsewhere.Source.(*storedSource); !stored {
				return raysys.TaskID{}, nil // the value was never here: the node that has it keeps it
			}
			if err := evicted(ctx, elsewhere); err != nil {
				return oid, err
			}
			continue
		case err != nil:
			return oid, err
		}
		d, err := lv.o.Describe(e.future)
		if err == nil && len(d.Refs) > 0 {
			err = fmt.Errorf("%w: object %s holds references, which end with this node", raysys.ErrObjectLost, oid)
		}
		return oid, err
	}
}

// leaveTo has a node take a copy, and keep it for names and States. With an error, it may keep a copy all the same when
// doubt is true: a part was done, or the outcome is unknown. A node that refuses all keeps what it kept before.
func (lv *leaving) leaveTo(
	ctx context.Context, to core.NodeKey, oid raysys.TaskID, e *evacuation,
) (doubt bool, err error) {
	ask := func(op objectOp, key string) error {
		err := askToKeep(ctx, lv.o, to, op, objectRequest{oid: oid, key: key})
		doubt = doubt || err == nil || mesh.Unknown(err) || ctx.Err() != nil
		return err
	}
	// Once without a name, then for each name: a node that has the copy already enters the name only.
	for _, key := range append([]string{""}, e.names...) {
		if err := ask(opCopy, key); err != nil {
			return doubt, err
		}
	}
	for _, key := range e.states {
		if err := ask(opRetain, key); err != nil {
			return doubt, err
		}
	}
	if e.state != "" {
		if err := ask(opCopyState, e.state); err != nil {
			return doubt, err
		}
	}
	if (len(e.states) > 0 || e.state != "") && len(e.holders) == 0 { // no other node holds it: its States alone say how long the copy stays
		err = ask(opFree, "")
	}
	return doubt, err
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
