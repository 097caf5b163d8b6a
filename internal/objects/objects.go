package objects

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// Objects joins the node's object store to its futures and to the other nodes. It implements core.Objects and
// core.Names.
type Objects struct {
	name      raysys.NodeID
	namespace string
	job       *core.Job
	clock     refs.Clock
	log       *zap.Logger
	onFetched func(size int64, took time.Duration)
	records   func() (*registry.Registry, error)
	store     *objectstore.Store
	ctx       context.Context // ends with the node
	cancel    context.CancelFunc

	// These are nil without a cluster.
	mesh   *mesh.Mesh
	refs   *refs.References
	runner *runner.Runner
	dir    *registry.Directory
	view   func() *member.View
	engine *transfer.Engine
	unused func(name string, then func())

	mu     sync.Mutex                                  // guards the rest
	needs  map[raysys.TaskID]need                      // objects of other nodes that references here stand for
	live   map[raysys.TaskID]weak.Pointer[core.Future] // the futures whose values are objects of this node
	listed map[raysys.TaskID]bool                      // those for which the directory names this node
	deaths map[core.NodeKey]time.Time                  // when an object of a dead node was first missed
	kept   keptObjects

	recopying recopying

	files  diskFiles
	states stateObjects
	leaves leaving
}

// need is why this node wants an object of another.
type need struct {
	count int          // references here that stand for it
	owner core.NodeKey // as the last of them has it
	size  int64        // about
}

