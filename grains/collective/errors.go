package collective

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Sentinels for the reason in a RoundError.
var (
	// ErrLeft: a rank left the group, or joined it anew, while others went on. They join again.
	ErrLeft = core.Sentinel("collective.left", "the rank left the group")
	// ErrLost: the node that a rank, or what stands for it, was on is gone. The ranks join again.
	ErrLost = core.Sentinel("collective.lost", "the rank was lost")
	// ErrMismatch: the ranks called different operations, or the same one with vectors of different lengths.
	ErrMismatch = core.Sentinel("collective.mismatch", "the ranks do not agree on the operation")
	// ErrRank: a rank is out of range or given twice, or the ranks disagree about how many they are.
	ErrRank = core.Sentinel("collective.rank", "bad rank")
	// ErrBusy: the Member is in an operation already; it takes one at a time.
	ErrBusy = core.Sentinel("collective.busy", "one operation at a time: the member is in another")

	// errResting: the coordinator had asked to be deactivated. The next call finds a new one.
	errResting = core.Sentinel("collective.resting", "the coordinator rests")
)

var _ = raysys.Register[*RoundError]("collective.RoundError")

// Reason says how a round came to fail.
type Reason uint8

// The reasons, each with what errors.Is finds in the RoundError.
const (
	Left     Reason = iota + 1 // ErrLeft
	Lost                       // ErrLost
	Mismatch                   // ErrMismatch
	BadRank                    // ErrRank
	Late                       // raysys.ErrDeadline
	GaveUp                     // raysys.ErrCancelled
	Full                       // raysys.ErrStoreFull
)

// NoRank is the Rank of a RoundError that no rank brought about: the grain that keeps the group together was lost with
// a node that had no rank.
const NoRank = -1

// RoundError says which rank made which round of a group fail, and why. All ranks get the same Rank and Reason. A rank
// whose own part of the round was over gets it in its next one. The Member is of no use after it: Join again.
type RoundError struct {
	Group  string // kind/key
	Rank   int    // the one that failed, or found the failure; NoRank
	Round  uint64 // counted from 0 since Join; rounds before it are complete at this rank
	Reason Reason
	Text   string // what happened, for people
}

func (e *RoundError) Error() string {
	who := fmt.Sprintf("rank %d", e.Rank)
	if e.Rank == NoRank {
		who = "the group"
	}
	s := fmt.Sprintf("round %d of %s: %s: %v", e.Round, e.Group, who, e.Unwrap())
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

var sentinels = [...]error{
	Left: ErrLeft, Lost: ErrLost, Mismatch: ErrMismatch, BadRank: ErrRank,
	Late: raysys.ErrDeadline, GaveUp: raysys.ErrCancelled, Full: raysys.ErrStoreFull,
}

// Unwrap returns the sentinel of the Reason, nil for one that this program does not know.
func (e *RoundError) Unwrap() error {
	if int(e.Reason) < len(sentinels) {
		return sentinels[e.Reason]
	}
	return nil
}

// reasonOf says what the end of a rank's own wait is for the others.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, raysys.ErrDeadline):
		return Late
	case errors.Is(err, raysys.ErrCancelled), errors.Is(err, raysys.ErrClosed):
		return GaveUp
	case errors.Is(err, raysys.ErrStoreFull):
		return Full
	}
	return Lost
}
