package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// A State that is too large for the store is an object in files of two nodes: of the node that hosts the grain, and of
// another one. Its id is drawn for each version. The files have the key of the State's record as their label, and that
// record names object and nodes: it is to these files what the record of a name is to those of raysys.OnDisk.
//
//	KeepState ──► file here ──► opCopyState: file there ──► the record is committed ──► KeptState
//
// Each of the two nodes keeps its file while the record lists the object (retention). While it is open whether a record
// will list it, the node that writes it decides, for as long as it lives.

// stateObjects writes, copies and reads the States that are objects.
type stateObjects struct{ o *Objects }

func (so *stateObjects) keepState(key string, data []byte) ([]byte, raysys.TaskID, error) {
	oid := raysys.TaskID{Hi: rand.Uint64(), Lo: rand.Uint64()}
	if so.o.dir != nil && so.o.files.Missing != "" {
		return nil, oid, so.noDisk()
	}
	obj, err := so.o.store.Add(so.o.ctx, oid, 1, &stateValue{data})
	if err != nil {
		return nil, oid, err
	}
	r, err := so.o.retainState(key, obj, so.o.self(), func(k *reasons) { k.writing = true })
	if err != nil {
		return nil, oid, err
	}
	rec, err := so.writeState(key, obj)
	if err != nil {
		r.finish()
		return nil, oid, err
	}
	r.setAlarm()
	so.o.record(key, shardlog.Version{}, false, r.seen)
	return rec.Append(nil), oid, nil
}

// noDisk is the error of a node that cannot have files of States.
func (so *stateObjects) noDisk() error {
	return fmt.Errorf("%w: a State that is too large for the store lies on disks, and node %s has none: %s", raysys.ErrNoStore, so.o.name, so.o.files.Missing)
}

// writeState gives the object its files, and returns what the record of the State shall say. Without a cluster there is
// one file, and none where the records end with the process.
func (so *stateObjects) writeState(key string, obj *objectstore.Object) (rec registry.Record, err error) {
	if so.o.files.Missing == "" {
		if err := so.o.files.persist(so.o.ctx, obj, key); err != nil {
			return rec, err
		}
	}
	v, err := obj.Version(so.o.ctx)
	if err != nil {
		return rec, err
	}
	var others []core.NodeKey
	if so.o.dir != nil {
		if others, err = so.replicateState(key, v.ID); err != nil {
			return rec, err
		}
	}
	rec = registry.Record{ID: v.ID, Owner: so.o.self(), Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce, Replicas: 1 + len(others)}
	if so.o.files.Missing == "" {
		rec.Files = onDisk(so.o.self(), others)
	}
	so.o.kept.keep(obj, func(k *reasons) {
		k.files = rec.Files
		k.addReplicas(others)
	})
	return rec, nil
}

// stateTries bounds how often the other nodes are asked for a file, with a pause of watchPause, while some of them do not
// answer: by then such a node is a member no more.
const stateTries = 30

// replicateState has another node make a file of the object. There is none where no other worker stays in the cluster.
func (so *stateObjects) replicateState(key string, oid raysys.TaskID) ([]core.NodeKey, error) {
	for try := 1; ; try++ {
		var errs []error
		later := false
		for _, k := range so.o.candidates(oid) {
			err := askToKeep(so.o.ctx, so.o, k, opCopyState, objectRequest{oid: oid, key: key})
			if err == nil {
				return []core.NodeKey{k}, nil
			}
			if !mesh.Undelivered(err) {
				so.o.free(k, oid) // the node may have a copy, or still be making one
			}
			errs = append(errs, fmt.Errorf("node %s: %w", k.Node, err))
			later = later || !errors.Is(err, raysys.ErrNoStore) && !errors.Is(err, raysys.ErrStoreFull)
		}
		switch others := so.o.others(); {
		case others == 0:
			return nil, nil
		case others > len(errs): // it is suspected, and no candidate
			later = true
			errs = append(errs, fmt.Errorf("%w: %d of %d other nodes do not answer", raysys.ErrUnreachable, others-len(errs), others))
		}
		if !later || try == stateTries || !so.o.files.pauseForStore() {
			return nil, fmt.Errorf("%w: a State of this size lies on the disks of two nodes: %w", raysys.ErrNoCapacity, errors.Join(errs...))
		}
	}
}

