package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
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

	ledger    ledger
	detector  failureDetector
	guard     guard
	admission admission
}

func newMember(cfg Config) *Member {
	m := &Member{
		cfg:     cfg,
		renew:   make(chan struct{}, 1),
		renewed: make(chan struct{}, 1),
		turn:    make(chan struct{}, 1),
		writing: make(chan struct{}, 1),
		record:  record{Info: cfg.Self, Joining: cfg.Self.Eligible(), Lease: cfg.TTL.Milliseconds()},
		linked:  make(chan struct{}, 1),
		proving: map[uint64]bool{}, garbage: map[string]uint64{},
	}
	m.lease = lease{clock: cfg.Clock, ttl: cfg.TTL}
	m.ledger.seen = map[uint64]sighting{}
	if cfg.Prober != nil {
		m.record.Promise = cfg.promise().Milliseconds()
	}
	m.detector.init(m)
	m.guard.init(m)
	m.admission.m, m.admission.begun = m, cfg.Clock.Mono()-fenceEvery
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
	tell(m, Event{Kind: kind, Node: n.ID, Incarnation: n.Incarnation, Err: err})
}

func tell(m *Member, e Event) {
	if m.cfg.OnEvent != nil {
		m.cfg.OnEvent(e)
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

// LinkReset is to be called when an established link to the node was reset or closed without a word. If its address then
// refuses a connection, the process is dead (C17), and its session is destroyed at once; if it answers, or nothing does, only
// silence counts. It does not wait.
func (m *Member) LinkReset(node raysys.NodeID, incarnation uint64) {
	v := m.View()
	n, ok := v.Node(node)
	if !ok || n.Incarnation != incarnation || incarnation == m.incarnation || m.cfg.Prober == nil {
		return
	}
	m.mu.Lock()
	busy := m.proving[incarnation]
	m.proving[incarnation] = true
	m.mu.Unlock()
	if busy {
		return
	}
	m.start(func() {
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.proving, incarnation)
		}()
		m.prove(n)
	})
}

func (m *Member) prove(n Node) {
	pause := m.cfg.pauses()
	for range redials {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/10)
		err := m.cfg.Prober.Redial(ctx, n)
		cancel()
		if err == nil {
			return
		}
		if errors.Is(err, ErrNotListening) {
			m.destroy(n, DeathProven)
			return
		}
		if !m.waitFor(pause.Next()) {
			return
		}
	}
}

// Ballot answers a monitor that asks whether this member does not hear that incarnation of victim either. With the
// number of its guard this is a ballot that binds: this member answers no ping of it until the guard has a higher
// number.
func (m *Member) Ballot(victim raysys.NodeID, incarnation, guard uint64) bool {
	v := m.View()
	n, ok := v.Node(victim)
	if !ok || n.Incarnation != incarnation || m.cfg.Prober == nil || m.State() != Active {
		return false
	}
	if guard == 0 && !slices.Contains(v.Monitors(victim), m.cfg.Self.ID) {
		return false
	}
	g := &m.detector
	g.mu.Lock()
	defer g.mu.Unlock()
	now := m.cfg.Clock.Mono()
	if !g.started || now > g.due+g.stalled() { // just awoken: it does not know yet that it slept
		return false
	}
	if _, ok := g.since[incarnation]; !ok {
		return false
	}
	if guard != 0 {
		return g.giveBallot(v, n, guard, now)
	}
	return g.silence(n, true, now) >= g.agreeAfter() && g.fit(v, now)
}

