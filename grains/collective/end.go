package collective

import (
	"context"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// How a participant comes to its end. A failure that it finds goes to the coordinator first and comes back from there
// as news, so that all ranks hear the same, and none can join anew before the coordinator knows.

// hear handles what happened outside the participant's turns.
func (s *participant[T]) hear(ctx context.Context, r event) error {
	if s.post == nil {
		return s.endUnused(ctx)
	}
	switch r.About {
	case aboutLife:
		s.memberDone(ctx)
	case aboutNews:
		s.newsCame()
	case aboutTime:
		if s.answer != nil && r.Round == s.round {
			s.fail(RoundError{Rank: s.rank, Round: s.round, Reason: Late, Text: s.waitedFor()})
		}
	case aboutSend:
		s.fail(RoundError{Rank: r.Rank, Round: s.round, Reason: Lost, Text: r.Text})
	case aboutRoom:
		s.roomCame()
	}
	return nil
}

// waitedFor says what a round in progress lacks.
func (s *participant[T]) waitedFor() string {
	if s.current == nil {
		return ""
	}
	ranks := s.current.waits()
	for _, a := range s.large.queue {
		if !slices.Contains(ranks, a.to) {
			ranks = append(ranks, a.to)
		}
	}
	return fmt.Sprintf("rank %d waited for ranks %v in %v", s.rank, ranks, s.current.sign)
}

// memberDone: the Member left, gave up, or is gone with its process. The participant is not needed any more.
func (s *participant[T]) memberDone(ctx context.Context) {
	f, err := s.life.Get(s.root.Context())
	s.catchUp(f.Round)
	end := RoundError{Rank: s.rank, Round: s.round}
	switch {
	case err != nil:
		end.Reason, end.Text = Lost, err.Error()
	case f.Reason == Left && s.current != nil:
		end.Reason, end.Text = GaveUp, "it left in the middle of the round"
	default:
		end.Reason, end.Text = f.Reason, f.Text
		if f.Reason == Late || f.Reason == GaveUp {
			end.Text += "; " + s.waitedFor()
		}
	}
	s.post.Settle(end)
	s.finish(end)
	_ = grains.Deactivate(ctx)
}

// fail reports a failure that the participant found.
func (s *participant[T]) fail(v RoundError) {
	if s.over != nil || s.dying {
		return
	}
	s.dying = true
	s.current, s.early = nil, nil
	s.large.drop()
	s.clearAlarm()
	s.post.Settle(v)
	if s.participants == nil {
		s.finish(v) // the coordinator has not let it in, so no news will come
	}
}

// newsCame handles what the coordinator says.
func (s *participant[T]) newsCame() {
	if s.over != nil || s.news.IsZero() || !core.FutureOf(s.news.Link).Settled() {
		return
	}
	n, err := s.news.Get(s.root.Context())
	switch {
	case err != nil:
		s.finish(RoundError{Rank: s.coordinatorRank, Round: s.round, Reason: Lost, Text: "what kept the group together is gone: " + err.Error()})
	case n.Verdict.Reason != Left:
		s.finish(n.Verdict)
	default:
		// A rank that left has done its part of the rounds before.
		if s.limit == nil || n.Verdict.Round < s.limit.Round {
			v := n.Verdict
			s.limit = &v
		}
		if n.Next.Ref().IsZero() || s.answer != nil && s.round >= s.limit.Round {
			s.finish(*s.limit)
			return
		}
		for rank, h := range s.held {
			if h.round >= s.limit.Round {
				delete(s.held, rank)
				h.answer(reply[T]{}) // its own participant says why
			}
		}
		s.listen(n.Next.Ref())
	}
}

// finish ends the participant's epoch; the Member hears of it now or in its next round.
func (s *participant[T]) finish(v RoundError) {
	v.Round = max(v.Round, s.round)
	v.Group = s.group
	if s.over == nil {
		s.over = &v
	}
	s.current, s.early = nil, nil
	s.large.drop()
	s.clearAlarm()
	s.newsWatch.Stop()
	s.release()
	s.post.Settle(v)
	if s.answer != nil {
		_ = s.answer.Settle(outcome[T]{Fail: s.over})
		s.answer = nil
	}
}

// OnDeactivate implements grains.Deactivator.
func (s *participant[T]) OnDeactivate(context.Context) error {
	if s.post == nil {
		return nil
	}
	s.lifeWatch.Stop()
	s.finish(RoundError{Rank: s.rank, Round: s.round, Reason: Lost, Text: "its participant had to leave its node"})
	return nil
}

// news is what the coordinator tells all participants: which rank ended its part, and why. After a rank that left there
// may be more.
type news struct {
	Verdict RoundError
	Next    raysys.Handle[news]
}