// keepStateCopy makes a file of the owner's object for a State. The owner sends opFree when no record lists it, and none
// will.
func (so *stateObjects) keepStateCopy(c *pendingCopy) error {
	defer so.o.kept.copyAnswered(c)
	oid, key := c.request.oid, c.request.key
	if so.o.files.Missing != "" {
		return so.noDisk()
	}
	obj, err := so.o.engine.Fetch(so.o.ctx, objectstore.Version{ID: oid}, transfer.From(c.owner), objectstore.Segment)
	if err != nil {
		return err
	}
	defer obj.Unpin()
	r, err := so.o.retainState(key, obj, c.owner, func(*reasons) {})
	if err != nil {
		return err
	}
	if err = so.o.files.persist(c.ctx, obj, key); err == nil {
		var a registry.Entry
		if a, err = runner.Wait(c.ctx, func(done func(registry.Entry, error)) { so.o.record(key, shardlog.Version{}, false, done) }); err == nil {
			r.setAlarm()
			r.seen(a, nil)
		}
	}
	if err == nil && c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	if err != nil {
		r.finish()
	}
	return err
}

func (so *stateObjects) fetchState(rec *registry.Record) (b []byte, err error) {
	if slices.Contains(rec.Files, so.o.name) {
		if err := so.o.files.awaitRecovered(so.o.ctx); err != nil {
			return nil, err
		}
	}
	so.o.need(rec.ID, rec.Owner, rec.Size)
	defer so.o.unneeded(rec.ID)
	for again := true; ; again = false {
		obj, err := so.pinState(rec)
		if err != nil {
			return nil, err
		}
		b, err = obj.Bytes(so.o.ctx)
		lost := obj.Lost() != nil
		obj.Unpin()
		if err == nil || !lost || !again { // else the file that this node had is damaged
			return b, lostObject(err)
		}
	}
}

// pinState returns the object of a State, from this node's store or from another node.
func (so *stateObjects) pinState(rec *registry.Record) (*objectstore.Object, error) {
	if obj := so.o.store.Take(rec.ID); obj != nil {
		if v, err := obj.Version(so.o.ctx); err == nil && rec.Same(&registry.Record{ID: v.ID, Attempt: v.Attempt, Nonce: v.Nonce, Size: v.Size}) {
			return obj, nil
		}
		obj.Unpin()
	}
	if so.o.dir == nil {
		return nil, so.o.files.whyDenied(rec.ID, so.o.store.Lookup(rec.ID))
	}
	nodes, err := so.nodesWithState(rec)
	if err != nil {
		return nil, err
	}
	v := objectstore.Version{ID: rec.ID, Attempt: rec.Attempt, Size: rec.Size, Nonce: rec.Nonce}
	w := &whereabouts{o: so.o, oid: rec.ID, files: rec.Files, lenders: func() []core.NodeKey { return nodes }}
	return so.o.files.unlessPresent(rec.ID, func() (*objectstore.Object, error) { return so.o.engine.Fetch(so.o.ctx, v, w, objectstore.Heap) })
}

// nodesWithState asks which nodes have the object of a State: those that the State's record names, and where none of
// these has it those that the directory knows of, to which a node that left has copied it.
func (so *stateObjects) nodesWithState(rec *registry.Record) (nodes []core.NodeKey, err error) {
	var errs []error
	open := so.o.files.allAway(rec.Files)
	if slices.Contains(rec.Files, so.o.name) {
		errs = append(errs, so.o.files.whyDenied(rec.ID, so.o.store.Lookup(rec.ID)))
	}
	ask := func(list []registry.Location) {
		for _, at := range list {
			if at.Node == so.o.self() || !so.o.mesh.Alive(at.Node) {
				continue
			}
			err := so.o.askWait(so.o.ctx, at.Node, opExport, objectRequest{oid: rec.ID})
			if err == nil {
				nodes = append(nodes, at.Node)
				continue
			}
			err = fmt.Errorf("node %s: %w", at.Node, err)
			if errs = append(errs, err); open == nil && !errors.Is(err, raysys.ErrObjectLost) {
				open = err
			}
		}
	}
	if ask(so.o.files.withFiles(rec)); len(nodes) == 0 {
		a, err := so.o.dir.FindWait(so.o.ctx, registry.ObjectKey(rec.ID))
		if err != nil {
			return nil, unknownCopies(err)
		}
		ask(a.Record.At)
	}
	switch {
	case len(nodes) > 0:
		return nodes, nil
	case open != nil:
		return nil, fmt.Errorf("%w: it may be had later: %w", raysys.ErrUnreachable, open)
	}
	return nil, errors.Join(fmt.Errorf("%w: the object of a State, of which %d nodes had a file", raysys.ErrObjectLost, len(rec.Files)), errors.Join(errs...))
}

