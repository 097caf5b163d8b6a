package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// Member is this process in its cluster, for one incarnation. Make it with Join.
type Member struct {
	cfg         Config
	session     string
	incarnation uint64

	lease lease
	state atomic.Int32 // State, as last reported

	turn  chan struct{}         // a semaphore of one: orders the changes of state and the calls of OnState
	cause atomic.Pointer[error] // why it is Fenced or Left; set before state says so

	// ctx is what the member's goroutines live on; end cancels it.
	ctx     context.Context
	end     context.CancelCauseFunc
	owned   sync.WaitGroup
	renew   chan struct{} // asks for a renewal now; never closed
	renewed chan struct{} // the lease changed; never closed

	linked chan struct{} // a session with another node began; never closed

	writing chan struct{} // a semaphore of one: guards record and the writes of nodes/<self>
	record  record

	mu        sync.Mutex // guards what follows
	ended     bool       // no view and no goroutine comes any more
	nodes     []Node
	nodesAt   uint64 // index of the store
	leaders   []Leader
	leadersAt uint64 // index of the store
	suspects  map[uint64]bool
	view      atomic.Pointer[View]
	proving   map[uint64]bool   // incarnations whose death is being proven
	garbage   map[string]uint64 // keys whose value was reported to make no sense, by ModifyIndex

	ledger   ledger
	detector failureDetector
}

func newMember(cfg Config) *Member {
	m := &Member{
		cfg:     cfg,
		renew:   make(chan struct{}, 1),
		renewed: make(chan struct{}, 1),
		turn:    make(chan struct{}, 1),
		writing: make(chan struct{}, 1),
		record:  record{Info: cfg.Self, Joining: cfg.Self.Eligible()},
		linked:  make(chan struct{}, 1),
		proving: map[uint64]bool{}, garbage: map[string]uint64{},
	}
	m.lease = lease{clock: cfg.Clock, ttl: cfg.TTL}
	m.ledger.seen = map[uint64]sighting{}
	m.detector.init(m)
	return m
}

// Incarnation is the number of this life of the node; a later one has a larger number.
func (m *Member) Incarnation() uint64 { return m.incarnation }

// Session is the store's session that holds the node's key, and that has to hold what this incarnation leads.
func (m *Member) Session() string { return m.session }

// View is what the member knows now.
func (m *Member) View() *View { return m.view.Load() }

// Done is closed when the member is Fenced or Left, or was abandoned.
func (m *Member) Done() <-chan struct{} { return m.ctx.Done() }

// Lease is what remains of the lease by the larger of monotonic and wall time: nothing may be answered on its strength
// once it is 0.
func (m *Member) Lease() time.Duration {
	left := m.lease.left()
	if left == 0 && State(m.state.Load()) == Active {
		m.Recheck() // a clock jumped: do not wait for the next renewal's turn
	}
	return left
}

// Recheck asks for a renewal now, which finds out whether this incarnation still stands. It does not wait.
func (m *Member) Recheck() { signal(m.renew) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// start runs f on a goroutine that Leave and Abandon wait for; false when the member has ended.
func (m *Member) start(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return false
	}
	m.owned.Go(f)
	return true
}

// stop ends all goroutines of the member but does not wait for them.
func (m *Member) stop(cause error) {
	m.end(cause)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		close(m.view.Load().changed)
	}
}

func (m *Member) event(kind EventKind, n Node, err error) {
	if m.cfg.OnEvent != nil {
		m.cfg.OnEvent(Event{Kind: kind, Node: n.ID, Incarnation: n.Incarnation, Err: err})
	}
}

// Confirm returns the node with this incarnation, from the view or, where that does not know it, after one consistent
// read of the store: a node that just joined may reach this one before the watch does (C18). ErrNodeDead when it is no
// member.
func (m *Member) Confirm(ctx context.Context, node raysys.NodeID, incarnation uint64) (Node, error) {
	n, ok := m.View().Node(node)
	if ok && n.Incarnation == incarnation {
		return n, nil
	}
	if ok && n.Incarnation > incarnation { // a later life of it is there
		return Node{}, m.noMember(node, incarnation)
	}
	return m.Fetch(ctx, node, incarnation)
}