// Open opens the node's store. It writes nothing before there is something to spill.
func Open(cfg Config) (*Objects, error) {
	o := &Objects{
		name: cfg.Node, namespace: cfg.Namespace, job: cfg.Job, clock: cfg.Clock, log: cfg.Log, onFetched: cfg.Fetched, records: cfg.Records,
		needs: map[raysys.TaskID]need{},
	}
	o.recopying.o, o.states.o, o.leaves.o = o, o, o
	o.files = diskFiles{o: o, Files: cfg.Files, recovered: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	trouble := func(what string, err error) { o.log.Warn("object store: "+what, zap.Error(err)) }
	sc := cfg.Store
	sc.Pressure = o.pressure
	if sc.Node == "" {
		sc.Node = cfg.Node
	}
	sc.Hooks = objectstore.Hooks{
		Dropped: func(v objectstore.Version) { o.withdraw(v.ID) },
		Lost:    o.files.lostHere,
		Trouble: trouble,
	}
	var err error
	if o.store, err = objectstore.Open(sc); err != nil {
		return nil, err
	}
	if c := cfg.Cluster; c != nil {
		o.mesh, o.refs, o.runner, o.dir, o.view = c.Mesh, c.Refs, c.Runner, c.Directory, c.View
		o.unused = c.Unused
		if o.engine, err = o.newEngine(c.Host); err != nil {
			return nil, errors.Join(err, o.store.Close())
		}
	}
	if sc.Dir != "" {
		// Spill files of an earlier incarnation are of no use without the futures that stood for them. Files of named
		// objects stay until Recover.
		o.files.sweepFiles()
	}
	return o, nil
}

func (o *Objects) newEngine(host string) (*transfer.Engine, error) {
	return transfer.New(transfer.Config{
		Self:  o.self,
		Store: o.store, Link: connector{o.mesh}, Host: host,
		Hooks: transfer.Hooks{
			Struck: func(from core.NodeKey, id raysys.TaskID, why error) {
				o.log.Debug("object is not pulled from a node any more", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
			},
			NotShared: func(from core.NodeKey, id raysys.TaskID, why error) {
				o.log.Debug("object is pulled, not shared", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
			},
		},
	})
}

// Stop ends what waits in it.
func (o *Objects) Stop() { o.cancel() }

// Close ends transfers and the store. Values that the program still holds stay.
func (o *Objects) Close() error {
	o.cancel()
	if o.engine != nil {
		o.engine.Close()
	}
	return o.store.Close()
}

func (o *Objects) self() core.NodeKey {
	if o.mesh != nil {
		return o.mesh.Self()
	}
	return core.NodeKey{Node: o.name}
}

// Stats says what the store holds.
func (o *Objects) Stats() objectstore.Stats { return o.store.Stats() }

// Transfers counts what came and went.
func (o *Objects) Transfers() transfer.Stats { return o.engine.Stats() }

// askNode asks a node about an object.
func (o *Objects) askNode(at core.NodeKey, op objectOp, request objectRequest, done func(objectReply, error)) {
	o.mesh.Reach(at, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindKeep, func(dst []byte) []byte {
			return wire.AppendBytes(wire.AppendID(append(dst, byte(op)), request.oid), request.key)
		}, func(r *wire.Reader) (objectReply, error) { return objectReply{r.Uvarint(), r.ID()}, nil }, done)
	}, func(err error) { done(objectReply{}, fmt.Errorf("%w: %w", raysys.ErrNotDelivered, err)) })
}

// askWait is askNode for a caller that waits.
func (o *Objects) askWait(ctx context.Context, at core.NodeKey, op objectOp, request objectRequest) error {
	_, err := runner.Wait(ctx, func(done func(objectReply, error)) { o.askNode(at, op, request, done) })
	return err
}

// Serve serves KindKeep.
func (o *Objects) Serve(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error {
	op, request := objectOp(r.Byte()), objectRequest{oid: r.ID(), key: r.String()}
	if err := r.Err(); err != nil {
		return err
	}
	if err := request.checkKey(op); err != nil {
		to.Fail(err)
		return nil
	}
	answer := func(to mesh.Reply, a objectReply, err error) {
		if err != nil {
			to.Fail(err)
			return
		}
		to.Send(wire.AppendID(wire.AppendUvarint(to.Head(), a.number), a.id))
	}
	switch op {
	case opCopy, opCopyFile:
		request.file = op == opCopyFile
		cp := o.kept.copyAsked(o.ctx, p.Key(), request) // before Serve returns: the peer's next frame may be an opFree for it
		o.runner.Background(func() { answer(to, objectReply{}, o.keepCopy(cp)) }, func(err error) { o.kept.copyAnswered(cp); to.Fail(err) })
	case opCopyState:
		cp := o.kept.copyAsked(o.ctx, p.Key(), request)
		o.runner.Background(func() { answer(to, objectReply{}, o.states.keepStateCopy(cp)) }, func(err error) { o.kept.copyAnswered(cp); to.Fail(err) })
	case opFree:
		o.dropCopy(request.oid, p.Key())
		answer(to, objectReply{}, nil)
	case opLeft:
		ownerLeft(o, request, p.Key())
		answer(to, objectReply{}, nil)
	case opExport:
		select {
		case <-o.files.recovered:
			a, err := o.export(p, request.oid)
			answer(to, a, err)
		default: // this node does not know yet what files it has
			o.runner.Background(func() {
				var a objectReply
				err := o.files.awaitRecovered(o.ctx)
				if err == nil {
					a, err = o.export(p, request.oid)
				}
				answer(to, a, err)
			}, to.Fail)
		}
	case opRestore:
		o.runner.Background(func() { answer(to, objectReply{}, o.files.restoreFile(request.key, request.oid)) }, to.Fail)
	case opRetain:
		answer(to, objectReply{}, o.retainHere(request.key, request.oid))
	case opCollect:
		last := func() { answer(to.Behind(), objectReply{}, nil) } // Requests is the class of the drops
		o.runner.Background(func() { o.pressure(); o.refs.Tick(); o.refs.AfterDrops(last) }, to.Fail)
	default:
		to.Fail(fmt.Errorf("object operation %d is unknown on node %s: upgrade it", op, o.self()))
	}
	return nil
}

// export gives the peer a reference to an object that is kept here.
func (o *Objects) export(p *mesh.Peer, oid raysys.TaskID) (a objectReply, err error) {
	future, obj := o.kept.find(oid)
	switch {
	case obj == nil, future == nil && obj.Lost() != nil:
		return a, o.files.whyDenied(oid, obj)
	case future == nil:
		return a, nil
	}
	if a.number, err = refs.Of(p).Export(future); err != nil {
		return a, err
	}
	a.id = future.ID()
	return a, nil
}

// Drain copies the objects that others need to other workers. It returns how many were copied, how many end with this
// node, and why the first of those does. When ctx ends with ErrEveryoneLeaves, lost counts only the objects that a node
// which stays needs, or a State.
func (o *Objects) Drain(ctx context.Context) (left, lost int, why error) {
	if o.dir == nil {
		return 0, 0, nil
	}
	// Twice: a sync.Pool, or the stack of a task that has just ended, may keep a reference over the first collection.
	for range 2 {
		o.leaves.collectDone(ctx, o.leaves.evacuations())
	}
	if errors.Is(context.Cause(ctx), ErrEveryoneLeaves) {
		return 0, o.leaves.countMissed(), ErrEveryoneLeaves
	}
	list := o.leaves.evacuations()
	if len(list) == 0 {
		return 0, 0, nil
	}
	var mu sync.Mutex // guards lost and first
	var first error
	work := make(chan *evacuation)
	var wg sync.WaitGroup
	for range min(atOnce, len(list)) {
		wg.Go(func() {
			for e := range work {
				if err := o.leaves.evacuate(ctx, e); err != nil {
					mu.Lock()
					if lost++; first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, e := range list {
		work <- e
	}
	close(work)
	wg.Wait()
	if left = len(list) - lost; lost == 0 {
		return left, 0, nil
	}
	if errors.Is(context.Cause(ctx), ErrEveryoneLeaves) {
		return left, o.leaves.countMissed(), ErrEveryoneLeaves
	}
	return left, lost, first
}

// TakeBack frees the copies that other nodes have made for a drain which was taken back.
func (o *Objects) TakeBack() {
	o.mu.Lock()
	list := o.leaves.evacuated
	o.leaves.evacuated = nil
	o.mu.Unlock()
	for _, b := range list {
		o.free(b.at, b.oid)
	}
}

// Recover looks at the files that earlier incarnations of this node left, and asks the directory about each: it offers
// again what a name still stands for, and deletes the rest. It returns when that is over, or the node ends.
func (o *Objects) Recover() {
	defer close(o.files.recovered)
	work := make(chan objectstore.Found)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for f := range work {
				if key, ours := o.files.keyOfLabel(f.Label); ours {
					o.files.recoverFile(f.Version, key)
				} else {
					o.log.Warn("the file of an object is left alone: it belongs to a cluster that lay in another store", zap.Stringer("object", f.ID))
				}
			}
		})
	}
	if o.files.Missing == "" {
		for _, f := range o.store.Recovered() {
			work <- f
		}
	}
	close(work)
	wg.Wait()
	if o.ctx.Err() == nil && o.files.Missing == "" {
		o.files.sweepFiles()
	}
}

// NodeJoined tells that a node has joined. When files of objects that this node keeps lie there too, the node is told
// of them: it may have lost them with its disk. Objects whose own file was lost here can be fetched from it. It may keep copies that are missing.
func (o *Objects) NodeJoined(k core.NodeKey) {
	o.recopying.recopyShort()
	for oid, key := range o.kept.filesOf(k.Node) {
		o.files.restoreAt(k, key, oid, restoreTries)
		if _, obj := o.kept.find(oid); obj != nil && obj.Lost() != nil {
			o.files.repairFile(oid)
		}
	}
}

// id names the object that a future of this node holds. It is derived from the id of the submission and from this incarnation, because a driver with a
// fixed seed submits under the same ids again.
func (o *Objects) id(c *core.Future) raysys.TaskID {
	id := c.ID()
	if id.IsZero() {
		// A Ready value has none. Its place in memory is its own while it is there, and with it this id.
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(reflect.ValueOf(c).Pointer()))
		id = raysys.TaskID{Hi: maphash.Bytes(seed, b[:]), Lo: 1}
	}
	return objectID(id, o.self())
}

// List returns the objects that are here or referred to, the largest first.
func (o *Objects) List() []Info {
	holders := map[raysys.TaskID]map[raysys.NodeID]int{}
	if o.refs != nil {
		holders = o.holders()
	}
	o.mu.Lock()
	needs := maps.Clone(o.needs)
	o.mu.Unlock()
	var list []Info
	for _, i := range o.store.List() {
		need := needs[i.ID]
		delete(needs, i.ID)
		h := shownObject(i)
		if need.count > 0 {
			h.Refs, h.Owner = need.count, need.owner.Node
		}
		h.Holders = holders[i.ID]
		list = append(list, h)
	}
	for oid, need := range needs { // referred to, and not here
		list = append(list, Info{
			ID: oid.String(), Size: need.size, Forms: []string{}, Why: "reference", Owner: need.owner.Node, Refs: need.count,
		})
	}
	alive := func(core.NodeKey) bool { return true }
	if o.mesh != nil {
		alive = o.mesh.Alive
	}
	o.kept.explain(list, alive)
	slices.SortStableFunc(list, func(a, b Info) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.ID, b.ID))
	})
	return list
}

