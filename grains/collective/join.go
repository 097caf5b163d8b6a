package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/internal/promise"
	"github.com/raysys/raysys/internal/backoff"
)

// Join enters the group of that key as rank, one of size, and returns when all ranks are in. ctx bounds the waiting
// alone. A program that joins calls Leave, in a defer, so that the others do not wait for a rank that ended early.
//
// A rank out of range or given twice, and differing sizes, fail the Join of all that wait with an error that is
// ErrRank. A Join into a group that is complete already begins its next epoch: the ranks of the last one get ErrLeft
// in their operations, and join too. A node that goes while ranks wait to be let in, and with it what brings them
// together, does not fail a Join: it is made anew.
func (g Group[T]) Join(ctx context.Context, key string, rank, size int) (*Member[T], error) {
	failed := func(err error) error {
		return fmt.Errorf("join %s/%s as rank %d of %d: %w", g.d.name, key, rank, size, err)
	}
	root, err := promise.Of(ctx)
	if err != nil {
		return nil, failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, g.d.patience)
	defer cancel()
	wish := application{Rank: rank, Size: size, Node: root.Node(), Join: rand.Uint64()}
	for {
		m, err := g.enter(ctx, root, key, wish)
		if err == nil {
			return m, nil
		}
		if !wentAway(ctx, err) {
			return nil, failed(err)
		}
	}
}

// wentAway reports whether err says that a node was lost on which something stood that another node can have; it waits
// for a moment then, since others may not know it yet.
func wentAway(ctx context.Context, err error) bool {
	for _, gone := range []error{raysys.ErrNodeDead, raysys.ErrOutcomeUnknown, raysys.ErrNotDelivered, raysys.ErrObjectLost} {
		if errors.Is(err, gone) {
			return backoff.Wait(ctx, anewAfter)
		}
	}
	return false
}

const anewAfter = 20 * time.Millisecond

// enter makes the rank a participant and takes that to the coordinator. Each attempt has a participant of its own:
// others may have been let in together with the last one, and have sent it what belongs to rounds that will never end.
func (g Group[T]) enter(ctx context.Context, root promise.Root, key string, wish application) (_ *Member[T], err error) {
	life := promise.New[farewell](root, "life of a member of "+key)
	d := g.d
	wish.Participant = fmt.Sprintf("%s/%d-%016x%016x", key, wish.Rank, rand.Uint64(), rand.Uint64())
	m := &Member[T]{
		d: d, group: d.name + "/" + key, at: place{wish.Rank, wish.Size}, root: root, participant: d.participants.Get(wish.Participant), life: life,
	}
	table := d.coordinators.Get(key)
	defer func() {
		if err != nil {
			life.Settle(farewell{Reason: Left})
			_ = d.withdraw.Tell(root.Context(), table, wish.Participant)
		}
	}()
	in := entry{Group: m.group, Rank: wish.Rank, Size: wish.Size, Life: life.Handle()}
	if wish.Post, err = d.enter.Call(root.Context(), m.participant, in).Get(ctx); err != nil {
		return nil, err
	}
	joins := d.join.Call(root.Context(), table, wish)
	a, err := joins.Get(ctx)
	for errors.Is(err, errResting) { // a call made now comes after the coordinator's request to go, so to its successor
		joins = d.join.Call(root.Context(), table, wish)
		a, err = joins.Get(ctx)
	}
	if err != nil {
		joins.Cancel()
		return nil, err
	}
	if a.Fail != nil {
		e := *a.Fail // all ranks that were refused share it
		e.Group = m.group
		return nil, &e
	}
	if _, err := d.begin.Call(root.Context(), m.participant, beginning{Participants: a.Participants, Host: a.Host, News: a.News}).Get(ctx); err != nil {
		return nil, err
	}
	m.first = a.Participants[0]
	// Others need not wait for a rank whose program has forgotten it.
	runtime.AddCleanup(m, func(l *promise.Promise[farewell]) { l.Settle(farewell{Reason: Left}) }, life)
	return m, nil
}
