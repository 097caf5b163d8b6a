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
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/internal/worklog"
)

// adminOp is what an operator asks of a node. The numbers are on the wire. What changes nothing and is answered at once
// is a question (ask.go).
type adminOp byte

const (
	adminDrain adminOp = 2
	// adminRestart is a drain after which the supervisor of the process starts the program again. A version that
	// does not know it refuses it.
	adminRestart adminOp = 7
	adminAwait   adminOp = 5 // answered when the drain in progress is over
	adminStay    adminOp = 6 // cancel the drain
	adminAsk     adminOp = 11
	adminLines   adminOp = 30 // a driver asks for what its work writes; answered when there is something
)

// adminRequest is an operation with its parameters.
type adminRequest struct {
	op    adminOp
	name  string // ask: of the question
	query []byte // ask, lines, restart: as JSON
}

func (q adminRequest) append(dst []byte) []byte {
	dst = append(dst, byte(q.op))
	if q.op == adminAsk {
		dst = wire.AppendBytes(dst, q.name)
	}
	if q.queries() {
		dst = wire.AppendBytes(dst, q.query)
	}
	return dst
}

func readAdminRequest(r *wire.Reader) adminRequest {
	q := adminRequest{op: adminOp(r.Byte())}
	if q.op == adminAsk {
		q.name = r.String()
	}
	if q.queries() {
		q.query = []byte(r.String())
	}
	return q
}

func (q adminRequest) queries() bool {
	return q.op == adminAsk || q.op == adminLines || q.op == adminRestart
}

// patience is how long the answer may take.
func (q adminRequest) patience() time.Duration {
	switch q.name {
	case "ways":
		return statusPatience + 2*wayPatience
	case "start":
		return statusPatience + startPatience
	}
	return statusPatience
}

// adminAnswer is sent as JSON: people read it, and versions that know more fields or fewer.
type adminAnswer struct {
	Drain *inspect.Drained `json:"drain,omitempty"`
	List  json.RawMessage  `json:"list,omitempty"` // to a question
	Lines *worklog.Batch   `json:"lines,omitempty"`
	Error string           `json:"error,omitempty"`
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
	ctx, cancel := context.WithTimeoutCause(ctx, q.patience(), fmt.Errorf("no answer within %v", q.patience()))
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
		if q.op == adminDrain || q.op == adminRestart {
			// Right behind: a node with nothing to move may be gone before its first answer is here.
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
	if q.op == adminAsk && q.name == "cancel" {
		o.asked("cancel task "+string(q.query), p.Key())
	}
	if q.op == adminAsk && q.name == "drop" {
		o.asked(dropOf(q.query), p.Key())
	}
	if q.op == adminAsk && q.name == "start" {
		o.asked(startOf(q.query), p.Key())
	}
	verbs := map[adminOp]string{
		adminDrain: "drain this node", adminRestart: "restart this node", adminStay: "cancel the drain of this node",
	}
	if verb := verbs[q.op]; verb != "" {
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
	case adminAsk:
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
	case adminAsk:
		a.List, err = ownAnswerTo(o, ctx, q)
	case adminDrain:
		err = o.Node.AskDrain(node.DrainRequest{})
	case adminRestart:
		how := node.DrainRequest{Restart: true}
		if err = json.Unmarshal(q.query, &how); err == nil {
			err = o.Node.AskDrain(how)
		}
	case adminStay:
		err = o.Node.CancelDrain()
	default:
		return a, fmt.Errorf("operation %d is unknown to this version", q.op)
	}
	return a, err
}