// holders says which nodes hold references to objects of this one.
func (o *Objects) holders() map[raysys.TaskID]map[raysys.NodeID]int {
	all := map[raysys.TaskID]map[raysys.NodeID]int{}
	for c, nodes := range o.refs.Holders() {
		var id raysys.TaskID
		switch s := core.SourceOf(c).(type) {
		case nil:
			id = o.id(c)
		case *storedSource:
			id = s.object.ID()
		case *objectSource:
			id = s.OID
		default:
			continue
		}
		if all[id] == nil {
			all[id] = map[raysys.NodeID]int{}
		}
		for k, n := range nodes {
			all[id][k.Node] += n
		}
	}
	return all
}

// Describe says which object c is. An object of this node is in the store when Describe returns.
func (o *Objects) Describe(c *core.Future) (d refs.Description, err error) {
	for {
		if s, ok := core.SourceOf(c).(*objectSource); ok {
			return s.Description, nil
		}
		v, err := c.Outcome()
		var e *core.Elsewhere
		switch {
		case errors.As(err, &e):
			switch s := e.Source.(type) {
			case *storedSource:
				return refs.Description{OID: s.object.ID(), Owner: o.self(), Size: s.size, Refs: s.refs}, nil
			case *objectSource:
				return s.Description, nil
			case *refs.RemoteSource: // a result that nothing here has read
				_, err := runner.Wait(o.ctx, func(done func(struct{}, error)) {
					s.Ask(func(err error) { done(struct{}{}, err) })
				})
				var at *core.Elsewhere
				if errors.As(err, &at) {
					if s, ok := at.Source.(*objectSource); ok {
						return s.Description, nil
					}
				}
				return d, err
			}
			return d, fmt.Errorf("%w: %s", raysys.ErrObjectLost, e)
		case err != nil:
			return d, err
		}
		value := reflect.ValueOf(v).Elem()
		plan, err := codec.PlanOf(value.Type())
		if err != nil {
			return d, err
		}
		oid, err := o.ensure(c)
		if errors.As(err, &e) {
			continue // it was evicted meanwhile
		}
		return refs.Description{OID: oid, Owner: o.self(), Size: int64(plan.Size(value)), Refs: refsOf(plan, v)}, err
	}
}

