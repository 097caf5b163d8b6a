package wire

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// keptScopes is how many turns without work at the peer it goes on knowing, so that a driver's next call, or a
// server's next request under the same turn, need not introduce it again.
const keptScopes = 256

// traceSize is the room every turn has for trace context.
const traceSize = 24

// Scopes is the sending side of Peer.Open: the turns of this node that one peer knows.
type Scopes struct {
	// Send queues a frame to the peer.
	Send func(class Class, kind Kind, payload []byte) error

	mu     sync.Mutex // guards the rest, and keeps KindOpen before what is sent under it
	closed error
	next   uint32
	turns  map[*core.Turn]*scope
	byID   map[uint32]*scope
	idle   list.List // of *scope, those with no user among them, the longest idle in front
	last   *scope    // used last; nil once it is dropped
}

type scope struct {
	id    uint32
	turn  *core.Turn
	users int
	at    *list.Element // in idle; nil before its first user has gone
	watch core.Watcher
}

// Open implements Peer.Open.
func (s *Scopes) Open(t *core.Turn) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return 0, s.closed
	}
	if sc := s.find(t); sc != nil {
		s.last = sc
		sc.users++ // it keeps its place in idle, which it will need again
		return sc.id, nil
	}
	s.next++
	sc := &scope{id: s.next, turn: t, users: 1}
	frame, err := AppendTurn(binary.AppendUvarint(nil, uint64(sc.id)), t)
	if err != nil {
		return 0, err
	}
	if err := s.Send(Requests, KindOpen, frame); err != nil {
		return 0, err
	}
	if s.turns == nil {
		s.turns, s.byID = map[*core.Turn]*scope{}, map[uint32]*scope{}
	}
	if !t.Watch(&sc.watch, func() { s.cancel(sc) }) {
		_ = s.Send(Requests, KindShut, binary.AppendUvarint(nil, uint64(sc.id)))
		return 0, t.Cancelled()
	}
	s.turns[t], s.byID[sc.id] = sc, sc
	return sc.id, nil
}

// Shut implements Peer.Shut.
func (s *Scopes) Shut(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.last
	if sc == nil || sc.id != id {
		if sc = s.byID[id]; sc == nil {
			return
		}
	}
	if sc.users--; sc.users > 0 {
		return
	}
	if sc.turn.Ended() || sc.turn.Cancelled() != nil {
		s.drop(sc)
		return
	}
	if sc.at != nil {
		s.idle.MoveToBack(sc.at)
		return
	}
	sc.at = s.idle.PushBack(sc)
	if s.idle.Len() > keptScopes {
		old := s.idle.Front().Value.(*scope)
		s.leave(old)
		if old.users == 0 {
			s.drop(old)
		}
	}
}

// leave takes a scope out of idle.
func (s *Scopes) leave(sc *scope) {
	if sc.at != nil {
		s.idle.Remove(sc.at)
		sc.at = nil
	}
}

// find returns the scope of a turn.
func (s *Scopes) find(t *core.Turn) *scope {
	if s.last != nil && s.last.turn == t {
		return s.last
	}
	return s.turns[t]
}

func (s *Scopes) drop(sc *scope) {
	s.leave(sc)
	if s.last == sc {
		s.last = nil
	}
	sc.turn.Unwatch(&sc.watch)
	delete(s.turns, sc.turn)
	delete(s.byID, sc.id)
	_ = s.Send(Requests, KindShut, binary.AppendUvarint(nil, uint64(sc.id)))
}

// cancel tells the peer that the turn ended early.
func (s *Scopes) cancel(sc *scope) {
	frame := binary.AppendUvarint(nil, uint64(sc.id))
	_ = s.Send(Control, KindCancelTurn, AppendError(frame, sc.turn.Cancelled()))
}

// Close forgets all turns; the peer is gone.
func (s *Scopes) Close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = err
	for t, sc := range s.turns {
		t.Unwatch(&sc.watch)
	}
	s.turns, s.byID, s.last = nil, nil, nil
	s.idle.Init()
}