// evict writes the verdict over a node in one transaction (C17): this node and the victim are still members, this
// node is not evicted itself, and the ledger is the one on which the half was counted. So of two that evict each
// other one succeeds, and evictions at the same time are counted one after the other. errHalf when it would be too
// many. It returns the verdict, and whether it was written here: it may be there already. with are further conditions.
func (m *Member) evict(ctx context.Context, victim Node, verdict vote, with ...store.Op) (vote, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.TTL/4)
	defer cancel()
	verdict.V, verdict.Node, verdict.Written = recordVersion, victim.ID, m.cfg.Clock.Wall()
	verdict.By, verdict.ByInc = m.cfg.Self.ID, m.incarnation
	data, err := json.Marshal(verdict)
	if err != nil {
		return verdict, false, fmt.Errorf("encode the vote on %s: %w", victim.ID, err)
	}
	failed := func(err error) (vote, bool, error) {
		return verdict, false, fmt.Errorf("evict node %s, incarnation %d: %w", victim.ID, victim.Incarnation, err)
	}
	for {
		there, err := m.tryEvict(ctx, victim, data, with)
		var refused *store.RefusedError
		switch {
		case errors.As(err, &refused) && refused.Op.Key == ledgerKey: // another eviction came first: count again
		case errors.Is(err, store.ErrUnknownOutcome): // the next try finds the verdict, or makes it
		case errors.As(err, &refused) && refused.Op.Key == guardKey(victim.Incarnation): // it has voided the ballots
			return failed(fmt.Errorf("%w: its guard is another one now", errHeard))
		case errors.Is(err, store.ErrRefused):
			m.Recheck() // if it is this member that is not one any more
			return failed(err)
		case there != nil:
			return decodeVote(there), false, nil
		default:
			return verdict, err == nil, err
		}
		if ctx.Err() != nil {
			return failed(fmt.Errorf("%w: %w", context.Cause(ctx), err))
		}
	}
}

// tryEvict makes one attempt. there is the verdict that was there before.
func (m *Member) tryEvict(ctx context.Context, victim Node, data []byte, with []store.Op) (there []byte, err error) {
	kv := m.cfg.KV
	read, err := kv.Txn(ctx, []store.Op{store.Read(ledgerKey), store.Read(evictKey(victim.Incarnation)), store.Read(evictKey(m.incarnation))})
	if err != nil {
		return nil, err
	}
	if read[1].Create != 0 {
		return append([]byte{}, read[1].Value...), nil
	}
	if read[2].Create != 0 {
		m.Recheck() // do not wait for the renewal's turn
		return nil, fmt.Errorf("evict node %s, incarnation %d: %w: this one was voted out itself", victim.ID, victim.Incarnation, raysys.ErrFenced)
	}
	now := m.cfg.Clock.Mono()
	entries, damage := decodeLedger(read[0].Value)
	if damage != nil {
		m.reportGarbage(read[0], damage) // the write below replaces it
	}
	if damage != nil || read[0].Create == 0 {
		if entries, err = m.verdicts(ctx); err != nil {
			return nil, err
		}
	}
	entries = m.ledger.observe(entries, now, m.cfg.TTL)
	pairs, _, err := kv.List(ctx, shardlog.NodesPrefix, store.Consistent)
	if err != nil {
		return nil, err
	}
	var members []Node
	for _, p := range pairs {
		if p.Session != "" {
			members = append(members, Node{Incarnation: p.Create})
		}
	}
	recent := m.ledger.recent(entries, now, m.cfg.TTL)
	if !mayEvict(recent, members) {
		return nil, fmt.Errorf("evict node %s, incarnation %d: %w: %d of now %d members went lately", victim.ID, victim.Incarnation, errHalf, len(recent), len(members))
	}
	lately := append(recent, ledgerEntry{Incarnation: victim.Incarnation, Node: victim.ID})
	next, err := encodeLedger(lately)
	if err != nil {
		return nil, err
	}
	ops := []store.Op{
		store.CheckSession(nodeKey(m.cfg.Self.ID), m.session),
		store.CheckSession(nodeKey(victim.ID), victim.session),
		store.CheckNotExists(evictKey(m.incarnation)),
		store.CheckAndSet(ledgerKey, next, read[0].Modify),
		store.CheckNotExists(evictKey(victim.Incarnation)),
		store.Set(evictKey(victim.Incarnation), data),
	}
	if victim.Incarnation == m.incarnation { // it leaves by itself: the third condition says the same as the fifth
		ops = slices.Delete(ops, 4, 5)
	}
	if _, err = kv.Txn(ctx, append(ops, with...)); err != nil {
		return nil, err
	}
	m.ledger.observe(lately, m.cfg.Clock.Mono(), m.cfg.TTL) // another member may destroy it before this one reads it again
	return nil, nil
}

// destroy ends the session of a node, again and again until the store takes it or the member ends.
func (m *Member) destroy(victim Node, kind EventKind) {
	pause := m.cfg.pauses()
	for {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
		err := m.cfg.KV.Destroy(ctx, victim.session)
		cancel()
		if err == nil {
			m.event(kind, victim, nil)
			return
		}
		m.event(kind, victim, err)
		if !m.waitFor(pause.Next()) {
			return
		}
	}
}

