package system

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/placing"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/tlsfiles"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// References returns how many futures of n other nodes hold, and how many of other nodes n holds.
func References(n *Node) (exports, imports int) {
	c := n.cluster
	if c == nil {
		return 0, 0
	}
	return c.Refs.Exported(), c.Refs.Imported()
}

// Held returns how many references to futures of n another node is counted for, "" standing for all other nodes.
func Held(n *Node, by raysys.NodeID) (count int) {
	for _, holders := range n.cluster.Refs.Holders() {
		for k, refs := range holders {
			if by == "" || k.Node == by {
				count += refs
			}
		}
	}
	return count
}

// Members returns how many nodes n believes to be in its cluster.
func Members(n *Node) int { return len(n.cluster.Member.View().Nodes()) }

// Known reports whether n believes that a node is in its cluster, and in which incarnation.
func Known(n *Node, of raysys.NodeID) (incarnation uint64, known bool) {
	m, ok := n.cluster.Member.View().Node(of)
	return m.Incarnation, ok
}

// KnownHost reports whether n believes that a node is a host: that it may lead shards and have grains.
func KnownHost(n *Node, of raysys.NodeID) bool {
	m, ok := n.cluster.Member.View().Node(of)
	return ok && m.Hosts()
}

// Astray returns how many shards are not led by the node that should lead them, in n's eyes.
func Astray(n *Node) (count int) {
	v := n.cluster.Member.View()
	for shard := range Shards(n) {
		l, led := v.Leader(shard)
		if want, ok := v.Preferred(shard); !led || !ok || l.Node != want {
			count++
		}
	}
	return count
}

// KeyOf names this life of a node.
func KeyOf(n *Node) (raysys.NodeID, uint64) {
	k := n.cluster.Self()
	return k.Node, k.Incarnation
}

// Awaiting returns how many futures of other nodes n has asked for and has no answer.
func Awaiting(n *Node) (count int) {
	for _, p := range n.cluster.Mesh.Connected() {
		count += p.Questions.Pending(wire.KindAwait)
	}
	return count
}

// ExportedAndTakenBack exports c to another node for a frame that is not sent, and returns how many futures of n others
// hold before and after it is taken back.
func ExportedAndTakenBack(n *Node, to raysys.NodeID, c *core.Future) (exported, left int, err error) {
	for _, p := range n.cluster.Mesh.Connected() {
		if p.Node() == to {
			l := refs.Of(p).PendingExports()
			if _, err = l.AppendRef(nil, c); err == nil {
				_, err = l.AppendObject(nil, c)
			}
			exported = n.cluster.Refs.Exported()
			l.TakeBack(0, l.Mark())
			return exported, n.cluster.Refs.Exported(), err
		}
	}
	return 0, 0, errors.New("not connected")
}

// Connected returns how many nodes n is connected to.
func Connected(n *Node) int { return len(n.cluster.Mesh.Connected()) }

// Idle reports whether n believes that another node has no task.
func Idle(n *Node, of raysys.NodeID) bool {
	for _, p := range n.cluster.Mesh.Connected() {
		if p.Node() == of {
			l, since, known := n.tasks.LoadOf(refs.Of(p))
			return known && l.Inbound+since == 0 && l.Queued == 0 && l.Busy == 0
		}
	}
	return false
}

// Lease returns nil while n's lease is good.
func Lease(n *Node) error { return n.cluster.Suspended() }

// Unheard returns how many notices n has for the directory that no leader has heard.
func Unheard(n *Node) int {
	count, _ := n.cluster.Directory.Unacknowledged()
	return count
}

// Leads returns how many shards n serves, Shards how many there are.
func Leads(n *Node) int  { return len(n.cluster.Registry.Led()) }
func Shards(n *Node) int { return n.cluster.Registry.Layout().Shards }

// Holds returns of how many shards n is the leader in its own eyes, whether it serves them or not.
func Holds(n *Node) (count int) {
	for shard := range Shards(n) {
		if k, ok := n.cluster.Leader(shard); ok && k == n.cluster.Self() {
			count++
		}
	}
	return count
}

// Break ends the connection of n to another node, as a reset would; both see to a new one.
func Break(n *Node, to raysys.NodeID) {
	for _, p := range n.cluster.Mesh.Connected() {
		if p.Node() == to {
			p.Close(errors.New("broken by a test"))
		}
	}
}