// AppendTurn appends what a peer must know of a turn (rule C2).
func AppendTurn(dst []byte, t *core.Turn) ([]byte, error) {
	left := uint64(0)
	if at := t.Until(); at != 0 {
		left = uint64(max(at-t.Runtime().Now(), 1))
	}
	return appendTurn(dst, &core.RemoteSpec{
		Job: t.Job(), Name: t.Name(), ID: t.ID(), Attempt: t.Attempt(), Values: t.Values(), Callers: t.Callers(), Class: t.Class(),
	}, left)
}

// AppendRemote appends what AppendTurn does of a turn without a deadline.
func AppendRemote(dst []byte, t *core.RemoteSpec) ([]byte, error) { return appendTurn(dst, t, 0) }

// appendTurn appends a turn for which so many nanoseconds are left; 0 for one without a deadline.
func appendTurn(dst []byte, t *core.RemoteSpec, left uint64) ([]byte, error) {
	j := t.Job
	dst = AppendID(dst, raysys.TaskID(j.ID))
	dst = AppendBytes(dst, j.Namespace)
	dst = AppendBytes(dst, t.Name)
	dst = AppendID(dst, t.ID)
	dst = binary.AppendUvarint(dst, uint64(max(t.Attempt, 0)))
	dst = binary.AppendUvarint(dst, t.Class.Code()|uint64(max(j.Weight, 1)-1)<<2)
	dst = binary.AppendUvarint(dst, left)
	dst = append(dst, make([]byte, traceSize)...)
	dst, bad := AppendValues(dst, t.Values)
	dst = binary.AppendUvarint(dst, uint64(len(t.Callers)))
	for _, id := range t.Callers {
		dst = AppendID(dst, id)
	}
	return binary.AppendUvarint(dst, j.Run), bad
}

// AppendValues appends the declared request values of a turn; ReadValues reads them.
func AppendValues(dst []byte, values *core.Values) ([]byte, error) {
	n := 0
	values.All(func(string, any) bool { n++; return true })
	dst = binary.AppendUvarint(dst, uint64(n))
	var bad error
	values.All(func(name string, v any) bool {
		typ := core.KeyType(name)
		p, err := codec.PlanOf(typ)
		if err == nil && p.HasRefs() {
			err = fmt.Errorf("%w: it may hold references", raysys.ErrEncode)
		}
		if of := reflect.TypeOf(v); err == nil && of != nil && !of.AssignableTo(typ) {
			err = fmt.Errorf("%w: it is a %v, and another key has that name for %v: give one of them another name",
				raysys.ErrEncode, of, typ)
		}
		if err == nil {
			at := reflect.New(typ)
			if v != nil {
				at.Elem().Set(reflect.ValueOf(v))
			}
			dst, err = AppendValue(AppendBytes(dst, name), p, at.UnsafePointer(), nil)
		}
		if err != nil {
			bad = fmt.Errorf("request value %q: %w", name, err)
		}
		return bad == nil
	})
	return dst, bad
}

// JobKey names a job on all nodes.
type JobKey struct {
	ID        raysys.JobID
	Run       uint64 // core.Job.Run
	Namespace string
	Weight    int // core.Job.Weight; 0 where it is 1
}

// MaxWeight is the most that a job may weigh.
const MaxWeight = 1000

// Turns is the receiving side: the turns of one peer that this node knows.
type Turns struct {
	// Job returns the job that work of the peer's job belongs to here.
	Job func(JobKey) *core.Job

	mu    sync.Mutex // guards the rest
	turns map[uint32]*core.Turn
	at    uint32           // the number asked for last
	last  *core.Turn       // and its turn; nil when turns has changed since
	early map[uint32]error // cancelled before they were opened: control frames overtake requests
}

// maxEarly bounds the cancellations that wait for their turn; a well-behaved peer has few on the way.
const maxEarly = 4096

// maxTurns bounds the turns that a peer may have open, as the calls that it may have.
const maxTurns = 1 << 20

// Turn implements Peer.Turn.
func (s *Turns) Turn(id uint32) *core.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.at != id {
		s.at, s.last = id, s.turns[id]
	}
	return s.last
}

