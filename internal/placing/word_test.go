package placing

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// told is a peer that notes in which classes it is sent loads.
type told struct {
	wire.Peer
	classes []wire.Class
}

func (p *told) Flush() {}

func (p *told) Send(c wire.Class, _ wire.Kind, _ []byte) error {
	p.classes = append(p.classes, c)
	return nil
}

// TestWordGoesWithAnswers: the load that is told to one peer follows the answers which it was sent before: frames of the
// class Control overtake them.
func TestWordGoesWithAnswers(t *testing.T) {
	pl := New(Config{})
	pl.tasks = taskengine.NewEngine(taskengine.Config{Resources: raysys.Resources{CPU: 1}, Table: raysys.NewTable()})
	p := &told{}
	pl.Tell(p)
	pl.Tell(p)
	<-pl.word
	tellSome(pl)
	tellSome(pl)
	if len(p.classes) != 1 || p.classes[0] != wire.Replies {
		t.Errorf("the load was sent in %v, want it once, with the answers", p.classes)
	}
}