// DescribeHere implements refs.Objects: the owner of the object has lost it, and this node has the value. Its copy is the
// object from now on, or the value itself where the copy is gone.
func (o *Objects) DescribeHere(c *core.Future) (refs.Description, error) {
	d, err := o.Describe(c)
	if err != nil || d.Owner == o.self() {
		return d, err
	}
	d.Owner = o.self()
	if obj := o.store.Lookup(d.OID); obj == nil || obj.Lost() != nil {
		d.OID, err = o.ensure(c)
	}
	return d, err
}

// Explain adds to e what this node knows of the object that the value of c is, and which nodes the directory names. It says of an object
// whose owner is dead whether another node is known to have it.
func (o *Objects) Explain(ctx context.Context, c *core.Future, e *core.Explanation) {
	var oid raysys.TaskID
	owner, at := o.self(), core.Behind(c)
	switch s := core.SourceOf(at).(type) {
	case *objectSource:
		oid, owner, e.Size = s.OID, s.Owner, max(e.Size, s.Size)
	case *storedSource:
		oid = s.object.ID()
		if err := s.Lost(); err != nil && e.Error == "" {
			e.State, e.Error = "lost", err.Error()
		}
	case *refs.RemoteSource: // the owner's future may have an object
		oid, owner = objectID(s.ID(), s.Owner), s.Owner
	case nil:
		if !at.Object() {
			return
		}
		oid = o.id(at)
	default:
		return
	}
	e.Owner = owner.Node
	if o.dir == nil {
		return
	}
	a, err := o.dir.FindWait(ctx, registry.ObjectKey(oid)) // without an answer the rest is known all the same
	for _, l := range a.Record.At {
		if n := l.Node.Node; n != e.Owner && o.mesh.Alive(l.Node) && !slices.Contains(e.Copies, n) {
			e.Copies = append(e.Copies, n)
		}
	}
	switch dead := fmt.Sprintf("its owner %s is dead", owner.Node); {
	case o.mesh.Alive(owner) || e.Copies != nil || e.Error != "":
	case err != nil:
		e.Error = dead + ", and which nodes have copies is not known: the directory does not answer"
	default:
		e.Error = dead + ", and no other node is known to have it"
	}
}