func (m *Member) candidacy(nodes []Node) Candidacy {
	all := electors(nodes, m.incarnation)
	c := Candidacy{Needed: len(all)/2 + 1, hosts: hasHosts(all)}
	for _, n := range all {
		if n.Incarnation == m.incarnation || m.cfg.Prober == nil || m.cfg.Prober.Linked(n.ID, n.Incarnation) {
			c.Linked++
		} else {
			c.Missing = append(c.Missing, n)
		}
	}
	return c
}

// Candidacy says what keeps this node from being a host; false when it is one, or never will be.
func (m *Member) Candidacy() (Candidacy, bool) {
	v := m.View()
	if self, ok := v.Node(m.cfg.Self.ID); !ok || !self.Joining || !self.Eligible() {
		return Candidacy{}, false
	}
	return m.candidacy(v.nodes), true
}

// Linked is to be called when a session with another node began.
func (m *Member) Linked() { signal(m.linked) }

// seekHosting is the goroutine of a node that is no host yet.
func (m *Member) seekHosting() {
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	for {
		v := m.View()
		self, ok := v.Node(m.cfg.Self.ID)
		if ok && !self.Joining {
			return
		}
		if c := m.candidacy(v.nodes); ok && c.Linked >= c.Needed && m.State() == Active && m.tryHosting(m.ctx) {
			m.event(BecameHost, self, nil)
			return
		}
		a.set(m.cfg.TTL / 20)
		select {
		case <-a.C:
		case <-m.linked:
		case <-v.Changed():
		case <-m.ctx.Done():
			return
		}
	}
}

// tryHosting counts once more on what the store says now, and writes that this node is a host.
func (m *Member) tryHosting(ctx context.Context) bool {
	if !m.cfg.Self.Eligible() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.TTL/4)
	defer cancel()
	last, err := m.cfg.KV.Txn(ctx, []store.Op{store.Read(hostsKey)})
	if err != nil {
		return false // the renewal tells of a store that is away
	}
	nodes, err := m.listNodes(ctx)
	if err != nil {
		return false
	}
	if c := m.candidacy(nodes); c.Linked < c.Needed {
		return false
	}
	return m.write(ctx, func(r *record) { r.Joining = false }, store.CheckAndSet(hostsKey, []byte(m.cfg.Self.ID), last[0].Modify)) == nil
}

// listNodes reads the nodes anew.
func (m *Member) listNodes(ctx context.Context) ([]Node, error) {
	pairs, _, err := m.cfg.KV.List(ctx, shardlog.NodesPrefix, store.Consistent)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return m.readNodes(pairs), nil
}

// verdicts are the evictions that the votes in the store tell of: each is written together with its entry in the ledger and stays
// for an hour after the node. So no recent eviction is missing, though some may be older than a lease.
func (m *Member) verdicts(ctx context.Context) ([]ledgerEntry, error) {
	pairs, _, err := m.cfg.KV.List(ctx, shardlog.EvictPrefix, store.Consistent)
	if err != nil {
		return nil, fmt.Errorf("list votes: %w", err)
	}
	var entries []ledgerEntry
	for _, p := range pairs {
		if id, err := strconv.ParseUint(strings.TrimPrefix(p.Key, shardlog.EvictPrefix), 10, 64); err == nil { // else the janitor removes it
			entries = append(entries, ledgerEntry{Incarnation: id, Node: decodeVote(p.Value).Node})
		}
	}
	return entries, nil
}

// renewals is the goroutine that renews the lease three times within it, and more often after one that failed.
func (m *Member) renewals() {
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	pause := m.cfg.pauses()
	a.set(m.lease.left() - m.cfg.TTL*2/3)
	for {
		select {
		case <-a.C:
		case <-m.renew:
		case <-m.ctx.Done():
			return
		}
		start := read(m.cfg.Clock)
		err := m.renewOnce(m.ctx)
		switch {
		case m.ctx.Err() != nil:
			return
		case final(err):
			m.fence(err)
			return
		case err != nil:
			m.event(RenewalFailed, Node{}, err)
			a.set(pause.Next())
			continue
		}
		pause.Reset()
		m.extend(start)
		a.set(m.cfg.TTL/3 - start.elapsed(m.cfg.Clock))
	}
}

