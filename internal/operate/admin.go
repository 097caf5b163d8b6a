package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/internal/worklog"
)

// adminOp is an operation that an operator asks of a node. The numbers are on the wire.
type adminOp byte

const (
	adminStatus adminOp = 1
	adminDrain  adminOp = 2
	adminWays   adminOp = 3
	adminMemory adminOp = 4
	adminAwait  adminOp = 5 // answered when the drain in progress is over
	adminStay   adminOp = 6 // cancel the drain
	adminWhy    adminOp = 7 // explain the values with an id
	// adminExplain asks where the work with an id waits.
	adminExplain adminOp = 8
	adminGroups  adminOp = 9  // the placement groups of the shards that the node leads
	adminAsk     adminOp = 11 // a question of those in ask.go
	adminLines   adminOp = 30 // a driver asks for what its work writes; answered when there is something
)

// adminRequest is an operation with its parameters.
type adminRequest struct {
	op    adminOp
	limit int    // memory, groups: how many objects or groups to list
	id    string // why, explain, groups: how the ids begin; or the kind/key of a grain, or the name of a group; ask: its name
	query []byte // ask, lines: as JSON
}

func (q adminRequest) append(dst []byte) []byte {
	dst = append(dst, byte(q.op))
	if q.op == adminMemory || q.op == adminGroups {
		dst = wire.AppendUvarint(dst, uint64(max(q.limit, 0)))
	}
	if q.named() {
		dst = wire.AppendBytes(dst, q.id)
	}
	if q.op == adminAsk || q.op == adminLines {
		dst = wire.AppendBytes(dst, q.query)
	}
	return dst
}

func readAdminRequest(r *wire.Reader) adminRequest {
	q := adminRequest{op: adminOp(r.Byte())}
	if q.op == adminMemory || q.op == adminGroups {
		q.limit = int(min(r.Uvarint(), maxHeld))
	}
	if q.named() {
		q.id = r.String()
	}
	if q.op == adminAsk || q.op == adminLines {
		q.query = []byte(r.String())
	}
	return q
}

func (q adminRequest) named() bool {
	return q.op == adminWhy || q.op == adminExplain || q.op == adminGroups || q.op == adminAsk
}

// patience is how long the answer may take.
func (op adminOp) patience() time.Duration {
	if op == adminWays {
		return statusPatience + 2*wayPatience
	}
	return statusPatience
}

// adminAnswer is sent as JSON: people read it, and versions that know more fields or fewer.
type adminAnswer struct {
	Status inspect.NodeStatus  `json:"status"`
	Ways   []inspect.Way       `json:"ways,omitempty"`
	Memory *inspect.NodeMemory `json:"memory,omitempty"`
	Drain  *inspect.Drained    `json:"drain,omitempty"`

	Why     []core.Explanation  `json:"why,omitempty"`
	Explain []raysys.Scheduling `json:"explain,omitempty"`
	Groups  *ledGroups          `json:"groups,omitempty"`
	List    json.RawMessage     `json:"list,omitempty"`
	Lines   *worklog.Batch      `json:"lines,omitempty"`
	Error   string              `json:"error,omitempty"`
}

// adminResult is the outcome of a request to one node.
type adminResult struct {
	answer adminAnswer
	err    error
}

// Members are the nodes of the cluster that an operator sees, by name; without a cluster there is this one.
func (o *Operator) Members() []member.Node {
	if c := o.Node.Cluster(); c != nil {
		return slices.DeleteFunc(slices.Clone(c.Member.View().Nodes()), func(m member.Node) bool { return m.Info.Observer })
	}
	return []member.Node{{Info: member.Info{ID: o.Name, Role: member.Driver, Serves: true, Resources: o.Resources, Version: o.Version, Started: o.Node.Started()}}}
}

// Self names this node and its incarnation, which is 0 without a cluster.
func (o *Operator) Self() core.NodeKey {
	if c := o.Node.Cluster(); c != nil {
		return c.Mesh.Self()
	}
	return core.NodeKey{Node: o.Name}
}

type silentKey struct{}

// patiently is for an answer that takes several questions: a node that is silent at one is not waited for again.
func patiently(ctx context.Context) context.Context {
	return context.WithValue(ctx, silentKey{}, &sync.Map{}) // by core.NodeKey: an error
}