// Opened handles KindOpen.
func (s *Turns) Opened(frame []byte) error {
	r := NewReader(frame)
	id := r.Uint32()
	spec, err := ReadTurn(&r, s.Job)
	if err != nil {
		return err
	}
	t := core.NewRemote(spec)
	s.mu.Lock()
	if s.turns == nil {
		s.turns = map[uint32]*core.Turn{}
	}
	if len(s.turns) >= maxTurns {
		s.mu.Unlock()
		return fmt.Errorf("%w: turn number %d, and at most %d may be open", ErrCorrupt, id, maxTurns)
	}
	s.turns[id], s.last = t, nil
	early := s.early[id]
	delete(s.early, id)
	s.mu.Unlock()
	if early != nil {
		t.Cancel(&core.Orphaned{Err: early})
	}
	return nil
}

// Cancelled handles KindCancelTurn.
func (s *Turns) Cancelled(frame []byte) error {
	r := NewReader(frame)
	id := r.Uint32()
	cause := ReadError(&r)
	if err := r.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	t := s.turns[id]
	if t == nil && len(s.early) < maxEarly {
		if s.early == nil {
			s.early = map[uint32]error{}
		}
		s.early[id] = cause
	}
	s.mu.Unlock()
	if t != nil {
		t.Cancel(&core.Orphaned{Err: cause})
	}
	return nil
}

// Shut handles KindShut. The turn may still be above work that the peer's tasks left running here.
func (s *Turns) Shut(frame []byte) error {
	r := NewReader(frame)
	id := r.Uint32()
	if err := r.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.turns, id)
	delete(s.early, id)
	s.last = nil
	s.mu.Unlock()
	return nil
}

// Close ends everything the peer submitted here: its node is gone.
func (s *Turns) Close(cause error) {
	s.mu.Lock()
	turns := s.turns
	s.turns, s.early, s.last = nil, nil, nil
	s.mu.Unlock()
	for _, t := range turns {
		t.Cancel(&core.Orphaned{Err: cause})
	}
}

// ReadTurn reads what AppendTurn has appended.
func ReadTurn(r *Reader, jobOf func(JobKey) *core.Job) (spec core.RemoteSpec, err error) {
	job := JobKey{ID: raysys.JobID(r.ID()), Namespace: r.String()}
	spec = core.RemoteSpec{Name: r.String(), ID: r.ID(), Attempt: int(r.Uint32())}
	priority := r.Uvarint()
	spec.Class = core.ClassOf(priority & 3)
	if more := priority >> 2; more > 0 {
		job.Weight = int(min(more, MaxWeight-1)) + 1
	}
	left := r.Uvarint()
	for range traceSize {
		r.Byte()
	}
	if spec.Values, err = ReadValues(r); err != nil {
		return spec, err
	}
	for range r.Count(16) {
		spec.Callers = append(spec.Callers, r.ID())
	}
	job.Run = r.Uvarint()
	if err := r.Err(); err != nil {
		return spec, err
	}
	spec.Job = jobOf(job)
	if left != 0 {
		spec.Deadline = spec.Job.Runtime.Now() + int64(min(left, uint64(10*365*24*time.Hour)))
	}
	return spec, nil
}

// ReadValues reads what AppendValues has appended. It leaves out what no key of this program has.
func ReadValues(r *Reader) (list *core.Values, err error) {
	type value struct {
		name string
		v    any
	}
	var values []value
	for range r.Count(1) {
		name := r.String()
		body := r.Sized()
		typ := core.KeyType(name)
		if typ == nil {
			continue // a key that this program does not declare
		}
		p, err := codec.PlanOf(typ)
		if err != nil {
			continue
		}
		v := reflect.New(typ).Elem()
		if err := p.Decode(body, v, nil); err != nil {
			return nil, fmt.Errorf("request value %q: %w", name, err)
		}
		values = append(values, value{name, v.Interface()})
	}
	for i := len(values) - 1; i >= 0; i-- { // the newest came first
		list = list.Add(values[i].name, values[i].v)
	}
	return list, r.Err()
}
