package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/internal/worklog"
)

// ownLogs is what this node has kept: nil of a driver that raysys node did not start.
func ownLogs(o *Operator, ctx context.Context, q worklog.Query) (*worklog.Answer, error) {
	a, err := o.Lines.Read(ctx, q)
	if c := o.Node.Cluster(); errors.Is(err, worklog.ErrNotKept) && c != nil {
		if me, ok := c.Member.View().Node(o.Name); ok && RoleOf(me.Info) == "driver" {
			return nil, nil
		}
	}
	return &a, err
}

// Logs is that of a system.Node.
func Logs(ctx context.Context, o *Operator, q inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error) {
	all, next := inspect.Logs{Cluster: o.clusterName(), Lines: []inspect.LogLine{}}, map[raysys.NodeID]int64{}
	var err error
	all.Silent, err = ask(ctx, o, q.Node, "logs", worklog.Query{Driver: q.Driver, Function: q.Function, Limit: q.Limit}, func(k core.NodeKey, a *worklog.Answer) {
		if a == nil {
			return
		}
		next[k.Node] = a.Next
		all.Matched += a.Matched
		all.Drivers, all.Functions = append(all.Drivers, a.Drivers...), append(all.Functions, a.Functions...)
		all.Lines = append(all.Lines, linesOf(k.Node, a.Lines)...)
	})
	if all.Matched > 0 {
		all.Drivers, all.Functions = nil, nil
	}
	for _, list := range []*[]string{&all.Drivers, &all.Functions} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortStableFunc(all.Lines, func(a, b inspect.LogLine) int { return a.Time.Compare(b.Time) })
	if err == nil && follow != nil {
		for _, l := range all.Lines {
			follow(l)
		}
		followLogs(ctx, o, q, next, follow)
	}
	return all, err
}

func linesOf(node raysys.NodeID, raws []json.RawMessage) (list []inspect.LogLine) {
	for _, raw := range raws {
		if l, ok := worklog.Parse(raw); ok {
			l.Node = node
			list = append(list, l)
		}
	}
	return list
}

// lookForNodes is how often followLogs looks for nodes that have joined.
const lookForNodes = time.Second

// followLogs shows what comes behind these positions until ctx ends. They are by the names of nodes: a program that was started again goes on
// with the files.
func followLogs(ctx context.Context, o *Operator, q inspect.LogQuery, next map[raysys.NodeID]int64, show func(inspect.LogLine)) {
	var mu sync.Mutex // guards the rest, and show
	var all sync.WaitGroup
	defer all.Wait()
	busy := map[core.NodeKey]bool{}
	tick := time.NewTicker(lookForNodes)
	defer tick.Stop()
	for {
		mu.Lock()
		for _, m := range o.Members() {
			k := mesh.KeyOf(m)
			if busy[k] || q.Node != "" && q.Node != m.ID {
				continue
			}
			busy[k] = true
			all.Go(func() {
				for ctx.Err() == nil {
					mu.Lock()
					from := next[k.Node]
					mu.Unlock()
					var a *worklog.Answer
					_, err := ask(ctx, o, k.Node, "logs", worklog.Query{Driver: q.Driver, Function: q.Function, Follow: true, From: from}, func(_ core.NodeKey, one *worklog.Answer) { a = one })
					mu.Lock()
					if err != nil || a == nil {
						delete(busy, k) // it is asked again when the nodes are looked at, if it is there
						mu.Unlock()
						return
					}
					if next[k.Node] == from { // not when the node has started again meanwhile, and was asked
						next[k.Node] = a.Next
						for _, l := range linesOf(k.Node, a.Lines) {
							show(l)
						}
					}
					mu.Unlock()
				}
			})
		}
		mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Hearing is what the driver of this node hears of what its work writes on other nodes.
type Hearing struct {
	o     *Operator
	shows sync.Mutex // held while lines are shown: a terminal may take its time

	mu      sync.Mutex              // guards the rest
	hears   bool                    // some node was asked
	ends    bool                    // only the last lines are still asked for
	batches map[core.NodeKey]uint64 // the number of the last that was shown
}

// linesPatience is how long a driver that ends waits for the last lines.
const linesPatience = 2 * time.Second

// giveLines answers a driver.
func giveLines(o *Operator, driver core.NodeKey, q adminRequest, reply func(adminAnswer, error)) {
	var question worklog.Question
	if err := json.Unmarshal(q.query, &question); err != nil {
		reply(adminAnswer{}, fmt.Errorf("the question cannot be read: %w", err))
		return
	}
	o.Lines.Take(driver, question, func(b worklog.Batch) { reply(adminAnswer{Lines: &b}, nil) })
}

// From has a node send what the work of this node's driver writes there, as long as the connection lasts.
func (h *Hearing) From(p *mesh.Peer) {
	if h.o.Lines.Wanted() {
		h.mu.Lock()
		h.hears = true
		h.mu.Unlock()
		h.ask(p, false, func() {})
	}
}

// ask asks for the next lines, or for the last. Those are shown by a goroutine, as a terminal may take its time.
func (h *Hearing) ask(p *mesh.Peer, last bool, done func()) {
	k, c := p.Key(), h.o.Node.Cluster()
	h.mu.Lock()
	question, _ := json.Marshal(worklog.Question{Last: last, Had: h.batches[k]})
	h.mu.Unlock()
	q := adminRequest{op: adminLines, query: question}
	mesh.Ask(&p.Questions, wire.Requests, wire.KindAdmin, q.append, func(r *wire.Reader) (a adminAnswer, err error) {
		return a, json.Unmarshal(r.Rest(), &a)
	}, func(a adminAnswer, err error) {
		if err != nil || a.Error != "" || a.Lines == nil { // the connection is over, or the node has another version
			done()
			return
		}
		c.Runner.Background(func() {
			defer done()
			fresh := h.show(k, a.Lines)
			h.mu.Lock()
			ends := h.ends
			h.mu.Unlock()
			if !ends && (fresh || c.Runner.Pause(time.Second)) {
				h.ask(p, false, func() {})
			}
		}, func(error) { done() })
	})
}

// show shows a batch, and reports whether it was not shown before: the last one is sent again to a driver that ends.
func (h *Hearing) show(k core.NodeKey, b *worklog.Batch) (fresh bool) {
	h.shows.Lock()
	defer h.shows.Unlock()
	h.mu.Lock()
	if fresh = b.Number > h.batches[k]; fresh {
		if h.batches == nil {
			h.batches = map[core.NodeKey]uint64{}
		}
		h.batches[k] = b.Number
	}
	h.mu.Unlock()
	if fresh {
		h.o.Lines.Show(k.Node, b)
	}
	return fresh
}

// Last shows what the work of this node's driver wrote elsewhere until now. It is called once, before the node ends.
func (h *Hearing) Last(ctx context.Context) {
	o := h.o
	defer o.Lines.Flush()
	h.mu.Lock()
	hears := h.hears
	h.ends = true
	h.mu.Unlock()
	if !hears {
		return
	}
	c := o.Node.Cluster()
	ctx, cancel := context.WithTimeout(ctx, linesPatience)
	defer cancel()
	var asked []chan struct{}
	self := o.Self()
	for _, m := range o.Members() {
		if p := c.Mesh.Peer(mesh.KeyOf(m)); p != nil && mesh.KeyOf(m) != self && RoleOf(m.Info) != "driver" {
			answered := make(chan struct{})
			asked = append(asked, answered)
			h.ask(p, true, sync.OnceFunc(func() { close(answered) }))
		}
	}
	for _, answered := range asked {
		select {
		case <-answered:
		case <-ctx.Done():
			return
		}
	}
}