// Owed returns how many references n has yet to give back.
func Owed(n *Node) int { return n.cluster.Refs.Owed() }

// LendNamed has another node keep a copy of an object of n under a name that n never enters.
func LendNamed(ctx context.Context, n *Node, to raysys.NodeID, name string, c *core.Future) error {
	d, err := n.objects.Describe(c)
	if err != nil {
		return err
	}
	m, _ := n.cluster.Member.View().Node(to)
	const copied = 1 // the operation
	_, err = runner.Wait(ctx, func(done func(struct{}, error)) {
		n.cluster.Mesh.Reach(mesh.KeyOf(m), func(to *mesh.Questions) {
			mesh.Ask(to, wire.Requests, wire.KindKeep, func(dst []byte) []byte {
				return wire.AppendBytes(wire.AppendID(append(dst, copied), d.OID), registry.NameKey(n.cfg.Namespace, name))
			}, func(r *wire.Reader) (struct{}, error) {
				r.Uvarint()
				r.ID()
				return struct{}{}, nil
			}, done)
		}, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// Looks returns how often n has looked after its duties in the cluster, and at who is in it.
func Looks(n *Node) uint64 {
	m := n.cluster.Placer.Moment()
	return m.Members + m.Reports
}

// ObjectShards are the shards that list the objects of n.
func ObjectShards(n *Node) (shards []int) {
	for _, i := range n.objects.List() {
		var id raysys.TaskID
		if _, err := fmt.Sscanf(i.ID, "%16x%16x", &id.Hi, &id.Lo); err != nil {
			panic(err)
		}
		shards = append(shards, n.cluster.Registry.Layout().ShardOf(registry.ObjectKey(id)))
	}
	return shards
}

// OwnerOf returns which node has put an object under a name, as n's namespace has it, and how many nodes keep it.
func OwnerOf(n *Node, name string) (owner raysys.NodeID, copies int, err error) {
	e, err := n.cluster.Directory.FindWait(context.Background(), registry.NameKey(n.cfg.Namespace, name))
	return e.Record.Owner.Node, len(e.Record.At), err
}

// Untold is how many changes of the directory n's leaders have not acknowledged.
func Untold(n *Node) int {
	all, _ := n.cluster.Directory.Unacknowledged()
	return all
}

// Retires reports whether n drains and takes no shard any more.
func Retires(n *Node) bool { return n.cluster.Shards.Retiring.Load() }

// Poke makes n look after its duties.
func Poke(n *Node) { n.cluster.Poke() }

// Moved waits until n takes or gives up no shard.
func Moved(n *Node) { n.cluster.Shards.Moves.Wait() }

// DropPause is how long a reference that is not needed is kept back.
const DropPause = refs.DropPause

// Recorded returns how many tasks are recorded whose submitter n is.
func Recorded(n *Node) int { return n.cluster.Lineage.Recorded() }

// TaskRecord returns the record of the task of c.
func TaskRecord(n *Node, c *core.Future) (registry.TaskRecord, error) {
	run, id := refs.RecordedAs(c)
	e, err := runner.Wait(context.Background(), func(done func(registry.TaskEntry, error)) {
		registry.NewTasks(n.cluster.Registry).Change(registry.FindTask(registry.TaskKey{Run: run, ID: id}), done)
	})
	return e.Record, err
}

// RecipeName is the name of the nth recipe that became an object on n, where that is of the task of c.
func RecipeName(n *Node, c *core.Future, nth int) string {
	run, id := refs.RecordedAs(c)
	return fmt.Sprintf("\x00recipe %016x %s %s %d", run, id, n.cluster.Self(), nth)
}

// ForgetRecord removes the record of the task of c, and nothing else.
func ForgetRecord(n *Node, c *core.Future) error {
	run, id := refs.RecordedAs(c)
	_, err := runner.Wait(context.Background(), func(done func(registry.TaskEntry, error)) {
		registry.NewTasks(n.cluster.Registry).Change(registry.RemoveTask(registry.TaskKey{Run: run, ID: id}), done)
	})
	return err
}

// Self is the incarnation of a node.
func Self(n *Node) core.NodeKey { return n.cluster.Self() }

// LookForCopies has a node look for copies of an object of a dead node which has none. That ends when no update about that node's objects
// is under way any more, for all who look.
func LookForCopies(n *Node, dead core.NodeKey) error {
	done := make(chan error, 1)
	n.cluster.Refs.Uncounted(dead, raysys.TaskID{Hi: 1}).Ask(func(err error) { done <- err })
	return <-done
}

// Believed is what a node takes a member with this record to have free, when the member reports l.
func Believed(i member.Info, l loadreport.Load) placement.Node {
	n := placement.Node{ID: i.ID, Total: i.Resources, Free: i.Resources, Devices: nodedevices.Placement(i.Devices)}
	placing.EnterLoad(&n, &l, 0)
	return n
}

// Seen is what n takes another node to be like.
func Seen(n *Node, of raysys.NodeID) placement.Node { return n.cluster.Placer.Seen(of) }

// SeesOff reports whether n sees off an account that asks for so much memory.
func SeesOff(n *Node, key string, memory int64) bool {
	want := graindir.Wanted{Needs: core.Resources{Memory: memory}}
	return !n.cluster.Placer.Locator().Elsewhere(graindir.ID{Kind: "account", Key: key}, want, false).IsZero()
}

// Hear has n take in a frame of KindLoad, as if a peer had sent it.
func Hear(n *Node, from raysys.NodeID, frame []byte) error {
	for _, p := range n.cluster.Mesh.Connected() {
		if p.Node() == from {
			return n.cluster.Placer.OnLoad(refs.Of(p), frame)
		}
	}
	return fmt.Errorf("%s is no peer", from)
}

// LooksBeside has n look so often where its waiting work could go, while one such look is under way. It returns how many goroutines that
// took, and how many looks followed.
func LooksBeside(n *Node, times int) (goroutines, followed int) {
	w := &looked{began: make(chan struct{}), end: make(chan struct{})}
	line := n.tasks.Line()
	line.Push(ledger.Need{Memory: 1 << 60}, w)
	n.cluster.Placer.MoveWaiting()
	<-w.began
	before := runtime.NumGoroutine()
	for range times {
		n.cluster.Placer.MoveWaiting()
	}
	goroutines = runtime.NumGoroutine() - before
	close(w.end)
	for n.cluster.Placer.Looks.Load() != 0 {
		runtime.Gosched()
	}
	line.Remove(func(o ledger.Work) bool { return o == ledger.Work(w) })
	return goroutines, int(w.looks.Load()) - 1
}

// looked is work that waits, and stays where it is. The first look at it takes until end is closed.
type looked struct {
	began, end chan struct{}
	looks      atomic.Int32
}

func (*looked) Class() core.Class        { return core.Normal }
func (*looked) Job() *core.Job           { return nil }
func (*looked) Over() bool               { return false }
func (*looked) Begins(*ledger.Need) bool { return true }
func (*looked) Grant(*ledger.Hold)       {}
func (*looked) Evict(error, bool)        {}
func (w *looked) Alike() any             { return w }
func (w *looked) Leaves() bool {
	if w.looks.Add(1) == 1 {
		close(w.began)
		<-w.end
	}
	return false
}

// LookAtCertificates has n look at its TLS files now.
func LookAtCertificates(n *Node) { n.cluster.TLS.Look() }

// LookAtFiles runs the looks at the files of t, until pause returns false. record writes the fingerprint of the key.
func LookAtFiles(t *link.TLS, files TLSFiles, log *zap.Logger, record func(string) error, pause func(time.Duration) bool) {
	w := tlsfiles.New(tlsfiles.Config{
		TLS: t, Cert: files.Cert, CA: files.CA, Log: log, Record: record,
		Allow: func(*x509.Certificate) error { return nil }, Distrust: func() {},
	})
	w.Run(pause)
}

// ConnectedTo reports whether n has a connection to another node.
func ConnectedTo(n *Node, to raysys.NodeID) bool {
	for _, p := range n.cluster.Mesh.Connected() {
		if p.Node() == to {
			return true
		}
	}
	return false
}

// AddressOf is where n takes connections.
func AddressOf(n *Node) string { return n.cluster.Mesh.Addr() }

// KeyInView is the fingerprint of another node's key, as n's view has it.
func KeyInView(n *Node, of raysys.NodeID) string {
	m, _ := n.cluster.Member.View().Node(of)
	return m.KeyPrint
}
