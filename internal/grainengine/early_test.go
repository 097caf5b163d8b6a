package grainengine

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// granted is work that keeps the hold it is granted.
type granted struct{ hold *ledger.Hold }

func (*granted) Class() core.Class        { return core.Normal }
func (*granted) Over() bool               { return false }
func (*granted) Job() *core.Job           { return nil }
func (*granted) Begins(*ledger.Need) bool { return true }
func (g *granted) Grant(h *ledger.Hold)   { g.hold = h }

// TestShortWhileItLooks: what becomes short while an idle activation looks whether it is to go has it look again.
func TestShortWhileItLooks(t *testing.T) {
	line := &ledger.Line{}
	line.Init(ledger.Need{CPU: ledger.Unit}, ledger.Unnamed(ledger.Unit), ledger.Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return 0 }, Above: func(ledger.Standing) (above, less bool) { return false, false }, Freed: func() {},
	})
	need, g := ledger.Need{GPU: ledger.Unit}, &granted{}
	line.Push(need, g)
	e := NewEngine(Config{Line: line})
	a := &activation{kind: &boundKind{engine: e, def: &kind{}}}
	a.holding = &holding{a: a}
	a.mailbox.init(a) // nothing reads it
	a.holding.hold.Store(g.hold)
	a.holding.asked.Store(true) // it was asked, and reads that now
	e.holders.Store(a, nil)
	goes := a.holding.goesEarly(func() bool {
		ought := a.holding.oughtToGo()
		line.SetSick("0", true)
		e.Short()
		return ought
	})
	if goes || a.UserMessageCount() != 1 {
		t.Fatalf("goes now: %v; %d messages ask it to look again, want 1", goes, a.UserMessageCount())
	}
	if a.pop(); !a.holding.goesEarly(a.holding.oughtToGo) {
		t.Fatal("it stays with a sick device")
	}
}