// keepStateFile keeps an object that the record of a State lists, with a file: one of an earlier incarnation, or one that was
// made anew.
func (so *stateObjects) keepStateFile(key string, obj *objectstore.Object, rec *registry.Record) error {
	r, err := so.o.retainState(key, obj, rec.Owner, func(k *reasons) { k.files = rec.Files })
	if err != nil {
		return err
	}
	r.written.Store(true)
	if so.o.files.Missing == "" {
		if err := so.o.files.persist(so.o.ctx, obj, key); err != nil {
			r.finish()
			return err
		}
	}
	for so.o.dir != nil && !slices.Contains(rec.Files, so.o.name) { // else the State's record says where to look
		so.o.markListed(rec.ID)
		own := *rec
		own.At = nil
		a, err := so.o.dir.ChangeWait(so.o.ctx, registry.AddCopy(own, true))
		if err == nil && !a.Refused {
			break
		}
		if !so.o.files.pauseForStore() {
			return raysys.ErrClosed
		}
	}
	so.o.record(key, shardlog.Version{}, false, r.seen)
	if so.o.dir != nil {
		so.o.files.restoreElsewhere(key, rec.ID, rec.Files)
	}
	return nil
}

// stateValue is the record of a State as the object store sees it, until it is in a file.
type stateValue struct{ record []byte }

// Size implements objectstore.Value.
func (v *stateValue) Size() int64 { return int64(len(v.record)) }

// Pieces implements objectstore.Value.
func (v *stateValue) Pieces() ([][]byte, error) { return [][]byte{nil, v.record}, nil }

// Evict implements objectstore.Value.
func (v *stateValue) Evict() bool { return true }

// Why implements objectstore.Reason.
func (v *stateValue) Why() string { return "state" }

func (so *stateObjects) restoreOuter(r *wire.Reader, depth int) (*core.Future, error) {
	if depth > maxDepth {
		return nil, wire.ErrCorrupt
	}
	kind := r.Byte()
	switch kind {
	case writtenSmall:
		b := slices.Clone(r.Bytes())
		refs, err := so.restoreInner(r, depth)
		if err != nil {
			return nil, err
		}
		return &core.NewUntyped(so.o.job, &writtenValue{b, refs}).Future, nil
	case writtenObject, writtenTask:
		var run uint64
		var task raysys.TaskID
		if kind == writtenTask {
			run, task = r.Uvarint(), r.ID()
		}
		d := refs.Description{OID: r.ID()}
		id := r.ID()
		d.Owner, d.Size = wire.ReadNode(r), int64(r.Uvarint())
		var err error
		if d.Refs, err = so.restoreInner(r, depth); err != nil {
			return nil, err
		}
		if d.Owner == so.o.self() {
			if future, _ := so.o.kept.find(d.OID); future != nil {
				if run != 0 && so.o.refs != nil {
					future = so.o.refs.StoredHere(future, run, task)
				}
				return future, nil
			}
		}
		if so.o.refs == nil {
			return &core.NewUntyped(so.o.job, lostSource{id, d.Owner}).Future, nil
		}
		s := so.o.refs.Uncounted(d.Owner, id)
		if run != 0 {
			s = so.o.refs.Stored(d.Owner, run, task)
		}
		return &core.NewUntyped(so.o.job, so.o.NewSource(s, d)).Future, nil
	}
	return nil, errors.Join(wire.ErrCorrupt, r.Err())
}

func (so *stateObjects) restoreInner(r *wire.Reader, depth int) (refs []*core.Future, err error) {
	for range r.Count(1) {
		c, err := so.restoreOuter(r, depth+1)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

// writtenValue is a small value that was written with its reference.
type writtenValue struct {
	value []byte
	refs  []*core.Future
}

func (s *writtenValue) Name() string      { return "value of a stored reference" }
func (s *writtenValue) ID() raysys.TaskID { return raysys.TaskID{} }
func (s *writtenValue) Cancelled()        {}

// Fetch implements core.Source.
func (s *writtenValue) Fetch(into any, done func(error)) {
	done(refs.Decode(s.value, into, s.refs))
}

// lostSource stands for an object that an earlier process without a cluster had: its bytes ended with that process.
type lostSource struct {
	id    raysys.TaskID
	owner core.NodeKey
}

func (s lostSource) Name() string      { return "object of " + s.owner.String() }
func (s lostSource) ID() raysys.TaskID { return s.id }
func (s lostSource) Cancelled()        {}

// Fetch implements core.Source.
func (s lostSource) Fetch(_ any, done func(error)) {
	done(fmt.Errorf("%w: its owner %s is dead", raysys.ErrObjectLost, s.owner))
}