// renewOnce is one renewal. It is good only if the session was renewed and then one consistent read said that this is still
// the same store, that no vote ended this incarnation, and that its key is there. The lease counts from before both, so that a
// vote which the read did not see begins a lease that ends no earlier than this one (C17).
func (m *Member) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.TTL/2)
	defer cancel()
	gone := m.cfg.KV.Renew(ctx, m.session)
	if gone != nil && !errors.Is(gone, store.ErrSessionGone) {
		return fmt.Errorf("renew the lease of node %s: %w", m.cfg.Self.ID, gone)
	}
	pairs, err := m.cfg.KV.Txn(ctx, []store.Op{
		store.Read(shardlog.LayoutKey), store.Read(evictKey(m.incarnation)), store.Read(nodeKey(m.cfg.Self.ID)), store.Read(ledgerKey),
	})
	if err != nil {
		if gone != nil { // most likely it is over; nothing may rest on the lease until it is known
			m.lease.void()
			signal(m.renewed)
		}
		return fmt.Errorf("renew the lease of node %s: %w", m.cfg.Self.ID, err)
	}
	config, vote, self, lately := pairs[0], pairs[1], pairs[2], pairs[3]
	if err := m.sameStore(config); err != nil {
		return err
	}
	switch {
	case gone != nil && vote.Create == 0 && self.Session == m.session && self.Create == m.incarnation:
		// The session holds its key, so it lives: a Consul server that was just elected answers renewals before it has read its
		// own log, from a state in which there are no sessions yet.
		return fmt.Errorf("renew the lease of node %s: %w: %w, but it holds its key", m.cfg.Self.ID, store.ErrUnavailable, gone)
	case gone != nil:
		return fmt.Errorf("%w: the session of node %s, incarnation %d, is gone: %s", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation, whyGone(m))
	case vote.Create != 0:
		return fmt.Errorf("%w: node %s, incarnation %d, was voted out: %v", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation, decodeVote(vote.Value))
	case self.Session != m.session || self.Create != m.incarnation:
		return fmt.Errorf("%w: the key of node %s, incarnation %d, was removed from the store", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation)
	}
	entries, err := decodeLedger(lately.Value)
	m.ledger.observe(entries, m.cfg.Clock.Mono(), m.cfg.TTL)
	if err != nil {
		m.mendLedger(lately, err)
	}
	return nil
}

// sameStore compares the id in the store's layout with the one that the process began with.
func (m *Member) sameStore(config store.Pair) error {
	if config.Create == 0 {
		return fmt.Errorf("%w: it holds no config of cluster %s, whose id was %s", raysys.ErrStoreReplaced, m.cfg.Cluster, m.cfg.ClusterID)
	}
	var v struct { // the id alone, whatever else a version has there
		ID string `json:"id"`
	}
	if err := json.Unmarshal(config.Value, &v); err != nil {
		return fmt.Errorf("read the id of cluster %s: %w: %w", m.cfg.Cluster, shardlog.ErrBadLayout, err)
	}
	if v.ID != m.cfg.ClusterID {
		return fmt.Errorf("%w: it holds cluster %s with id %s, not %s", raysys.ErrStoreReplaced, m.cfg.Cluster, v.ID, m.cfg.ClusterID)
	}
	return nil
}

// fence ends this incarnation: first nothing is served any more, then the session is destroyed, which tells the others that
// they may take over.
func (m *Member) fence(cause error) {
	if !m.become(Fenced, cause) {
		return
	}
	if !errors.Is(cause, raysys.ErrStoreReplaced) { // the other store's sessions are not ours to touch
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/2)
		defer cancel()
		if err := m.cfg.KV.Destroy(ctx, m.session); err != nil {
			m.event(RenewalFailed, Node{}, err)
		}
	}
	m.stop(cause)
}

// State is what the member may do now, by the clock: it says Suspended the moment the lease is over, before OnState does.
func (m *Member) State() State {
	s := State(m.state.Load())
	if s == Active && m.Lease() == 0 {
		return Suspended
	}
	return s
}

// Err is nil while the member is Active, and otherwise says why it is not: it matches ErrSuspended, ErrFenced,
// ErrStoreReplaced or ErrClosed.
func (m *Member) Err() error {
	switch m.State() {
	case Active:
		return nil
	case Suspended:
		return fmt.Errorf("%w: node %s renewed its session last more than %v ago", raysys.ErrSuspended, m.cfg.Self.ID, m.cfg.TTL)
	}
	return *m.cause.Load()
}

