package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// Peer is another node while a link to it holds.
type Peer interface {
	Node() raysys.NodeID
	Incarnation() uint64
	// Send queues a frame; payload may be used again when it returns. It does not block.
	Send(class wire.Class, kind wire.Kind, payload []byte) error
	// SendLarge is for frames above wire.InlineLimit; payload passes to the peer.
	SendLarge(kind wire.Kind, payload []byte) error
	// SendBody queues a frame whose body is not copied. After an error, Release is not called.
	SendBody(kind wire.Kind, head []byte, body Body) error
	// Abandon takes back the memory of a Landing that Engine.Land returned; Landed has returned when it does.
	Abandon(l Landing)
	// Flush sends the queued frames.
	Flush()
}

func keyOf(p Peer) core.NodeKey { return core.NodeKey{Node: p.Node(), Incarnation: p.Incarnation()} }

// Body is what SendBody sends behind the head: pieces of memory, or a section of a file. Neither changes before
// Release.
type Body struct {
	Pieces  [][]byte
	File    *os.File
	Offset  int64
	Length  int // of the section
	Release func(error)
}

// Landing is where a body goes.
type Landing interface {
	Memory() []byte
	// Landed is called once, when the memory is filled or nothing more comes.
	Landed(err error)
}

// Link reaches other nodes.
type Link interface {
	// Connect returns the link to that incarnation, and makes one if there is none. It fails with raysys.ErrNodeDead
	// when the incarnation is over.
	Connect(ctx context.Context, to core.NodeKey) (Peer, error)
}

// Sources names the nodes that may have an object, the likeliest first.
type Sources interface {
	// Next returns another node to ask, which may be one that was asked before if it is worth asking again. It blocks
	// until there is one, and returns an error when there will be none, which says why, or when ctx ends. The error
	// matches raysys.ErrUnreachable when a node may have the object that cannot be named now. Next is called by one
	// goroutine at a time, and only when one more source is wanted.
	Next(ctx context.Context) (core.NodeKey, error)
}

// From returns sources that are known from the start.
func From(keys ...core.NodeKey) Sources { return &fixed{keys} }

type fixed struct{ left []core.NodeKey }

// errNoMore says that the list of nodes which may have an object has come to its end.
var errNoMore = errors.New("no other node is known to have it")

// Next implements Sources.
func (f *fixed) Next(context.Context) (core.NodeKey, error) {
	if len(f.left) == 0 {
		return core.NodeKey{}, errNoMore
	}
	k := f.left[0]
	f.left = f.left[1:]
	return k, nil
}

const (
	// shareFrom is the size from which an object is shared between nodes of one host. Below it, copying costs less than
	// mapping.
	shareFrom = 1 << 20
	// sourcesAtOnce is from how many nodes one large object comes at a time.
	sourcesAtOnce = 3
	// outstanding is how many chunks are summed and written to one peer at a time. With more, the second chunk is summed
	// while the first is written: that is no faster, since the writer then finds it in no cache, and it takes a processor
	// from calls (docs/internals/adr/0016-crc32c-by-folding.md).
	outstanding = 1
)

// Config is what an Engine needs. Store and Link must be given; everything else has a default.
type Config struct {
	Self  func() core.NodeKey // asked when it is needed: a node learns its incarnation only when it joins
	Store *objectstore.Store
	Link  Link

	// Host identifies this host to processes that may map each other's memory, as HostID does. Objects are then shared
	// rather than sent between nodes of the same Host. Empty: never.
	Host string

	// Window is how many chunks are on the way from one source: 8, which is 8 MiB, or 10 Gbit/s and 6 ms.
	Window int
	// SeveralFrom is the size from which an object comes from several nodes at a time: 16 MiB.
	SeveralFrom int64
	// Fanout is to how many nodes an object is given before others are sent to those: 2. An object smaller than
	// TreeFrom is given to every receiver.
	Fanout   int
	TreeFrom int64 // bytes: 8 MiB
	// Stall is how long a source may send none of the chunks that it was asked for: 2 s. Then others are asked too;
	// one that stalls five times in a row, each twice as long, is struck off.
	Stall time.Duration

	Hooks Hooks
}

// Hooks are called for events worth a log line; any may be nil. They must return soon.
type Hooks struct {
	// Struck: a source gives no more of an object, and why.
	Struck func(from core.NodeKey, id raysys.TaskID, why error)
	// NotShared: an object of the same host could not be mapped and is pulled instead.
	NotShared func(from core.NodeKey, id raysys.TaskID, why error)
}

func (c *Config) complete() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Self == nil {
		bad("Config.Self is nil: give a function that says which incarnation of which node this is")
	}
	if c.Store == nil {
		bad("Config.Store is nil: give the node's object store")
	}
	if c.Link == nil {
		bad("Config.Link is nil: give what connects to other nodes")
	}
	number := func(name string, n *int, otherwise, most int) {
		if *n == 0 {
			*n = otherwise
		}
		if *n < 1 || *n > most {
			bad("Config.%s is %d: give 0 (the default) or 1 to %d", name, *n, most)
		}
	}
	number("Window", &c.Window, 8, maxAsked)
	number("Fanout", &c.Fanout, 2, 1<<20)
	size := func(name string, n *int64, otherwise int64) {
		if *n == 0 {
			*n = otherwise
		}
		if *n < 0 {
			bad("Config.%s is %d: give 0 (the default) or more", name, *n)
		}
	}
	size("SeveralFrom", &c.SeveralFrom, 16<<20)
	size("TreeFrom", &c.TreeFrom, 8<<20)
	if c.Stall == 0 {
		c.Stall = 2 * time.Second
	}
	if c.Stall < 0 {
		bad("Config.Stall is %s: give 0 (the default) or more", c.Stall)
	}
	return errors.Join(errs...)
}