// ExplainAll explains the objects of this node, of the ids for which wanted is true.
func (o *Objects) ExplainAll(ctx context.Context, wanted func(id raysys.TaskID) bool, limit int) (list []core.Explanation) {
	o.mu.Lock()
	var found []*core.Future
	for oid, w := range o.live {
		if c := w.Value(); c != nil && (wanted(oid) || wanted(c.ID())) && len(found) < limit {
			found = append(found, c)
		}
	}
	o.mu.Unlock()
	for _, c := range found {
		e := core.Explain(c, core.ExplainDepth)
		o.Explain(ctx, c, &e)
		list = append(list, e)
	}
	return list
}

// Handle handles a frame of a transfer.
func (o *Objects) Handle(p *mesh.Peer, kind wire.Kind, frame []byte) error {
	return o.engine.Handle(transferPeer{p}, kind, frame)
}

// PeerDown ends what goes on over a connection that is over.
func (o *Objects) PeerDown(k core.NodeKey, cause error) { o.engine.PeerDown(k, cause) }

// Land says where the body of a KindChunk goes.
func (o *Objects) Land(p *mesh.Peer, head []byte, size int) link.Landing {
	if landing := o.engine.Land(p.Key(), head, size); landing != nil {
		return landing
	}
	return nil
}

// addToDirectory enters a copy in the directory, so that others find it when the owner is gone or busy.
func (o *Objects) addToDirectory(obj *objectstore.Object, owner core.NodeKey) {
	v, err := obj.Version(o.ctx)
	if err != nil {
		return
	}
	o.markListed(v.ID)
	o.dir.Update(registry.AddCopy(registry.Record{ID: v.ID, Owner: owner, Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce}, false))
}

// markListed notes that the directory names this node for an object.
func (o *Objects) markListed(oid raysys.TaskID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listed == nil {
		o.listed = map[raysys.TaskID]bool{}
	}
	o.listed[oid] = true
}

// withdraw takes this node out of an object's record.
func (o *Objects) withdraw(oid raysys.TaskID) {
	o.mu.Lock()
	listed := o.listed[oid]
	delete(o.listed, oid)
	o.mu.Unlock()
	if listed {
		o.removeFromDirectory(oid)
	}
}

// removeFromDirectory takes a copy out of the directory.
func (o *Objects) removeFromDirectory(oid raysys.TaskID) {
	if o.dir != nil && o.ctx.Err() == nil {
		o.dir.Update(registry.RemoveCopy(oid))
	}
}

// pressure is called before a primary is spilled. It runs a collection: the objects that become unreachable by it may
// free enough memory (rule C25). The runtime runs the cleanups that a collection has queued on goroutines of its own;
// pressure waits until as many have run as were queued.
func (o *Objects) pressure() {
	runtime.GC()
	counts := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(counts)
	queued := counts[0].Value.Uint64()
	ctx, cancel := context.WithTimeout(o.ctx, pressureLimit)
	defer cancel()
	for pause := time.Microsecond; counts[1].Value.Uint64() < queued && backoff.Wait(ctx, pause); pause *= 2 {
		metrics.Read(counts[1:])
	}
}

