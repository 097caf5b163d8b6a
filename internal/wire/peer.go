package wire

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Class orders frames by what may wait for what: no class waits for a later one (rule C6).
type Class uint8

// The classes. Each has its own queue and credits; Bulk has its own connection.
const (
	Control  Class = iota // pings, credits, cancellations
	Replies               // answers: the receiver has reserved room for them
	Requests              // what makes work
	Bulk                  // large payloads, which the handler may keep
)

func (c Class) String() string {
	switch c {
	case Control:
		return "control"
	case Replies:
		return "replies"
	case Requests:
		return "requests"
	case Bulk:
		return "bulk"
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Kind says what a frame carries. The numbers are on the wire: they never change, and numbers below FirstKind are the
// link's.
type Kind uint8

// FirstKind is the first number of a frame above the link.
const FirstKind Kind = 32

// The kinds above the link. Some numbers stay unused: 57, 65, 68, 81, 97, 105 and 113 were answers of single kinds, and
// 73 was for protoactor's watches, which travel as KindActor.
const (
	KindOpen        Kind = 32  // requests: the turn that later requests belong to
	KindShut        Kind = 33  // requests: no more of that turn
	KindCancelTurn  Kind = 34  // control: end everything submitted by that turn
	KindTasks       Kind = 40  // requests: a batch of tasks
	KindTaskResult  Kind = 41  // replies
	KindTaskCancel  Kind = 42  // control
	KindTaskResults Kind = 43  // replies: a list of KindTaskResult
	KindTaskFinal   Kind = 44  // control: tasks that the receiver has run, and that will not run again
	KindCall        Kind = 48  // requests: a grain call
	KindCallResult  Kind = 49  // replies
	KindCallCancel  Kind = 50  // control
	KindCalls       Kind = 51  // requests: a list of KindCall
	KindCallResults Kind = 52  // replies: a list of KindCallResult
	KindCallForget  Kind = 53  // control: calls of durable grains that will not be made again
	KindCallAsk     Kind = 54  // control: which calls of durable grains may be made again; the answer is KindCallForget of the others
	KindAwait       Kind = 56  // requests: tell the outcome of a reference
	KindDrop        Kind = 58  // control: the reference is not held any more
	KindAnswer      Kind = 60  // replies, or control: the answer to a question (package mesh) of any kind
	KindRegistry    Kind = 64  // requests to the leader of a shard
	KindLoad        Kind = 66  // control; to one peer alone replies: how busy a node is
	KindBallot      Kind = 67  // control: votes on a silent node
	KindActor       Kind = 72  // requests: a message to a PID, or protoactor's watch, unwatch and terminated
	KindActorBody   Kind = 74  // control: asks for the rest of a message to a PID, of which a head came
	KindAdmin       Kind = 80  // requests: status and drain
	KindPull        Kind = 88  // control: a receiver wants an object; not a request, because requests may wait for arguments
	KindPulled      Kind = 89  // replies: its version, the nodes to ask instead, or an error
	KindAsk         Kind = 90  // control: the chunks that the receiver has room for
	KindChunk       Kind = 91  // a body on the bulk connection: one of them
	KindPullEnd     Kind = 92  // control: the receiver wants no more
	KindBorrow      Kind = 96  // requests: this node holds a reference that another passed on
	KindHeld        Kind = 98  // control: the receiver's references that the sender holds, when a connection begins
	KindRecord      Kind = 99  // requests: which future a recorded task has there, or under which run a task is recorded
	KindKeep        Kind = 104 // requests: of an object: keep a copy, free it, export it, retain it; or collect references (package objects)
	KindBundles     Kind = 106 // requests: a leader has the node prepare, hold or release bundles of a placement group
	KindDue         Kind = 108 // requests: a leader gives a worker schedules that are due
	KindProbe       Kind = 112 // requests: what a call, a task or a reference waits for; or have a call give way to it
)

// List returns the kind of a frame that is a list of k's payloads, each behind its length, and 0 where there is none:
// small payloads of one kind share a frame while it waits to be written.
func (k Kind) List() Kind {
	switch k {
	case KindTaskResult:
		return KindTaskResults
	case KindCall:
		return KindCalls
	case KindCallResult:
		return KindCallResults
	}
	return 0
}

// ItemLimit is up to which size a payload travels in a list.
const ItemLimit = 2 << 10

// InlineLimit is the size up to which a value travels inside a request or reply. Up to PushLimit the argument of a grain's call and
// its result go along with the request or reply, over the bulk connection (ADR 0066). A larger argument, up to ValueLimit, goes there
// when it is asked for. What is larger, and a task's result above InlineLimit, stays where it is as an object, and a reference to it
// travels (object.go).
const (
	InlineLimit = raysys.ObjectSize
	PushLimit   = 1<<20 + 8<<10 // 1 MiB, and what stands beside it
	ValueLimit  = 4 << 20
)

// Peer is one incarnation of another node, as the engines see it: a mesh.Peer, which has the functions, turns and questions
// over a link.Peer, in a refs.Session, which adds the references.
type Peer interface {
	References
	// Node is the peer's name and Incarnation which life of it this is.
	Node() raysys.NodeID
	Incarnation() uint64
	// Runs returns the number under which the peer knows the function, and false when it lacks it or has it with
	// other types.
	Runs(e *core.Entry) (uint32, bool)
	// Entry is the receiving side of Runs: this node's function under that number, nil when there is none.
	Entry(number uint32) *core.Entry
	// Send queues a frame; payload may be reused when it returns. It fails with raysys.ErrNotDelivered when the peer is
	// gone and raysys.ErrOverloaded when too much waits for it. What one goroutine sends in one class arrives in that
	// order.
	Send(class Class, kind Kind, payload []byte) error
	// SendLarge queues a frame of up to ValueLimit plus its head on the bulk connection; nobody may change payload from then on. It
	// has no order with Send, and its errors.
	SendLarge(kind Kind, payload []byte) error
	// SendFrame is SendLarge; written is called with payload when that is not needed any more, or never where the peer goes before.
	SendFrame(kind Kind, payload []byte, written func([]byte)) error
	// Flush sends the queued frames at once, on this goroutine if no other is sending: for a caller that is about to
	// wait.
	Flush()
	// Cork announces an Uncork of the caller in a moment, with no long work in between: until then Send, by any
	// goroutine, does not wake the writer. Uncork sends the queued frames, with flush set on this goroutine as Flush
	// does.
	Cork()
	Uncork(flush bool)
	// Open returns the number under which the peer knows t, and tells it about t before that if it does not. t is
	// remembered until Shut has been called as often as Open; while it is, the peer learns of its cancellation.
	Open(t *core.Turn) (uint32, error)
	Shut(scope uint32)
	// Turn is the receiving side of Open: the turn that stands for the peer's, nil when it is not open.
	Turn(scope uint32) *core.Turn
}

// Exporter is a Peer that counts the references which it appends, so that those in a frame that was not sent can be taken back.
type Exporter interface {
	// PendingExports returns References for frames that one goroutine at a time makes.
	PendingExports() PendingExports
}

// PendingExports are References that remember what they appended, until it is sent or taken back.
type PendingExports interface {
	References
	// Mark is how much was appended that is neither.
	Mark() int
	// Sent forgets what was appended between two marks: the peer has it. TakeBack takes it back: the peer never will.
	Sent(from, to int)
	TakeBack(from, to int)
}

// PendingExportsOf returns those of a peer, and some that remember nothing for a peer that is no Exporter.
func PendingExportsOf(p Peer) PendingExports {
	if l, ok := p.(Exporter); ok {
		return l.PendingExports()
	}
	return uncounted{p}
}

type uncounted struct{ References }

func (uncounted) Mark() int         { return 0 }
func (uncounted) Sent(_, _ int)     {}
func (uncounted) TakeBack(_, _ int) {}

// References is the part of a Peer that lets references travel.
type References interface {
	// AppendRef appends what the peer needs to use a future of this node, or one that this node uses of another.
	AppendRef(dst []byte, c *core.Future) ([]byte, error)
	// ReadRef is its counterpart.
	ReadRef(r *Reader) (*core.Future, error)
	// AppendObject is AppendRef for a future whose value is not sent along, however small it is.
	AppendObject(dst []byte, c *core.Future) ([]byte, error)
}
