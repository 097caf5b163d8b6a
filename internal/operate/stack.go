package operate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
)

// Stack asks a node for the stacks of its goroutines.
func Stack(ctx context.Context, o *Operator, node raysys.NodeID) (all inspect.Stacks, err error) {
	if node == "" {
		return all, fmt.Errorf("%w: stacks of no node: give its name", raysys.ErrBadOption)
	}
	silent, err := ask(ctx, o, node, "stack", struct{}{}, func(_ core.NodeKey, a inspect.Stacks) { all = a })
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("%w: %s", raysys.ErrUnreachable, silent[0])
	}
	return all, err
}

// ownStack folds the stacks of this process.
func ownStack(o *Operator, _ context.Context, _ struct{}) (inspect.Stacks, error) {
	goroutines := grainengine.GoroutineStacks()
	all := inspect.Stacks{Node: o.Name, PID: os.Getpid(), Goroutines: len(goroutines), Stacks: folded(goroutines)}
	all.Stacks = bounded(all.Stacks)
	return all, nil
}

// folded counts equal stacks, the most frequent first.
func folded(goroutines []string) (list []inspect.Stack) {
	by := map[string]*inspect.Stack{}
	for _, g := range goroutines {
		s := readStack(g)
		key := s.State + "\n" + strings.Join(s.Frames, "\n") + "\n" + s.By
		if by[key] == nil {
			by[key] = &s
		}
		by[key].Count++
		by[key].Waits = max(by[key].Waits, s.Waits)
	}
	for _, s := range by {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b inspect.Stack) int {
		return cmp.Or(b.Count-a.Count, b.Waits-a.Waits, strings.Compare(a.State, b.State), slices.Compare(a.Frames, b.Frames), strings.Compare(a.By, b.By))
	})
	return list
}

// readStack reads one goroutine of a dump. Neighbours that are raysys's own, or of the actors below it, become one frame.
func readStack(g string) (s inspect.Stack) {
	head, body, _ := strings.Cut(g, "\n")
	_, state, _ := strings.Cut(head, "[")
	state, _, _ = strings.Cut(state, "]")
	state, more, _ := strings.Cut(state, ", ")
	s.State = state
	if n, _, ok := strings.Cut(more, " minutes"); ok {
		s.Waits, _ = strconv.Atoi(n)
	}
	own, first := 0, ""
	fold := func() {
		switch own {
		case 0:
			return
		case 1:
			s.Frames = append(s.Frames, first)
		default:
			s.Frames = append(s.Frames, fmt.Sprintf("%s, and %d frames of raysys more", first, own-1))
		}
		own = 0
	}
	lines := strings.Split(body, "\n")
	for i := 0; i < len(lines); i++ {
		name := lines[i]
		if by, ok := strings.CutPrefix(name, "created by "); ok {
			s.By, _, _ = strings.Cut(by, " in goroutine ")
			break
		}
		if name == "" || name[0] == '\t' {
			continue
		}
		if j := strings.LastIndexByte(name, '('); j > 0 {
			name = name[:j]
		}
		if strings.HasPrefix(name, "github.com/raysys/raysys/internal/") || strings.Contains(name, "protoactor-go/actor.") {
			if own++; own == 1 {
				first = name[strings.LastIndexByte(name, '/')+1:]
			}
			continue
		}
		fold()
		if i+1 < len(lines) {
			at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			name += " " + at
		}
		s.Frames = append(s.Frames, name)
	}
	fold()
	return s
}