func (m *Member) noMember(node raysys.NodeID, incarnation uint64) error {
	return fmt.Errorf("%w: node %s, incarnation %d, is no member of cluster %s", raysys.ErrNodeDead, node, incarnation, m.cfg.Cluster)
}

// Fetch is Confirm by a read of the store in each case: a node changes its record while it lives, and the view may have
// an older one.
func (m *Member) Fetch(ctx context.Context, node raysys.NodeID, incarnation uint64) (Node, error) {
	p, err := m.cfg.KV.Get(ctx, nodeKey(node))
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrBadKey), err == nil && (p.Create != incarnation || p.Session == ""):
		return Node{}, m.noMember(node, incarnation)
	case err != nil:
		return Node{}, fmt.Errorf("confirm node %s, incarnation %d: %w", node, incarnation, err)
	}
	return decodeNode(p)
}

// Update changes the node's record, for the others to read. Its ID cannot change, and what the Info points to is copied
// before it is changed. Every member reads every record that changes, so a record is for facts that change seldom: the
// resources of a node, not those that are free.
func (m *Member) Update(ctx context.Context, change func(*Info)) error {
	return m.write(ctx, func(r *record) { change(&r.Info) })
}

// write changes the record of this node. No other member writes it, so holding it is condition enough.
func (m *Member) write(ctx context.Context, change func(*record), with ...store.Op) error {
	select {
	case m.writing <- struct{}{}:
		defer func() { <-m.writing }()
	case <-ctx.Done():
		return fmt.Errorf("update node %s: %w", m.cfg.Self.ID, context.Cause(ctx))
	}
	next := m.record
	change(&next)
	if next.ID != m.cfg.Self.ID {
		return fmt.Errorf("%w: node %s cannot become %q", raysys.ErrBadOption, m.cfg.Self.ID, next.ID)
	}
	if err := next.Validate(); err != nil {
		return err
	}
	data, err := next.encode()
	if err != nil {
		return err
	}
	key := nodeKey(m.cfg.Self.ID)
	_, err = m.cfg.KV.Txn(ctx, append([]store.Op{store.CheckSession(key, m.session), store.Set(key, data)}, with...))
	var refused *store.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Op.Key != key: // one of with
		return fmt.Errorf("update node %s: %w: %w", m.cfg.Self.ID, errAgain, err)
	case errors.Is(err, store.ErrRefused):
		m.Recheck()
		return fmt.Errorf("update node %s: %w: %w", m.cfg.Self.ID, raysys.ErrFenced, err)
	case err != nil:
		return fmt.Errorf("update node %s: %w", m.cfg.Self.ID, err)
	}
	m.record = next
	return nil
}

// Leave ends the membership in good order: the state becomes Left, and then the node's key and all that its session
// holds are gone at once. An error means that the store did not hear of it; then they go when the session expires.
func (m *Member) Leave(ctx context.Context) error {
	fenced := State(m.state.Load()) == Fenced
	left := m.become(Left, fmt.Errorf("%w: node %s left the cluster", raysys.ErrClosed, m.cfg.Self.ID))
	m.Abandon()
	if fenced || !left {
		return nil
	}
	if err := m.cfg.KV.Destroy(ctx, m.session); err != nil {
		return fmt.Errorf("leave cluster %s as node %s: %w", m.cfg.Cluster, m.cfg.Self.ID, err)
	}
	return nil
}

// Abandon stops renewing and watching without a word to the store: to the others it is as if the process had been
// killed. It waits for the member's goroutines.
func (m *Member) Abandon() {
	m.stop(raysys.ErrClosed)
	m.owned.Wait()
}
