package refs

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// frame is one frame between the owner and a holder: a reference, a Borrow, a Drop or a Held.
type frame struct {
	kind   string
	number uint64
	held   []uint64
}

// holderModel is another node as the law sees it.
type holderModel struct {
	key      core.NodeKey
	session  *Session
	holds    map[uint64]int
	toHolder []frame // on the connection, in order
	toOwner  []frame
	dead     bool
}

// declaring reports whether the owner has not handled the Held of the connection yet.
func (h *holderModel) declaring() bool { return len(h.toOwner) > 0 && h.toOwner[0].kind == "held" }

// due is what the owner has to count for the holder: what that holds, what is on its way to it, and the drops that are on
// their way back.
func (h *holderModel) due() map[uint64]int {
	due := map[uint64]int{}
	for n, k := range h.holds {
		due[n] += k
	}
	for _, f := range h.toHolder {
		due[f.number]++
	}
	for _, f := range h.toOwner {
		if f.kind == "drop" && !h.declaring() { // behind a Held: it was held when that was sent
			due[f.number]++
		}
	}
	return due
}

// TestExportsCount: whatever frames a broken connection loses, the owner counts what a holder has, and exports a future while a
// holder has it or is about to, and no longer.
func TestExportsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &exports{}
		futures := make([]*core.Future, 3)
		for i := range futures {
			r := raysys.Ready(i)
			futures[i] = core.FutureOf(r.Link)
		}
		holders := make([]*holderModel, 2)
		for i := range holders {
			h := &holderModel{key: core.NodeKey{Node: "h", Incarnation: uint64(i + 1)}, session: &Session{}, holds: map[uint64]int{}}
			x.anew(h.key, h.session)
			holders[i] = h
		}
		drawHolder := func(t *rapid.T) *holderModel { return rapid.SampledFrom(holders).Draw(t, "holder") }
		drawHeld := func(t *rapid.T, h *holderModel) uint64 {
			var list []uint64
			for n := uint64(1); n <= x.next; n++ {
				if h.holds[n] > 0 {
					list = append(list, n)
				}
			}
			if len(list) == 0 {
				t.Skip()
			}
			return rapid.SampledFrom(list).Draw(t, "number")
		}
		add := func(t *rapid.T, h *holderModel) (uint64, bool) {
			n, err := x.add(rapid.SampledFrom(futures).Draw(t, "future"), h.key, h.session)
			if h.dead != errors.Is(err, raysys.ErrNodeDead) || !h.dead && err != nil {
				t.Fatalf("a reference for a holder (dead: %v) is added: %v", h.dead, err)
			}
			return n, err == nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				h := drawHolder(t)
				if n, ok := add(t, h); ok {
					h.toHolder = append(h.toHolder, frame{kind: "ref", number: n})
				}
			},
			"not sent": func(t *rapid.T) {
				h := drawHolder(t)
				if n, ok := add(t, h); ok {
					x.takeBack(n, h.key, h.session)
				}
			},
			"arrive": func(t *rapid.T) {
				h := drawHolder(t)
				if len(h.toHolder) == 0 {
					t.Skip()
				}
				h.holds[h.toHolder[0].number]++
				h.toHolder = h.toHolder[1:]
			},
			"drop": func(t *rapid.T) {
				h := drawHolder(t)
				n := drawHeld(t, h)
				h.holds[n]--
				h.toOwner = append(h.toOwner, frame{kind: "drop", number: n})
			},
			"borrow": func(t *rapid.T) { // a lender of the same node has passed the reference on
				from := drawHolder(t)
				n := drawHeld(t, from)
				h := drawHolder(t)
				if !h.dead {
					h.toOwner = append(h.toOwner, frame{kind: "borrow", number: n})
				}
			},
			"handle": func(t *rapid.T) {
				h := drawHolder(t)
				if len(h.toOwner) == 0 {
					t.Skip()
				}
				f := h.toOwner[0]
				h.toOwner = h.toOwner[1:]
				switch f.kind {
				case "drop":
					x.drop(f.number, h.key)
				case "held":
					x.declared(h.key, f.held)
				case "borrow":
					if x.count(f.number, h.key) {
						h.toHolder = append(h.toHolder, frame{kind: "counted", number: f.number})
					}
				}
			},
			"break": func(t *rapid.T) {
				h := drawHolder(t)
				if h.dead {
					t.Skip()
				}
				old := h.session
				h.session, h.toHolder, h.toOwner = &Session{declared: []uint64{}}, nil, nil
				x.anew(h.key, h.session)
				held := frame{kind: "held"}
				for n, k := range h.holds {
					for range k {
						held.held = append(held.held, n)
					}
				}
				h.toOwner = append(h.toOwner, held)
				if _, err := x.add(futures[0], h.key, old); !errors.Is(err, raysys.ErrNotDelivered) {
					t.Fatalf("a reference is added for a connection that is over: %v", err)
				}
			},
			"die": func(t *rapid.T) {
				h := drawHolder(t)
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					t.Skip()
				}
				x.died(h.key)
				h.dead, h.holds, h.toHolder, h.toOwner = true, map[uint64]int{}, nil, nil
			},
			"": func(t *rapid.T) {
				wanted, settled := map[uint64]bool{}, true
				for _, h := range holders {
					settled = settled && !h.declaring()
					for n, k := range h.due() {
						if k == 0 {
							continue
						}
						wanted[n] = true
						if x.list[n] == nil {
							t.Fatalf("export %d is gone, and %s has %d references to it", n, h.key, k)
						}
						if got := held(x.list[n], h.key); got < k || got > k && !h.declaring() {
							t.Fatalf("export %d counts %d references at %s, which has %d", n, got, h.key, k)
						}
					}
				}
				if settled && x.size() != len(wanted) {
					t.Fatalf("%d futures are exported, and holders have %d", x.size(), len(wanted))
				}
				if len(x.byFuture) != len(x.list) {
					t.Fatalf("%d numbers for %d exports", len(x.byFuture), len(x.list))
				}
			},
		})
	})
}

// held is how many references of e the holder has.
func held(e *export, holder core.NodeKey) int {
	t, _ := e.holders.of(holder)
	return t.all
}
