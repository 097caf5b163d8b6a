package collective

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/internal/promise"
	"github.com/raysys/raysys/internal/core"
)

// coordinator is the grain that brings the ranks of a group together: it collects one application per rank, lets all in
// at once, and from then on passes on which of them ended. It takes no part in the rounds.
type coordinator[T Number] struct {
	d    *definition[T]
	root promise.Root // set by the first join, as d and me
	me   grains.Grain[coordinator[T]]

	size    int
	forming map[int]*applicant // by rank
	epoch   *epoch
	refused *refusal
	resting bool // it has asked to go: what comes now is for the next activation
}

// refusal is what became of an attempt to form the group: ranks that come to it late hear of it too.
type refusal struct {
	verdict RoundError
	size    int
	told    map[int]bool
	until   int64
}

// application is a rank's wish to be let in.
type application struct {
	Rank, Size  int
	Node        raysys.NodeID // where the rank is
	Participant string
	Post        raysys.Handle[RoundError] // settles when the rank is out
	Join        uint64                    // which call of Join: one that was lost on its way is followed by another with a new participant
}

// admission is the answer, once all ranks are there.
type admission struct {
	Participants []string
	Host         int // a rank on the coordinator's node, which is lost with it; NoRank
	News         raysys.Handle[news]
	Fail         *RoundError
}

type applicant struct {
	rank        int
	node        raysys.NodeID
	participant string
	join        uint64
	post        raysys.Ref[RoundError]
	admit       *grains.Later[admission] // answers the call
	watch       *promise.Watch
}

// epoch is one life of the group, from the last rank's coming to the first failure.
type epoch struct {
	present map[string]*applicant  // by participant
	news    *promise.Promise[news] // the next that is said
}

func (r *coordinator[T]) join(ctx context.Context, d *definition[T], a application, answer *grains.Later[admission]) error {
	if r.resting {
		return errResting
	}
	if r.root.IsZero() {
		root, err := promise.Of(ctx)
		if err != nil {
			return err
		}
		r.d, r.root = d, root
		r.me, _ = d.coordinators.Self(ctx)
		r.forming = map[int]*applicant{}
	}
	if r.epoch != nil {
		r.end(RoundError{Rank: a.Rank, Reason: Left, Text: "it joined anew"})
	}
	x := &applicant{rank: a.Rank, node: a.Node, participant: a.Participant, join: a.Join, post: a.Post.Ref(), admit: answer}
	if old := r.forming[a.Rank]; old != nil && old.join == a.Join && a.Join != 0 {
		old.watch.Stop() // whose answer was lost
		delete(r.forming, a.Rank)
	}
	switch {
	case r.lateFor(a.Rank):
		x.answer(admission{Fail: &r.refused.verdict})
		r.told(a.Rank)
		r.rest(ctx)
	case a.Rank < 0 || a.Rank >= a.Size:
		if len(r.forming) == 0 {
			r.size = a.Size
		}
		r.refuse(x, "there is no rank %d of %d", a.Rank, a.Size)
	case len(r.forming) > 0 && a.Size != r.size:
		r.refuse(x, "it says that there are %d ranks, and others said %d", a.Size, r.size)
	case r.forming[a.Rank] != nil:
		r.refuse(x, "it was given to two members")
	default:
		r.size = a.Size
		r.forming[a.Rank] = x
		x.watch = r.watch(x)
		if len(r.forming) == r.size {
			r.admit()
		}
	}
	return nil
}

// answer answers the applicant's call of join. One that has ended needs no answer: its participant is withdrawn.
func (x *applicant) answer(a admission) { _ = x.admit.Settle(a) }

func (r *coordinator[T]) watch(x *applicant) *promise.Watch {
	d, root, me, participant := r.d, r.root, r.me, x.participant
	return promise.On(x.post, func(error) { _ = d.notice.Tell(root.Context(), me, participant) })
}

// admit lets all ranks in.
func (r *coordinator[T]) admit() {
	next := promise.New[news](r.root, "news of "+r.me.String())
	e := &epoch{present: map[string]*applicant{}, news: next}
	all := admission{Participants: make([]string, r.size), Host: NoRank, News: next.Handle()}
	for rank, x := range r.forming {
		all.Participants[rank] = x.participant
		if x.node == r.root.Node() && (all.Host == NoRank || rank < all.Host) {
			all.Host = rank
		}
		e.present[x.participant] = x
	}
	r.forming, r.epoch = map[int]*applicant{}, e
	for _, x := range e.present {
		x.answer(all)
	}
}