// askAll asks all of members at once, and performs the operation where this node is among them. A node that does not answer in
// time has an error.
func (o *Operator) askAll(ctx context.Context, members []member.Node, q adminRequest) map[core.NodeKey]adminResult {
	ctx, cancel := context.WithTimeoutCause(ctx, q.op.patience(), fmt.Errorf("no answer within %v", q.op.patience()))
	defer cancel()
	type from struct {
		core.NodeKey
		adminResult
	}
	answers := make(chan from, len(members)) // late answers need no reader
	all := map[core.NodeKey]adminResult{}
	silent, _ := ctx.Value(silentKey{}).(*sync.Map)
	for _, m := range members {
		k := mesh.KeyOf(m)
		if silent != nil {
			if err, ok := silent.Load(k); ok {
				all[k] = adminResult{err: err.(error)}
				continue
			}
		}
		if k == o.Self() {
			own, err := o.perform(ctx, q)
			all[k] = adminResult{own, err}
			continue
		}
		o.admin(k, q, func(a adminAnswer, err error) {
			if err == nil && a.Error != "" {
				err = fmt.Errorf("node %s: %s", k.Node, a.Error)
			}
			answers <- from{k, adminResult{a, err}}
		})
		if q.op == adminDrain { // right behind: a node with nothing to move may be gone before its first answer is here
			o.reports.Store(k, o.report(k))
		}
	}
	for len(all) < len(members) {
		select {
		case a := <-answers:
			all[a.NodeKey] = a.adminResult
			if silent != nil && (errors.Is(a.err, raysys.ErrOutcomeUnknown) || errors.Is(a.err, raysys.ErrUnreachable)) {
				silent.Store(a.NodeKey, a.err) // its connection is silent
			}
		case <-ctx.Done():
			for _, m := range members {
				if _, ok := all[mesh.KeyOf(m)]; !ok {
					all[mesh.KeyOf(m)] = adminResult{err: context.Cause(ctx)}
					if silent != nil {
						silent.Store(mesh.KeyOf(m), context.Cause(ctx))
					}
				}
			}
		}
	}
	return all
}

// admin sends an operator's request to a node.
func (o *Operator) admin(k core.NodeKey, q adminRequest, done func(adminAnswer, error)) {
	o.Node.Cluster().Mesh.Reach(k, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindAdmin, q.append, func(r *wire.Reader) (a adminAnswer, err error) {
			return a, json.Unmarshal(r.Rest(), &a)
		}, done)
	}, func(err error) { done(adminAnswer{}, err) })
}

// Serve serves KindAdmin.
func (o *Operator) Serve(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error {
	q := readAdminRequest(r)
	if err := r.Err(); err != nil {
		return err
	}
	if q.op == adminAsk && q.id == "cancel" {
		o.asked("cancel task "+string(q.query), p.Key())
	}
	if verb := map[adminOp]string{adminDrain: "drain this node", adminStay: "cancel the drain of this node"}[q.op]; verb != "" {
		o.asked(verb, p.Key())
	}
	reply := func(a adminAnswer, err error) {
		if err != nil {
			a.Error = err.Error()
		}
		body, err := json.Marshal(a)
		if err != nil {
			to.Fail(err)
			return
		}
		to.Send(append(to.Head(), body...))
	}
	c := o.Node.Cluster()
	switch q.op {
	case adminStatus, adminWays, adminMemory, adminWhy, adminExplain, adminGroups, adminAsk:
		c.Runner.Run(func() { reply(o.perform(c.Runner.Context(), q)) }) // it waits for other nodes, lists many objects, or reads a file
	case adminLines:
		giveLines(o, p.Key(), q, reply)
	case adminAwait:
		if err := o.Node.AwaitDrain(func(d inspect.Drained) { reply(adminAnswer{Drain: &d}, nil) }); err != nil {
			reply(adminAnswer{}, err)
		}
	default:
		reply(o.perform(c.Runner.Context(), q))
	}
	return nil
}

// asked says in the log who asked for something that changes the cluster.
func (o *Operator) asked(operation string, by core.NodeKey) {
	o.Node.Cluster().Log.Info("asked for", zap.String("operation", operation), zap.Stringer("peer", by))
}

// Asked is called when a node asks for something of the shards that this node leads, such as the removal of a placement group.
func (o *Operator) Asked(what string, by core.NodeKey) { o.asked(what, by) }

// perform does an operation on this node.
func (o *Operator) perform(ctx context.Context, q adminRequest) (a adminAnswer, err error) {
	switch q.op {
	case adminMemory:
		m := ownMemory(o, q.limit)
		a.Memory = &m
	case adminWhy:
		a.Why = ownExplain(o, ctx, q.id)
	case adminExplain:
		a.Explain = ownScheduling(o, q.id)
	case adminGroups:
		a.Groups = ownLedGroups(o, q.id, q.limit)
	case adminAsk:
		a.List, err = ownAnswerTo(o, ctx, q)
	case adminStatus:
		a.Status = ownReport(o)
	case adminWays:
		a.Ways, err = o.ways()
	case adminDrain:
		if !o.Node.AskDrain() {
			return a, errors.New("its program does not drain on request: send it SIGTERM")
		}
	case adminStay:
		err = o.Node.CancelDrain()
	default:
		return a, fmt.Errorf("operation %d is unknown to this version", q.op)
	}
	return a, err
}
