package collective

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/internal/promise"
	"github.com/raysys/raysys/internal/core"
)

// participant is a rank's place in one epoch of a group: the grain that the other ranks' participants send to, and
// where the algorithms run. It is on the rank's node where that hosts grains. Its key is drawn anew in every Join, so
// that nothing of an earlier epoch reaches it. It never blocks: whatever it waits for tells it in a turn of its own.
type participant[T Number] struct {
	// Set by enter, and never changed after.
	d     *definition[T]
	root  promise.Root
	me    grains.Grain[participant[T]]
	group string
	life  raysys.Ref[farewell]
	post  *promise.Promise[RoundError] // settled when the rank is out; nil in an activation without a rank
	place

	lifeWatch *promise.Watch

	// Set by begin.
	participants    []grains.Grain[participant[T]] // by rank
	coordinatorRank int                            // the rank that is lost with the coordinator, NoRank

	news      raysys.Ref[news] // what the coordinator will say next
	newsWatch *promise.Watch

	round   uint64
	current *round[T]
	last    *round[T]                 // the one before, where it may be asked for an answer again
	held    map[int]held[T]           // by rank
	answer  *grains.Later[outcome[T]] // to the call of start
	alarm   *core.Alarm
	early   map[uint64][]handed[T] // of rounds that the rank has not come to
	large   outgoing[T]

	limit *RoundError // rounds from its Round on cannot be: a rank has left
	dying bool        // it found a failure, and waits to hear it from the coordinator as all do
	over  *RoundError
}

// farewell is how a Member ends its part: its reason, or Left.
type farewell struct {
	Reason Reason
	Text   string
	Round  uint64 // rounds before it are complete
}

// entry is what a Member says when it takes its participant.
type entry struct {
	Group      string
	Rank, Size int
	Life       raysys.Handle[farewell] // settles when the Member is done, and fails when its process dies
}

// beginning tells a participant that all ranks are there.
type beginning struct {
	Participants []string // keys by rank
	Host         int
	News         raysys.Handle[news]
}

// request asks a participant for a round.
type request[T Number] struct {
	Sign     sign
	Vec      []T // the participant's own
	Ref      raysys.Handle[[]T]
	Refs     []raysys.Handle[[]T] // by rank: what goes to it
	Patience time.Duration
	Round    uint64
	// Why and Text say how a round ended in which the Member asked rank 0 itself; the participant returns
	// the verdict that all get.
	Why  Reason
	Text string
}

// event is what a participant tells itself when something settled outside its turns.
type event struct {
	About subject
	Round uint64
	Rank  int
	Text  string
}

type subject uint8

const (
	aboutLife subject = iota + 1
	aboutNews
	aboutTime
	aboutSend
	aboutRoom
)

// errNoParticipant: the activation is a new one, which knows nothing.
var errNoParticipant = fmt.Errorf("%w: its participant is gone", ErrLost)

func (s *participant[T]) enter(ctx context.Context, d *definition[T], e entry) (raysys.Handle[RoundError], error) {
	root, err := promise.Of(ctx)
	if err != nil {
		return raysys.Handle[RoundError]{}, err
	}
	s.post = promise.New[RoundError](root, "end of a participant")
	s.d, s.root, s.group, s.life, s.place = d, root, e.Group, e.Life.Ref(), place{e.Rank, e.Size}
	s.me, _ = d.participants.Self(ctx)
	s.large.room.Store(underWay(e.Size))
	s.lifeWatch = promise.On(s.life, func(error) { s.tell(event{About: aboutLife}) })
	return s.post.Handle(), nil
}

// tell is called from anywhere; it touches only what never changes.
func (s *participant[T]) tell(r event) {
	_ = s.d.hear.Tell(s.root.Context(), s.me, r) // it fails when the node closes, and all with it
}

func (s *participant[T]) begin(ctx context.Context, b beginning) error {
	if s.post == nil {
		return s.endUnused(ctx)
	}
	if s.over != nil || s.dying {
		return nil // start says why
	}
	s.participants = make([]grains.Grain[participant[T]], len(b.Participants))
	for i, key := range b.Participants {
		s.participants[i] = s.d.participants.Get(key)
	}
	s.coordinatorRank = b.Host
	s.listen(b.News.Ref())
	return nil
}

func (s *participant[T]) listen(next raysys.Ref[news]) {
	s.news = next
	s.newsWatch = promise.On(next, func(error) { s.tell(event{About: aboutNews}) })
}

// endUnused ends an activation that a late call has made after its participant was gone.
func (s *participant[T]) endUnused(ctx context.Context) error {
	_ = grains.Deactivate(ctx)
	return errNoParticipant
}

