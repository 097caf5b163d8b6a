package groupengine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/placement"
)

// Shards asks the leaders of shards: a registry.Registry.
type Shards interface {
	Group(q Question, done func(Entry, error))
}

// Runtime is what the core.Runtime of a node must have too, for groups.
type Runtime interface{ Groups() *Client }

// Client is a node's side of groups for programs. It follows the records of the groups that it was asked for.
type Client struct {
	// Shards returns the way to the leaders, or why there is none.
	Shards func() (Shards, error)
	Self   func() core.NodeKey
	// Member returns the node of the cluster with an incarnation, false where it has gone. It may wait until that is known.
	Member func(ctx context.Context, incarnation uint64) (core.NodeKey, bool)
	Runner *runner.Runner
	// Waits has groups that no node could ever hold wait for one that could.
	Waits bool
	// Changed is called without a lock when more is known of a group.
	Changed func()

	mu      sync.Mutex // guards follows
	follows map[string]*follow
}

// follow is what is known of one group, and kept up to date.
type follow struct {
	entry Entry
	known bool
	err   error // why nothing is known
}

// forgetAfter is how long a group that is gone is remembered, before its leader is asked again.
const forgetAfter = time.Second

// Spec is a group that a program makes.
type Spec struct {
	Name     string // "" without
	Detached bool
	Strategy placement.GroupStrategy
	Bundles  []raysys.Resources
}

// check reports what cannot be meant.
func (s *Spec) check() error {
	switch {
	case len(s.Bundles) == 0 || len(s.Bundles) > MaxBundles:
		return fmt.Errorf("%w: a group of %d bundles: give 1 to %d", raysys.ErrBadOption, len(s.Bundles), MaxBundles)
	case !validStrategy(s.Strategy):
		return fmt.Errorf("%w: no strategy %.64q for groups: there are %q", raysys.ErrBadOption, s.Strategy, placement.GroupStrategies)
	}
	for i, b := range s.Bundles {
		err := errors.Join(core.Resources(b).ValidateWanted(), core.Resources(b).Meant())
		if err == nil && b.CPU == 0 && b.GPU == 0 && b.Memory == 0 && len(b.Custom) == 0 {
			err = fmt.Errorf("%w: it asks for nothing", raysys.ErrBadOption)
		}
		if err != nil {
			return fmt.Errorf("bundle %d: %w", i, err)
		}
	}
	return nil
}

// Lookup returns the key of the group of a name.
func (c *Client) Lookup(ctx context.Context, t *core.Turn, name string) (string, error) {
	key := NameKey(t.Job().Namespace, name)
	e, err := c.askLeader(ctx, t, Question{Op: Find, Key: key})
	switch {
	case err != nil:
		return "", fmt.Errorf("look up %s: %w", Shown(key), err)
	case !e.Exists || e.Record.Removing:
		return "", fmt.Errorf("look up %s: %w: no group has the name", Shown(key), raysys.ErrNotFound)
	}
	return key, nil
}

// Remove removes a group, and returns when the room of its bundles is free. That one is gone is no error. An operator has no turn: nil.
func (c *Client) Remove(ctx context.Context, t *core.Turn, key string) error {
	e, err := c.askLeader(ctx, t, Question{Op: Delete, Key: key})
	for id := e.Record.ID; err == nil && e.Exists && e.Record.ID == id; {
		e, err = c.askLeader(ctx, t, Question{Op: Await, Key: key, Seen: e.Version})
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", Shown(key), err)
	}
	return nil
}

// Wait waits until every bundle of a group is held, and returns the node of each.
func (c *Client) Wait(ctx context.Context, t *core.Turn, key string) ([]core.NodeID, error) {
	var e Entry
	var err error
	for op := Find; ; op = Await {
		if e, err = c.askLeader(ctx, t, Question{Op: op, Key: key, Seen: e.Version}); err != nil {
			return nil, fmt.Errorf("wait for %s: %w", Shown(key), err)
		}
		if err = e.Gone(key); err != nil {
			return nil, err
		}
		if e.Record.Ready() {
			return e.Record.nodes(), nil
		}
	}
}

// askLeader waits for the answer to a question, without the CPU of t.
func (c *Client) askLeader(ctx context.Context, t *core.Turn, q Question) (Entry, error) {
	s, err := c.Shards()
	if err != nil {
		return Entry{}, err
	}
	if t != nil {
		t.Runtime().Block(t.Base())
		defer t.Runtime().Unblock(t.Base())
	}
	return runner.Wait(ctx, func(done func(Entry, error)) { s.Group(q, done) })
}

// Look returns what is known of a group without waiting: false where nothing is, and Changed will be called.
func (c *Client) Look(key string) (e Entry, known bool, err error) {
	c.mu.Lock()
	f := c.follows[key]
	if f == nil {
		f = &follow{}
		if c.follows == nil {
			c.follows = map[string]*follow{}
		}
		c.follows[key] = f
		c.mu.Unlock()
		c.next(key, f, Question{Op: Find, Key: key})
		return Entry{}, false, nil
	}
	defer c.mu.Unlock()
	return f.entry, f.known, f.err
}

// next asks for the record as it is next.
func (c *Client) next(key string, f *follow, q Question) {
	s, err := c.Shards()
	if err != nil {
		c.learnt(key, f, Entry{}, err)
		return
	}
	s.Group(q, func(e Entry, err error) { c.learnt(key, f, e, err) })
}

// learnt enters an answer.
func (c *Client) learnt(key string, f *follow, e Entry, err error) {
	again := errors.Is(err, raysys.ErrSuspended) || errors.Is(err, raysys.ErrUnreachable)
	c.mu.Lock()
	f.known = f.known || err == nil
	if !again {
		f.err = err
	}
	if err == nil {
		f.entry = e
	}
	c.mu.Unlock()
	c.Changed()
	switch {
	case again: // the store is away: what was known of the group holds
		c.Runner.Later(func() { c.next(key, f, Question{Op: Find, Key: key}) })
	case err != nil || !e.Exists:
		c.Runner.After(forgetAfter, func() {
			c.mu.Lock()
			delete(c.follows, key)
			c.mu.Unlock()
		})
	default:
		c.next(key, f, Question{Op: Await, Key: key, Seen: e.Version})
	}
}
