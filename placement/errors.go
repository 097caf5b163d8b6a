package placement

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
)

// ErrNoNode: no node can take the request now, but that may pass: a node may join, get room, or come back. An error
// that matches it matches raysys.ErrOverloaded too, since a later attempt may succeed.
var ErrNoNode = errors.New("no node can take it now")

// NoNodeError is why Place found no node. It matches raysys.ErrNoCapacity when no node of the view ever could, however
// idle, and ErrNoNode otherwise.
type NoNodeError struct {
	Request Request
	Reasons []string // one line for each node, where Request.Explain was set
	// Most is, of each resource asked for, the most that one node has of those that have too little of something; of GPU, the
	// devices that would do.
	Most  raysys.Resources
	nodes tally
	there *there
}

// Temporary reports whether waiting may help.
func (e *NoNodeError) Temporary() bool { return e.nodes.ever() || e.nodes == tally{} }

// Is matches the sentinel of the state.
func (e *NoNodeError) Is(target error) bool {
	if e.Temporary() {
		return target == ErrNoNode || target == error(raysys.ErrOverloaded)
	}
	return target == error(raysys.ErrNoCapacity)
}

func (e *NoNodeError) Error() string {
	var b strings.Builder
	r := &e.Request
	if e.Temporary() {
		fmt.Fprintf(&b, "%v: ", ErrNoNode)
	} else {
		fmt.Fprintf(&b, "%v: ", raysys.ErrNoCapacity)
	}
	kind := fmt.Sprint(r.Kind)
	if !strings.HasPrefix(r.Function, kind+" ") { // else it says so itself
		b.WriteString(kind)
		if r.Function != "" {
			b.WriteString(" ")
		}
	}
	b.WriteString(r.Function)
	if r.Kind == Grain && r.Key != "" {
		fmt.Fprintf(&b, " %.64q", r.Key)
	}
	if e.nodes == (tally{}) {
		b.WriteString(": no node is known yet: start one with raysys node, and try again")
		return b.String()
	}
	sep := ": "
	for c := fit + 1; c < causes; c++ {
		if n := e.nodes[c]; n > 0 {
			nodes := "nodes"
			if n == 1 {
				nodes = "node"
			}
			fmt.Fprintf(&b, "%s%d %s: %s", sep, n, nodes, c.why(r))
			if has := e.there.words[c]; has != "" {
				fmt.Fprintf(&b, " (%s)", has)
			}
			sep = "; "
		}
	}
	if e.Temporary() {
		b.WriteString(": try again later")
	} else {
		b.WriteString(": ask for less, or add a node that has it")
	}
	return b.String()
}

// why says the cause in words.
func (c cause) why(r *Request) string {
	switch c {
	case noWorker:
		return "a driver, no worker"
	case otherProgram:
		return fmt.Sprintf("of another namespace than %q", r.Namespace)
	case noFunction:
		return fmt.Sprintf("without %q in the function table", r.Function)
	case noLabel:
		return "without the labels " + labels(r.Labels)
	case tooSmall:
		return fmt.Sprintf("less than %v even when idle", r.Needs)
	case unmet:
		return "against the conditions: " + r.hardWords()
	case joining:
		return "joining"
	case draining:
		return "draining"
	case sick:
		return fmt.Sprintf("less than %v on devices that are not sick", r.Needs)
	case noRoom:
		return fmt.Sprintf("less than %v free", r.Needs)
	}
	return "fits"
}
