package graindir

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Token names one placement of a grain (rule C19): the epoch of the leader that made it and its number there. It stays
// when the leader changes. The zero Token is no placement, or a node without a cluster.
type Token struct{ Epoch, Seq uint64 }

// IsZero reports whether t names no placement.
func (t Token) IsZero() bool { return t == Token{} }

// Newer reports whether t was made after u.
func (t Token) Newer(u Token) bool {
	return t.Epoch > u.Epoch || t.Epoch == u.Epoch && t.Seq > u.Seq
}

// Place says where a grain is. The zero Place is nowhere.
type Place struct {
	core.NodeKey
	Token Token
}

// IsZero reports whether p is nowhere.
func (p Place) IsZero() bool { return p == Place{} }

// Placed is a grain's record: where it is, and the bundle of a placement group that it is in there; zero for none.
type Placed struct {
	Place
	Bundle core.Bundle
}

// Wanted is what a grain asks of the node it is placed on.
type Wanted struct {
	Entry     *core.Entry       // of the kind: the node must have it
	Strategy  raysys.Strategy   // "" for the default
	Labels    map[string]string // the node must have them all
	Needs     core.Resources    // the node must have them
	Always    bool              // it is woken where its activation ends by itself
	Stateless bool              // any node will do, nothing is recorded, and the Place has no Token
	Avoid     []raysys.NodeID   // of a stateless kind: nodes to take only where there is no other
	Bundle    core.Bundle       // what it takes its needs from; zero for the node
	At        core.NodeKey      // of a grain in a bundle: the node that has that

	Conditions []core.Condition     // of the call that has it activated
	Nodes      []core.NodeCondition // the same, with the nodes that they mean
	Bound      bool                 // that call is another node's, and says in a way that is not known here where the grain is to be
}

// Cluster is what the engine needs of the nodes together: the records of placements, which package registry keeps,
// and the peers, each a refs.Session; package system joins them. Methods that take done call it once, on any goroutine,
// perhaps before they return, and within bounded time; done does not block. No method calls back into the engine but for
// done.
type Cluster interface {
	// Locate finds or makes the placement of a grain. avoid, when not zero, is a placement that the caller found wrong
	// or could not reach. One whose node is alive and has its lease is moved only by Release.
	Locate(id ID, want Wanted, avoid Place, done func(Placed, error))
	// Elsewhere returns another node than this one that could have the grain at once, as far as this one knows, and takes it to go
	// there; the zero Place for none. waits: it waits, and idle grains of other nodes are asked to make room.
	Elsewhere(id ID, want Wanted, waits bool) Place
	// Confirm asks the leader whether token is current for the grain (rule C19). The answer is the current place, zero
	// when there is none.
	Confirm(id ID, token Token, done func(Placed, error))
	// Release removes the placement if token is still current, or puts the grain on the node to, where that is not zero
	// and takes it. The answer is the new place, zero for none. When token is not current, that is no error.
	Release(id ID, token Token, to core.NodeKey, done func(Place, error))
	// End is Release of a grain that is always on, and shall not be woken.
	End(id ID, token Token, done func(error))
	// Peer returns a connected node, nil when that incarnation of it is not connected now. Engine.PeerUp has been
	// called for every Peer that this returns or Connect answers with.
	Peer(k core.NodeKey) wire.Peer
	// Connect is Peer that dials if need be.
	Connect(k core.NodeKey, done func(wire.Peer, error))
	// Self is this node.
	Self() core.NodeKey
	// Suspended returns raysys.ErrSuspended, wrapped, while the node's lease is out.
	Suspended() error
	// Admit returns nil at a moment, after it was called, at which no other node can have been given what this one
	// holds. It is asked on every turn of a named grain, so it costs next to nothing while that is known; otherwise
	// it waits for the store, for a second at most, which waited reports. It fails with raysys.ErrSuspended or
	// ErrFenced, wrapped.
	Admit() (waited bool, err error)
}

// ETag names one committed version of a State. The zero ETag is the version before the first.
type ETag struct{ Epoch, Seq uint64 }

// Record is what is stored of one State of a grain.
type Record struct {
	Data   []byte
	ETag   ETag
	Exists bool
}

// States keeps the States of grains. Package registry does so, in the shards; on a node without a cluster tokens are zero. Methods call done once, on any goroutine, perhaps before they return, and within bounded time.
type States interface {
	// Load reads the named States of a grain, in that order. It fails with raysys.ErrMoved when token is not current.
	Load(id ID, names []string, token Token, done func([]Record, error))
	// Save stores data under name if token is current and etag is that of the stored version; nil data removes it. It
	// fails with raysys.ErrMoved or ErrETag accordingly, with raysys.ErrOutcomeUnknown when it may have been stored or
	// not; after any other error it was not stored. data is not changed afterwards.
	Save(id ID, name string, token Token, etag ETag, data []byte, done func(ETag, error))
	// Restore reads what is stored of a durable grain, with the named States in that order. It fails like Load.
	Restore(id ID, names []string, token Token, done func(Restored, error))
	// Counter is Restore of the counter and its version alone, whatever else is stored.
	Counter(id ID, token Token, done func(Restored, error))
	// Commit stores c if token is current and c.After is the version of the grain's counter. It fails like Save. What c
	// refers to is not changed afterwards.
	Commit(id ID, token Token, c Commit, done func(ETag, error))
	// Page reads what is stored of many grains, as it is at one moment; Shards says in how many shards they lie. Every
	// node may ask.
	Page(q Query, done func(Page, error))
	Shards() int
	// Lease returns nil at a moment, after it was called, at which no other node can have been given what this one
	// holds, so that what it remembers of a State is what is stored (rule C20). It waits as Cluster.Admit does.
	Lease() error
}
