package node

import (
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// fire gives a node what is due.
func fire(c *Cluster, at core.NodeKey, list []due.Item, refused func([]due.Item, error)) {
	if at == c.Self() {
		if err := c.parts.Take(list); err != nil {
			refused(list, err)
		}
		return
	}
	for part := range parts(list) {
		done := func(err error) {
			if err != nil {
				refused(part, err)
			}
		}
		c.Mesh.Reach(at, func(to *mesh.Questions) {
			mesh.Ask(to, wire.Requests, wire.KindDue, func(dst []byte) []byte {
				dst = wire.AppendUvarint(dst, uint64(len(part)))
				for i := range part {
					dst = part[i].Append(dst)
				}
				return due.AppendNow(dst, part[0].Now)
			}, func(*wire.Reader) (struct{}, error) { return struct{}{}, nil }, func(_ struct{}, err error) { done(err) })
		}, done)
	}
}

// parts cuts a list so that each part fits a frame, which has 1 MiB.
func parts(list []due.Item) func(yield func([]due.Item) bool) {
	return func(yield func([]due.Item) bool) {
		for from := 0; from < len(list); {
			to, size := from, 0
			for to < len(list) && size < 512<<10 {
				size += 128 + len(list[to].Record.Data)
				to++
			}
			if !yield(list[from:to]) {
				return
			}
			from = to
		}
	}
}

// serveDue takes what a leader says is due.
func serveDue(c *Cluster, r *wire.Reader, to mesh.Reply) error {
	list := make([]due.Item, r.Count(1))
	for i := range list {
		if err := list[i].Read(r); err != nil {
			return err
		}
	}
	now := due.ReadNow(r)
	if now == 0 { // the leader is of a version before
		now = wall(c).UnixNano()
	}
	for i := range list {
		list[i].Now = now
	}
	if err := r.Err(); err != nil {
		return err
	}
	to.Done(c.parts.Take(list))
	return nil
}

// wall is the node's time of day.
func wall(c *Cluster) time.Time {
	if clock := c.cfg.Parts.Clock; clock != nil {
		return clock.Wall()
	}
	return time.Now()
}