// start begins the rank's next round.
func (s *participant[T]) start(ctx context.Context, req request[T], answer *grains.Later[outcome[T]]) error {
	if s.post == nil {
		return s.endUnused(ctx)
	}
	if s.answer != nil {
		return ErrBusy
	}
	s.answer = answer
	s.catchUp(req.Round)
	switch {
	case s.over != nil:
		s.finish(*s.over)
	case s.limit != nil && s.round >= s.limit.Round:
		s.finish(*s.limit)
	case s.dying:
	case req.Why == Lost: // so will the coordinator say
		s.setAlarm(req.Patience)
	case req.Why != 0:
		s.fail(RoundError{Rank: s.rank, Round: s.round, Reason: req.Why, Text: req.Text})
	default:
		s.setAlarm(req.Patience)
		s.current = newRound(s.place, s.round, req)
		var o out[T]
		s.current.begin(&o)
		s.send(&o)
		early := s.early[s.round]
		delete(s.early, s.round)
		for _, h := range early {
			s.step(h)
		}
		s.complete()
	}
	return nil
}

// catchUp passes over rounds that the Member took part in by asking rank 0.
func (s *participant[T]) catchUp(round uint64) {
	if round <= s.round {
		return
	}
	s.round, s.last = round, nil
	for r := range s.early {
		if r < round {
			delete(s.early, r)
		}
	}
}

func (s *participant[T]) take(ctx context.Context, p part[T]) error {
	_, err := s.accept(ctx, handed[T]{Part: p})
	return err
}

func (s *participant[T]) hand(ctx context.Context, h handed[T]) error {
	_, err := s.accept(ctx, h)
	return err
}

// accept handles what another rank sent. again is the answer to a part that came before and was answered then.
func (s *participant[T]) accept(ctx context.Context, h handed[T]) (again *part[T], err error) {
	switch round := h.Part.Round; {
	case s.post == nil:
		return nil, s.endUnused(ctx)
	case s.over != nil || s.dying:
	case round+1 == s.round && s.last != nil:
		var o out[T]
		_ = s.last.take(h, &o)
		return o.answer, nil
	case round < s.round:
	case round > s.round && s.early[round] == nil && len(s.early) > s.size:
		// No rank completes a round before its predecessor in the ring has entered it.
		s.fail(RoundError{Rank: h.Part.From, Round: s.round, Reason: Mismatch, Text: badPart(h.Part).Error()})
	case s.current == nil || round > s.round:
		if s.early == nil {
			s.early = map[uint64][]handed[T]{}
		}
		s.early[round] = append(s.early[round], h)
	default:
		s.step(h)
		s.complete()
	}
	return nil, nil
}

func (s *participant[T]) step(h handed[T]) {
	if s.current == nil {
		return
	}
	var o out[T]
	err := s.current.take(h, &o)
	s.send(&o)
	if err != nil {
		s.fail(RoundError{Rank: s.rank, Round: s.round, Reason: Mismatch, Text: err.Error()})
	}
}

func (s *participant[T]) complete() {
	if s.current == nil || !s.current.done() || len(s.large.queue) > 0 {
		return
	}
	_ = s.answer.Settle(s.current.result())
	// An answer that was lost is asked for again. No rank can be further behind, in an AllReduce.
	s.last = nil
	if _, ok := s.current.algorithm.(*star[T]); ok {
		s.last = s.current
	}
	s.current, s.answer = nil, nil
	s.clearAlarm()
	s.round++
}

// send passes on what the algorithm has for others.
func (s *participant[T]) send(o *out[T]) {
	for i, to := range o.to {
		h := o.out[i]
		h.Part.Round, h.Part.From, h.Part.Sign = s.round, s.rank, s.current.sign
		switch {
		case o.how[i] == inCall:
			s.ask(to, h.Part)
		case o.how[i] == inAnswer:
			if !s.reply(to, h.Part) {
				h.Part.Vec = slices.Clone(h.Part.Vec)
				s.pass(to, h.Part)
			}
		case o.how[i] == lent || sizeOf[T](len(h.Part.Vec)) > small:
			s.sendLarge(addressed[T]{to, h.Part, o.how[i]})
		case h.Ref.Ref().IsZero():
			s.pass(to, h.Part)
		default:
			sent := s.d.hand.Call(s.root.Context(), s.participants[to], h)
			promise.On(sent, s.lost(to))
			promise.Hurry(s.root, sent)
		}
	}
}

// pass sends a part, whose vector it takes over.
func (s *participant[T]) pass(to int, p part[T]) {
	sent := s.d.take.Call(s.root.Context(), s.participants[to], p)
	promise.On(sent, s.lost(to))
	promise.Hurry(s.root, sent)
}

// lost returns what hears how the sending of a part to rank to has ended.
func (s *participant[T]) lost(to int) func(error) {
	return func(err error) {
		if err != nil {
			s.tell(event{About: aboutSend, Rank: to, Text: err.Error()})
		}
	}
}

func (s *participant[T]) setAlarm(patience time.Duration) {
	round := s.round
	s.alarm = &core.Alarm{
		At:   s.root.Runtime().Now() + int64(patience),
		Ring: func() { s.tell(event{About: aboutTime, Round: round}) },
	}
	s.root.Runtime().SetAlarm(s.alarm)
}

func (s *participant[T]) clearAlarm() {
	if s.alarm != nil {
		s.root.Runtime().ClearAlarm(s.alarm)
		s.alarm = nil
	}
}
