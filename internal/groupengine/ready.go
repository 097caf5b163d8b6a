package groupengine

import (
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// ready is the future of Group.Ready. It stands for no work: the leader of the group's shard is asked until it has the answer.
type ready struct {
	core.Result[[]core.NodeID]
	client *Client
	key    string
}

// ValueType says what the Future's value is.
func (*ready) ValueType() *core.ValueType { return core.TypeOf[[]core.NodeID]() }

func (r *ready) Name() string                        { return "room for " + Shown(r.key) }
func (*ready) Help(*core.Turn) bool                  { return false }
func (*ready) Expires() int64                        { return 0 }
func (*ready) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }
func (*ready) Break([]string) bool                   { return false }

// Ready is Wait as a future: the node of each bundle.
func (c *Client) Ready(t *core.Turn, key string) core.Ref[[]core.NodeID] {
	r := &ready{client: c, key: key}
	r.Future.Init(r, t, t.Next(), core.HasPointers[[]core.NodeID]())
	r.askWhenReady(Question{Op: Find, Key: key})
	return core.RefTo(&r.Result)
}

func (r *ready) askWhenReady(q Question) {
	s, err := r.client.Shards()
	if err != nil {
		r.answered(Entry{}, err)
		return
	}
	s.Group(q, r.answered)
}

func (r *ready) answered(e Entry, err error) {
	if err != nil {
		err = fmt.Errorf("wait for %s: %w", Shown(r.key), err)
	} else {
		err = e.Gone(r.key)
	}
	switch {
	case err != nil:
		r.Future.Fail(err)
	case !e.Record.Ready():
		if !r.Future.Settled() { // it was cancelled
			r.askWhenReady(Question{Op: Await, Key: r.key, Seen: e.Version})
		}
	case r.Future.Start():
		core.Resolve(&r.Result, e.Record.nodes())
	}
}