// become makes the transition and reports it; Fenced and Left are final, but for a fenced member that leaves. OnState runs
// before become returns, and one call at a time.
func (m *Member) become(s State, cause error) bool {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	return m.becomeNow(s, cause)
}

// becomeNow is become with the turn taken.
func (m *Member) becomeNow(s State, cause error) bool {
	was := State(m.state.Load())
	switch {
	case was == s, was == Left, was == Fenced && s != Left:
		return false
	case s == Suspended && m.lease.left() > 0: // renewed meanwhile
		return false
	case s == Active && m.lease.left() == 0: // the renewal took longer than the lease
		return false
	}
	if s == Fenced || s == Left {
		m.lease.void()
		m.cause.CompareAndSwap(nil, &cause) // a fenced member that leaves keeps its reason
	}
	m.state.Store(int32(s))
	if m.cfg.OnState != nil {
		m.cfg.OnState(s, cause)
	}
	return true
}

// extend begins the lease anew, at the start of the renewal that went well.
func (m *Member) extend(start reading) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if s := State(m.state.Load()); s == Fenced || s == Left {
		return
	}
	m.lease.extend(start)
	m.becomeNow(Active, nil)
	signal(m.renewed)
}

// lapses is the goroutine that suspends the member when its lease runs out.
func (m *Member) lapses() {
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	for {
		if left := m.lease.left(); left > 0 {
			a.set(left)
		} else {
			m.become(Suspended, raysys.ErrSuspended)
			a.set(m.cfg.TTL)
		}
		select {
		case <-a.C:
		case <-m.renewed:
		case <-m.ctx.Done():
			return
		}
	}
}

// watch is the goroutine that follows one prefix from index on (C13: one for nodes/, one for leaders/, and no other).
func (m *Member) watch(prefix string, index uint64, apply func(pairs []store.Pair, at uint64) error) {
	pause := m.cfg.pauses()
	for {
		pairs, next, err := m.cfg.KV.Watch(m.ctx, prefix, index)
		if err == nil && next < index {
			// The index went back: the store was restored, or a server answered that lags. Only a consistent read tells.
			pairs, next, err = m.cfg.KV.List(m.ctx, prefix, store.Consistent)
		}
		if m.ctx.Err() != nil {
			return
		}
		if err == nil {
			if err = apply(pairs, next); err != nil {
				index = 0 // whatever comes next is to be looked at
			}
		}
		if err == nil && next > index {
			index = next
			pause.Reset()
			continue
		}
		if err == nil {
			index = next // an answer without news: none is expected, and a store that gives many must not be spun upon
		} else {
			m.event(WatchFailed, Node{}, fmt.Errorf("watch %s: %w", prefix, err))
		}
		if !m.waitFor(pause.Next()) {
			return
		}
	}
}

// waitFor lets d pass; false when the member ended first.
func (m *Member) waitFor(d time.Duration) bool {
	a := newAlarm(m.cfg.Clock)
	a.set(d)
	defer func() { a.stop() }()
	select {
	case <-a.C:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// setNodes takes over what nodes/ holds at an index. A list without this node is not believed: either this incarnation is fenced, which the
// renewal that is asked for finds, or the store is not the one it was, and then the others are not gone either.
func (m *Member) setNodes(pairs []store.Pair, at uint64) error {
	nodes := m.readNodes(pairs)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if !slices.ContainsFunc(nodes, func(n Node) bool { return n.ID == m.cfg.Self.ID && n.Incarnation == m.incarnation }) {
		m.Recheck()
		return errUnread
	}
	m.publish(func() { m.nodes, m.nodesAt = nodes, at })
	return nil
}

// setLeaders takes over what leaders/ holds at an index.
func (m *Member) setLeaders(pairs []store.Pair, at uint64) error {
	leaders := make([]Leader, 0, len(pairs))
	for _, p := range pairs {
		l, err := shardlog.ParseLeader(p)
		if err != nil {
			m.reportGarbage(p, err)
			continue
		}
		if p.Session == "" {
			continue // it has no leader any more
		}
		leaders = append(leaders, Leader{Shard: l.Shard, Epoch: l.Epoch, session: l.Session, spoiled: p.Modify != p.Create})
	}
	slices.SortFunc(leaders, func(a, b Leader) int { return a.Shard - b.Shard })
	m.publish(func() { m.leaders, m.leadersAt = leaders, at })
	return nil
}

// publish makes a new view after a change of nodes, leaders or suspects.
func (m *Member) publish(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	change()
	old := m.view.Load()
	v := newView(m.cfg.Self.ID, m.cfg.Shards, m.nodes, m.leaders, m.suspects)
	v.at, v.leadersAt = m.nodesAt, m.leadersAt
	m.view.Store(v)
	if old != nil {
		close(old.changed)
	}
}

// State is what a member may do.
type State int32

const (
	// Active: the lease is good.
	Active State = iota
	// Suspended: the lease ran out. Nothing is committed or placed, everything is kept.
	Suspended
	// Fenced: this incarnation is over, because the session is gone or a vote ended it.
	Fenced
	// Left: the member left by itself.
	Left
)

func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Suspended:
		return "suspended"
	case Fenced:
		return "fenced"
	case Left:
		return "left"
	}
	return fmt.Sprintf("state %d", int32(s))
}

