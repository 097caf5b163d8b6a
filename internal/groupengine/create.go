package groupengine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// maxEarlier is the most earlier attempts of a task whose groups a further attempt has removed.
const maxEarlier = 16

// Create makes a group and returns its key. The group may still wait for room. A further attempt of a task makes a group of its own, and
// has those removed that earlier attempts have made in the same place.
func (c *Client) Create(ctx context.Context, t *core.Turn, s Spec) (string, error) {
	if err := s.check(); err != nil {
		return "", fmt.Errorf("make a group: %w", err)
	}
	ns, id := t.Job().Namespace, t.ID().Child(t.Next())
	r := Record{ID: id, Namespace: ns, Strategy: s.Strategy, Made: time.Now().UnixNano(), Waits: c.Waits}
	var earlier []core.TaskID
	if !s.Detached {
		r.Owner = c.owner(ctx, t)
		attempt := func(n int) core.TaskID { return id.Child(uint64(n)).Child(r.Owner.Incarnation) }
		r.ID = attempt(t.Attempt())
		for n := t.Attempt() - 1; n > 0 && len(earlier) < maxEarlier; n-- {
			earlier = append(earlier, attempt(n))
		}
	}
	for _, b := range s.Bundles {
		r.Bundles = append(r.Bundles, Bundle{Needs: b})
	}
	key := KeyOf(ns, s.Name, r.ID)
	if s.Name == "" {
		c.removeEarlier(ns, earlier)
	}
	for {
		e, err := c.askLeader(ctx, t, Question{Op: Create, Key: key, Record: r})
		switch {
		case errors.Is(err, raysys.ErrNameTaken) && c.isOf(ctx, t, key, earlier):
			err = c.Remove(ctx, t, key)
		case err == nil && !e.Record.Removing:
			return key, nil
		case err == nil: // the group that had the name is going
			_, err = c.askLeader(ctx, t, Question{Op: Await, Key: key, Seen: e.Version})
		}
		if err != nil {
			return "", fmt.Errorf("make a group: %w", err)
		}
	}
}

// owner is the node that a group goes with: that of the driver from which the task t comes, while it is there, else this node.
func (c *Client) owner(ctx context.Context, t *core.Turn) core.NodeKey {
	self, run := c.Self(), t.Job().Run
	if t.Kind() != core.TurnTask || run == 0 || run == self.Incarnation {
		return self
	}
	t.Runtime().Block(t.Base())
	defer t.Runtime().Unblock(t.Base())
	if k, ok := c.Member(ctx, run); ok {
		return k
	}
	return self
}

// removeEarlier has groups without names removed, and does not wait for that. Where it fails they go with their owner.
func (c *Client) removeEarlier(namespace string, earlier []core.TaskID) {
	s, err := c.Shards()
	if err != nil {
		return
	}
	for _, id := range earlier {
		s.Group(Question{Op: Delete, Key: idKey(namespace, id)}, func(Entry, error) {})
	}
}

// isOf reports whether the group with the key is one of those.
func (c *Client) isOf(ctx context.Context, t *core.Turn, key string, list []core.TaskID) bool {
	if len(list) == 0 {
		return false
	}
	e, err := c.askLeader(ctx, t, Question{Op: Find, Key: key})
	return err == nil && e.Exists && slices.Contains(list, e.Record.ID)
}