// replicate has other nodes pull copies of an object that is here, and keep them.
func (o *Objects) replicate(ctx context.Context, obj *objectstore.Object, future *core.Future, spec core.PutSpec) ([]core.NodeKey, error) {
	want := spec.Replicas
	if !spec.Others {
		want--
	}
	if want <= 0 {
		return nil, nil
	}
	if d, err := o.Describe(future); err != nil || len(d.Refs) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%w: Replicas of a value that holds references: they would end with this node", raysys.ErrBadOption))
	}
	key := ""
	if spec.Name != "" {
		key = registry.NameKey(o.namespace, spec.Name)
	}
	op := opCopy
	if spec.OnDisk {
		op = opCopyFile
	}
	var kept []core.NodeKey
	var errs []error
	for _, k := range o.candidates(obj.ID()) {
		if len(kept) == want {
			break
		}
		err := askToKeep(ctx, o, k, op, objectRequest{oid: obj.ID(), key: key})
		if err == nil {
			kept = append(kept, k)
			continue
		}
		if !mesh.Undelivered(err) {
			o.free(k, obj.ID()) // the node may still be making the copy, or its answer was lost
		}
		errs = append(errs, fmt.Errorf("node %s: %w", k.Node, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(kept) < want {
		o.release(&reasons{object: obj, replicas: kept})
		errs = append([]error{fmt.Errorf("%w: Replicas(%d), and %d other nodes took a copy", raysys.ErrNoCapacity, spec.Replicas, len(kept))}, errs...)
		return nil, errors.Join(errs...)
	}
	return kept, nil
}

// others counts the other workers that stay, those that do not answer included.
func (o *Objects) others() (n int) {
	for _, m := range o.view().Nodes() {
		if keepsObjects(m) && !m.Info.Draining && mesh.KeyOf(m) != o.self() {
			n++
		}
	}
	return n
}

// candidates lists the other workers that stay, in an order that differs from object to object.
func (o *Objects) candidates(oid raysys.TaskID) []core.NodeKey {
	rank := map[core.NodeKey]uint64{}
	var keys []core.NodeKey
	for _, n := range o.view().Nodes() {
		k := mesh.KeyOf(n)
		if keepsObjects(n) && !n.Info.Draining && !n.Suspect && k != o.self() {
			rank[k] = (fnv1a(string(k.Node)) ^ oid.Hi ^ oid.Lo) * 0x9e3779b97f4a7c15
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b core.NodeKey) int {
		switch {
		case rank[a] < rank[b]:
			return -1
		case rank[a] > rank[b]:
			return 1
		}
		return 0
	})
	return keys
}

// retainHere retains an object in this node's store while the record of the State under key lists it.
func (o *Objects) retainHere(key string, oid raysys.TaskID) error {
	obj := o.store.Lookup(oid)
	future := o.futureOf(oid)
	r := &retention{o: o, key: key, oid: oid}
	if obj == nil || obj.Lost() != nil || !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) { // else it is kept for its owner too, whose death ends that
			k.owner = o.self()
		}
		if future != nil {
			k.future = future
		}
		k.keys[key]++
		r.number = k.keys[key]
	}) {
		return fmt.Errorf("%w: node %s does not have it", raysys.ErrObjectLost, o.self())
	}
	r.alarm.At, r.alarm.Ring = o.clock.Now()+int64(retainGrace), r.unwritten
	o.clock.SetAlarm(&r.alarm)
	o.record(key, shardlog.Version{}, false, r.seen)
	return nil
}

// lastRecord asks for a State's record behind all commits that its leader was asked for before.
func (o *Objects) lastRecord(key string, done func(registry.Entry, error)) {
	reg, err := o.records()
	if err != nil {
		done(registry.Entry{}, err)
		return
	}
	reg.FindLast(key, done)
}

