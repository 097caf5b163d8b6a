package placing

import (
	"sync"

	"github.com/raysys/raysys/internal/groupengine"
)

// roomAskers are the kinds of work that wait here while no node has what they need free, by that. Nodes where it may be held by grains
// that are idle are asked to make room.
type roomAskers struct {
	mu    sync.Mutex // guards the rest
	kinds map[string]*roomAsker
}

type roomAsker struct {
	groupengine.Rounds
	number uint64
	last   int64 // when nodes were asked, on the node's clock
}

// askEvery is the least time between two rounds. A grain without a call between two of them is idle.
const askEvery = int64(loadEvery)

// due returns the asker of work with these needs where it is time for a round, else nil. The caller holds mu.
func (a *roomAskers) due(needs string, number uint64, now int64) *roomAsker {
	for k, w := range a.kinds {
		if now-w.last > 10*askEvery { // nothing waits for it any more
			delete(a.kinds, k)
		}
	}
	w := a.kinds[needs]
	switch {
	case w == nil:
		w = &roomAsker{number: number}
		if a.kinds == nil {
			a.kinds = map[string]*roomAsker{}
		}
		a.kinds[needs] = w
	case now-w.last < askEvery:
		return nil
	}
	w.last = now
	return w
}