// final reports whether an error of the renewal ends this incarnation.
func final(err error) bool {
	return errors.Is(err, raysys.ErrFenced) || errors.Is(err, raysys.ErrStoreReplaced)
}

// A node that others cannot talk to must not lead shards or have grains: shards and grains that are placed on it are
// unreachable for all others until it is evicted, and again when it comes back. So an eligible node joins as one that
// is Joining, and becomes a host when a majority of the hosts has a session with it; where there are none, a majority
// of the eligible nodes, itself included. It says so in its own record, so that all members have the same hosts and
// with them the same rendezvous winners.
//
// A session is mutual: each side has checked the other's certificate and read its answer. So the node's own count is the
// hosts' word. A host stays one for this incarnation: a
// pair that breaks later is relayed, mended or evicted as pairs.go and vote.go say.

// hostsKey is written by each node that becomes a host, on condition that no other became one since it counted: of
// two that start at the same time and see no other member, the second one counts again, and finds the first.
const hostsKey = "hosts"

// electors are the nodes whose sessions make a node a host.
func electors(nodes []Node, self uint64) []Node {
	var hosts, eligible []Node
	for _, n := range nodes {
		if n.Hosts() && n.Incarnation != self {
			hosts = append(hosts, n)
		}
		if n.Eligible() {
			eligible = append(eligible, n)
		}
	}
	if len(hosts) > 0 {
		return hosts
	}
	return eligible
}

func hasHosts(nodes []Node) bool {
	for _, n := range nodes {
		if n.Hosts() {
			return true
		}
	}
	return false
}

// Candidacy is how far a node is on its way to be a host.
type Candidacy struct {
	Linked, Needed int    // sessions that it has, and that it needs
	Missing        []Node // the hosts without a session, or the eligible nodes where there is no host
	hosts          bool   // they are hosts
}

func (c Candidacy) String() string {
	what := "hosts"
	if !c.hosts {
		what = "eligible nodes, itself included"
	}
	return fmt.Sprintf("%d of %d %s have a session with it, %d must", c.Linked, c.Linked+len(c.Missing), what, c.Needed)
}

// juniorOf is the one of two members that goes where one has to.
func juniorOf(nodes map[uint64]Node, a, b uint64) uint64 {
	if nodes[a].before(nodes[b]) {
		return b
	}
	return a
}

// Sentinels name states. Match them with errors.Is; the error a verb returns adds what, where and what to do. What ends or
// suspends a member is in the root package: ErrSuspended, ErrFenced, ErrStoreReplaced.
var (
	// ErrNameTaken: another live node has this name.
	ErrNameTaken = errors.New("node name taken")
	// ErrNotListening is a Prober's answer when the host is reached and no process listens at the address: the
	// process is gone.
	ErrNotListening = errors.New("no process listens at the address")

	// errHeard: the monitors do not agree that a node is silent.
	errHeard = errors.New("not enough monitors agree")
	// errHalf: one more eviction would be more than half the members within a lease.
	errHalf = errors.New("more than half of the members would be evicted within one lease")
	// errUnread: the own key is not among the nodes that the store listed.
	errUnread = errors.New("the list of nodes lacks this one")
)