// record asks for a State's record, with wait once it has another version than seen.
func (o *Objects) record(key string, seen shardlog.Version, wait bool, done func(registry.Entry, error)) {
	reg, err := o.records()
	if err != nil {
		done(registry.Entry{}, err)
		return
	}
	if wait {
		reg.Await(key, seen, done)
		return
	}
	reg.Find(key, done)
}

// retainState keeps an object in this node's store for the State that it is. The caller has r.seen called with the State's
// record, and calls r.wait unless that is known to list the object.
func (o *Objects) retainState(key string, obj *objectstore.Object, writer core.NodeKey, enter func(*reasons)) (*retention, error) {
	r := &retention{o: o, key: key, oid: obj.ID(), writer: writer}
	if !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) {
			k.owner = writer
		}
		k.unreferenced = o.needed(r.oid) == 0
		k.keys[key]++
		r.number = k.keys[key]
		k.state = r
		enter(k)
	}) {
		return nil, raysys.ErrReleased
	}
	return r, nil
}

// Retain implements graindir.Retainer: it encodes the references of a State, and has the owners retain the objects.
func (o *Objects) Retain(id graindir.ID, name string, refs []*core.Future, done func([]byte, []raysys.TaskID, error)) {
	go func() { // the end of o.ctx ends it
		r := &retaining{o: o, key: registry.StateKey(o.namespace, id, name)}
		var out []byte
		for _, c := range refs {
			var err error
			if out, err = r.append(out, c, 0); err != nil {
				done(nil, nil, err)
				return
			}
		}
		done(out, r.ids, nil)
	}()
}

// NewSource returns a source of the object, and counts as a need of this node for it until the source is collected.
func (o *Objects) NewSource(at *refs.RemoteSource, d refs.Description) core.Source {
	return o.newSource(at, d)
}

func (o *Objects) newSource(at *refs.RemoteSource, d refs.Description) *objectSource {
	s := &objectSource{Description: d, at: at, o: o}
	o.need(d.OID, d.Owner, d.Size)
	objects := weak.Make(o) // as in collectable
	runtime.AddCleanup(s, func(oid raysys.TaskID) {
		if o := objects.Value(); o != nil {
			o.unneeded(oid)
		}
	}, d.OID)
	return s
}

// need counts a need of this node for an object of another, until unneeded.
func (o *Objects) need(oid raysys.TaskID, owner core.NodeKey, size int64) {
	o.kept.mu.Lock() // keptObjects.drop ends the object before this need, or sees it
	defer o.kept.mu.Unlock()
	if k := o.kept.byID[oid]; k != nil {
		k.unreferenced = false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.needs[oid] = need{o.needs[oid].count + 1, owner, max(size, o.needs[oid].size)}
}

// unneeded ends a need: the collector calls it when a source is gone. With the last one the copy goes, unless it is kept.
func (o *Objects) unneeded(oid raysys.TaskID) {
	var k *reasons
	o.kept.mu.Lock() // before the count: keepCopy reads the count under this lock
	if o.oneLess(oid) {
		if obj := o.store.Lookup(oid); obj != nil {
			k = o.kept.unneededLocked(obj)
		}
	}
	o.kept.mu.Unlock()
	o.endCollected(k)
}

// oneLess ends one need of an object, and reports whether it was the last.
func (o *Objects) oneLess(oid raysys.TaskID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.needs[oid]
	if n.count--; n.count > 0 {
		o.needs[oid] = n
		return false
	}
	delete(o.needs, oid)
	return true
}

// needed says how many references here stand for an object of another node.
func (o *Objects) needed(oid raysys.TaskID) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.needs[oid].count
}

// KeepState implements graindir.Retainer.
func (o *Objects) KeepState(id graindir.ID, name string, record []byte, done func([]byte, raysys.TaskID, error)) {
	go func() { // the end of o.ctx ends it
		done(o.states.keepState(registry.StateKey(o.namespace, id, name), record))
	}()
}