// refuse ends the group that is forming, for x and for all that wait or come late.
func (r *coordinator[T]) refuse(x *applicant, format string, args ...any) {
	f := &refusal{
		verdict: RoundError{Rank: x.rank, Reason: BadRank, Text: fmt.Sprintf(format, args...)},
		size:    r.size, told: map[int]bool{}, until: r.now() + int64(r.d.patience),
	}
	r.refused = f
	waiting := append(slices.Collect(maps.Values(r.forming)), x)
	r.forming = map[int]*applicant{}
	for _, w := range waiting {
		w.watch.Stop()
		w.answer(admission{Fail: &f.verdict})
		r.told(w.rank)
	}
	if r.refused != nil {
		d, root, me := r.d, r.root, r.me
		root.Runtime().SetAlarm(&core.Alarm{At: f.until, Ring: func() { _ = d.notice.Tell(root.Context(), me, "") }})
	}
}

// lateFor reports whether rank belongs to an attempt that was refused. A rank that comes again begins another.
func (r *coordinator[T]) lateFor(rank int) bool {
	if r.refused != nil && (r.refused.told[rank] || r.now() >= r.refused.until) {
		r.refused = nil
	}
	return r.refused != nil
}

// told ends a refusal that all applicants have got.
func (r *coordinator[T]) told(rank int) {
	if r.refused == nil {
		return
	}
	r.refused.told[rank] = true
	for i := range r.refused.size {
		if !r.refused.told[i] {
			return
		}
	}
	r.refused = nil
}

func (r *coordinator[T]) now() int64 { return r.root.Runtime().Now() }

// withdraw takes back the application of a participant whose member waits no more.
func (r *coordinator[T]) withdraw(ctx context.Context, participant string) error {
	for rank, x := range r.forming {
		if x.participant == participant {
			x.watch.Stop()
			delete(r.forming, rank)
		}
	}
	r.rest(ctx)
	return nil
}

// notice: the member or the applicant of a participant has ended.
func (r *coordinator[T]) notice(ctx context.Context, participant string) error {
	defer r.rest(ctx)
	for rank, x := range r.forming {
		if x.participant == participant {
			delete(r.forming, rank)
			return nil
		}
	}
	if r.epoch == nil || r.epoch.present[participant] == nil {
		return nil
	}
	x := r.epoch.present[participant]
	v, err := x.post.Get(r.root.Context())
	switch {
	case err != nil:
		r.end(RoundError{Rank: x.rank, Reason: Lost, Text: err.Error()})
	case v.Reason != Left:
		r.end(v)
	default:
		delete(r.epoch.present, participant)
		if len(r.epoch.present) == 0 {
			r.epoch = nil
			return nil
		}
		next := promise.New[news](r.root, "news of "+r.me.String())
		r.epoch.news.Settle(news{Verdict: v, Next: next.Handle()})
		r.epoch.news = next
	}
	return nil
}

// end tells every participant that the epoch is over.
func (r *coordinator[T]) end(v RoundError) {
	r.epoch.news.Settle(news{Verdict: v})
	for _, x := range r.epoch.present {
		x.watch.Stop()
	}
	r.epoch = nil
}

// rest lets the grain go when it has nothing to remember.
func (r *coordinator[T]) rest(ctx context.Context) {
	if r.epoch != nil || len(r.forming) > 0 || r.refused != nil && r.now() < r.refused.until {
		return
	}
	r.resting = grains.Deactivate(ctx) == nil
}

// OnDeactivate implements grains.Deactivator.
func (r *coordinator[T]) OnDeactivate(context.Context) error {
	v := RoundError{Rank: NoRank, Reason: Lost, Text: "what kept the group together had to leave its node"}
	if r.epoch != nil {
		r.end(v)
	}
	for _, x := range r.forming {
		x.watch.Stop()
		x.answer(admission{Fail: &v})
	}
	r.forming = nil
	return nil
}
