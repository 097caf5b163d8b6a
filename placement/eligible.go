package placement

import (
	"slices"

	"github.com/raysys/raysys"
)

// cause is why a node is out of the question. Those before joining do not pass with time.
type cause uint8

const (
	fit cause = iota
	noWorker
	otherProgram
	noFunction
	noLabel
	tooSmall
	unmet
	joining
	draining
	sick
	noRoom
	causes // their number
)

// exclude returns why node i may not take r. The order matters: what does not pass with time is found first.
func (v *View) exclude(i int, r *Request) cause {
	n := &v.nodes[i]
	if !n.Worker && (r.Kind == Grain || i != v.local || n.Total.CPU == 0 && !n.everHas(&r.Needs)) {
		return noWorker // a driver runs what it submits itself, where it offers something
	}
	if r.Function != "" && n.Namespace != r.Namespace {
		return otherProgram
	}
	if r.Function != "" && n.Runs != nil && !n.Runs(r.Function) {
		return noFunction
	}
	for key, want := range r.Labels {
		if have, ok := n.Labels[key]; !ok || have != want {
			return noLabel
		}
	}
	if !n.everHas(&r.Needs) {
		return tooSmall
	}
	if len(r.Conditions) > 0 && r.unmet(n) != nil {
		return unmet
	}
	if n.Joining && (r.Kind == Grain || i != v.local) {
		return joining
	}
	if n.Draining {
		return draining
	}
	if !n.hasDevices(&r.Needs, well) {
		return sick
	}
	if r.Kind == Grain && !r.Queue && !n.hasNow(&r.Needs) || r.Now && n.Wait(r.Needs) > 0 {
		return noRoom
	}
	return fit
}

// reserve says in which order nodes that fit are taken: 0 sound, 1 to avoid, 2 suspect, 3 both.
func (v *View) reserve(i int, avoid []raysys.NodeID) int {
	rank := 0
	if len(avoid) > 0 && slices.Contains(avoid, v.nodes[i].ID) {
		rank = 1
	}
	if v.nodes[i].Suspect {
		rank += 2
	}
	return rank
}

// eligible returns the nodes to choose from, or the error that there is none.
func (v *View) eligible(r *Request) (*set, error) {
	s := v.shapeOf(r)
	c, ok := v.candidates(r, s)
	if !ok {
		return c, v.noNode(r, s)
	}
	return c, nil
}

// tally counts the nodes by cause.
type tally [causes]int

// ever reports whether some node would do if it had room. One whose devices are sick would not: nothing says that they recover.
func (t *tally) ever() bool { return t[fit]+t[joining]+t[draining]+t[noRoom] > 0 }
