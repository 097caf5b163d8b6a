package objects

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// objectOp is an operation on an object that one node asks of another. The numbers are on the wire.
type objectOp byte

const (
	opCopy   objectOp = 1 // pull a copy of the asker's object and keep it
	opFree   objectOp = 2 // the copy may go
	opExport objectOp = 3 // give the asker a reference to an object that is kept
	opRetain objectOp = 4 // keep the object while a State's record lists it
	// opCollect: give back the references to the asker's futures that are not needed. The answer comes after the drops.
	opCollect objectOp = 5
	// opCopyFile is opCopy of an object that the node shall have in a file, for the name whose key is given.
	opCopyFile objectOp = 6
	// opRestore: by the record of a name this node has a file of the object. If it has lost that, it makes another.
	opRestore objectOp = 7
	// opLeft: the asker leaves in good order and needs the copy no more. A node that does not know it answers with an error, and keeps the
	// copy for orphanGrace.
	opLeft objectOp = 9
	// opCopyState: keep a copy of the asker's object in a file for the State whose key is given.
	opCopyState objectOp = 8
)

// objectRequest says on which object an operation is done.
type objectRequest struct {
	oid  raysys.TaskID
	key  string // copy: of the record of the object's name, empty for none; retain, copy for a State: of the State's record; restore: of either
	file bool   // copy: in a file too; it is another operation on the wire
}

// objectReply is the answer to an operation.
type objectReply struct {
	number uint64        // export: in the exports of the node that answers, 0 when it has only a copy
	id     raysys.TaskID // export: the submission's
}

// checkKey refuses a request whose key is not that of a record which the operation is about: another node's word decides
// which record is read and changed here.
func (r *objectRequest) checkKey(op objectOp) error {
	ok := true
	switch op {
	case opCopy:
		ok = r.key == "" || registry.IsNameKey(r.key)
	case opCopyFile:
		ok = registry.IsNameKey(r.key)
	case opRetain, opCopyState:
		ok = registry.IsStateKey(r.key)
	case opRestore:
		ok = registry.IsNameKey(r.key) || registry.IsStateKey(r.key)
	}
	if !ok {
		return fmt.Errorf("%w: operation %d on object %s: %.64q is no key of a record that it is about", raysys.ErrInvalidRef, op, r.oid, r.key)
	}
	return nil
}

// ask asks a node about an object.
func (o *Objects) ask(at core.NodeKey, op objectOp, request objectRequest, done func(objectReply, error)) {
	o.mesh.Reach(at, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindKeep, func(dst []byte) []byte {
			return wire.AppendBytes(wire.AppendID(append(dst, byte(op)), request.oid), request.key)
		}, func(r *wire.Reader) (objectReply, error) { return objectReply{r.Uvarint(), r.ID()}, nil }, done)
	}, func(err error) { done(objectReply{}, fmt.Errorf("%w: %w", raysys.ErrNotDelivered, err)) })
}

// askWait is ask for a caller that waits.
func (o *Objects) askWait(ctx context.Context, at core.NodeKey, op objectOp, request objectRequest) error {
	_, err := runner.Wait(ctx, func(done func(objectReply, error)) { o.ask(at, op, request, done) })
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
		o.dropCopy(request.oid)
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

// future returns a future for the answer of the node at to opExport: for the export that it names, or for the object
// itself, whose copies the directory finds.
func (a objectReply) future(o *Objects, at core.NodeKey, rec *registry.Record) *core.Future {
	if a.number != 0 {
		return o.refs.Take(a.id, at, a.number)
	}
	s := o.refs.Uncounted(at, a.id) // a reference to a copy is counted on no node
	source := o.newSource(s, refs.Description{OID: rec.ID, Owner: rec.Owner, Size: rec.Size})
	source.files = rec.Files
	return &core.NewUntyped(o.job, source).Future
}
