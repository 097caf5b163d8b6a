package objects

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/transfer"
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

// connector implements transfer.Link.
type connector struct{ mesh *mesh.Mesh }

// transferPeer implements transfer.Peer.
type transferPeer struct{ *mesh.Peer }

// Connect implements transfer.Link.
func (l connector) Connect(ctx context.Context, to core.NodeKey) (transfer.Peer, error) {
	p, err := runner.Wait(ctx, func(done func(*mesh.Peer, error)) { l.mesh.Connect(to, done) })
	if err != nil {
		return nil, err
	}
	return transferPeer{p}, nil
}

// SendBody implements transfer.Peer.
func (p transferPeer) SendBody(kind wire.Kind, head []byte, b transfer.Body) error {
	return p.Peer.SendBody(kind, head, link.Body{
		Pieces: b.Pieces, File: b.File, Offset: b.Offset, Length: b.Length, Release: b.Release,
	})
}

// Abandon implements transfer.Peer.
func (p transferPeer) Abandon(l transfer.Landing) { p.Peer.Abandon(l) }