// KeptState implements graindir.Retainer.
func (o *Objects) KeptState(_ graindir.ID, _ string, object raysys.TaskID, err error) {
	o.kept.mu.Lock()
	k := o.kept.byID[object]
	if k == nil || k.state == nil {
		o.kept.mu.Unlock()
		return
	}
	k.writing = false
	r, replicas := k.state, slices.Clone(k.replicas)
	o.kept.mu.Unlock()
	switch {
	case err == nil:
		for _, at := range replicas { // one that began anew meanwhile may have deleted its file: no record listed the object
			if now, ok := o.files.currentOf(at.Node); ok && now != at {
				o.files.restoreAt(now, r.key, object, restoreTries)
			}
		}
	case errors.Is(err, raysys.ErrOutcomeUnknown), errors.Is(err, raysys.ErrMoved), errors.Is(err, graindir.ErrETag):
		// The record decides.
	default:
		r.finish()
	}
}

// FetchState implements graindir.Retainer.
func (o *Objects) FetchState(_ graindir.ID, _ string, written []byte, done func([]byte, error)) {
	go func() { // the end of o.ctx ends it
		rec, err := registry.ReadRecord(written)
		if err != nil {
			done(nil, err)
			return
		}
		done(o.states.fetchState(&rec))
	}()
}

// Restore implements graindir.Retainer.
func (o *Objects) Restore(written []byte) (refs []*core.Future, err error) {
	r := wire.NewReader(written)
	for r.Len() > 0 {
		c, err := o.states.restoreOuter(&r, 0)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

// underWay waits until the updates of nodes with copies of the dead node's objects have reached the directory: until
// settling after the first call for that node. It returns false when that time is over already, or ctx ends.
func (o *Objects) underWay(ctx context.Context, dead core.NodeKey) bool {
	now := time.Now()
	o.mu.Lock()
	at, known := o.deaths[dead]
	if !known {
		for k, t := range o.deaths {
			if now.Sub(t) > time.Minute && len(o.deaths) > 100 {
				delete(o.deaths, k)
			}
		}
		if o.deaths == nil {
			o.deaths = map[core.NodeKey]time.Time{}
		}
		at = now
		o.deaths[dead] = at
	}
	o.mu.Unlock()
	left := settling - now.Sub(at)
	if left <= 0 {
		return false
	}
	return backoff.Wait(ctx, left)
}

// FindCopies ends a wait for an owner that cannot be asked. When the value was an object and a node has a copy, done gets
// a core.Elsewhere; else it gets end. While the directory does not answer, the value is unreachable and not lost.
func (o *Objects) FindCopies(s *refs.RemoteSource, end error, done func(error)) {
	if s.ID().IsZero() || o.ctx.Err() != nil {
		done(end)
		return
	}
	oid := objectID(s.ID(), s.Owner)
	if obj := o.store.Lookup(oid); obj != nil && obj.Lost() == nil {
		done(&core.Elsewhere{Source: o.NewSource(s, refs.Description{OID: oid, Owner: s.Owner})})
		return
	}
	look := func(none func()) {
		o.dir.Find(registry.ObjectKey(oid), func(a registry.Entry, err error) {
			switch {
			case errors.Is(end, raysys.ErrUnreachable) && err != nil:
				done(end) // end says more than err
			case err != nil:
				done(s.Unreachable(fmt.Errorf("look for copies of it: %w", err)))
			case !a.Exists || len(a.Record.At) == 0:
				none()
			default:
				done(&core.Elsewhere{Source: o.NewSource(s, refs.Description{OID: oid, Owner: s.Owner, Size: a.Record.Size})})
			}
		})
	}
	none := func() { done(end) }
	look(func() {
		o.runner.Background(func() {
			if o.mesh.Alive(s.Owner) || !o.underWay(o.ctx, s.Owner) {
				none()
				return
			}
			look(none)
		}, func(error) { none() })
	})
}

// seed separates the ids of objects from all others.
var seed = maphash.MakeSeed()

// objectID names the object that a node made of a submission's value.
func objectID(id raysys.TaskID, owner core.NodeKey) raysys.TaskID {
	h := fnv1a(string(owner.Node)) ^ owner.Incarnation*0x9e3779b97f4a7c15
	return raysys.TaskID{Hi: id.Hi ^ h, Lo: id.Lo ^ h<<32 ^ h>>32}
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// pressureLimit bounds the wait for cleanups.
const pressureLimit = 100 * time.Millisecond
