package client

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys/inspect"
)

// Some is a number of things.
func Some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// unlisted ends the line of a total where some are not in the list.
func unlisted(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("; %s not listed: raise --limit", Some(n, "is", "are"))
}

// total ends a list: nodes that do not answer, and how many there are.
func total(w io.Writer, silent []string, count, listed int, one, many string) error {
	for _, s := range silent {
		fmt.Fprintf(w, "%s: what is there is missing\n", s)
	}
	fmt.Fprint(w, "total: ", Some(count, one, many), unlisted(count-listed))
	if count > listed {
		fmt.Fprint(w, ", or give a filter")
	}
	_, err := fmt.Fprintln(w)
	return err
}

// rows writes a table, where it has rows, with an empty line behind it.
func rows(w io.Writer, n int, head string, row func(t io.Writer, i int)) error {
	if n == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for i := range n {
		row(t, i)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// lasts is a duration that may not be known.
func lasts(d time.Duration) string {
	if d > 0 && d < time.Second {
		return "<1s"
	}
	return age(d)
}

// TasksTable writes tasks for people.
func TasksTable(w io.Writer, all inspect.Tasks) error {
	err := rows(w, len(all.Tasks), "TASK\tFUNCTION\tNODE\tSTATE\tLASTS\tWAITS FOR\tATTEMPT\tOF NODE\tNAME", func(t io.Writer, i int) {
		r := &all.Tasks[i]
		name := orDash(r.Name)
		if r.Detached && r.Name == "" {
			name = "detached"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Function, r.Node, r.State, lasts(r.Lasts), orDash(waitsFor(r)), r.Attempt, orDash(string(cmp.Or(r.Of, r.Node))), name)
	})
	if err != nil {
		return err
	}
	return total(w, all.Silent, all.Count, len(all.Tasks), "task", "tasks")
}

// waitsFor says what work waits for, in a few words.
func waitsFor(t *inspect.Task) string {
	if len(t.On) == 0 {
		return t.For
	}
	var on []string
	for _, o := range t.On[:min(len(t.On), 2)] {
		on = append(on, o.Name)
	}
	if more := t.Open - len(on); more > 0 {
		on = append(on, fmt.Sprintf("%d more", more))
	}
	return strings.Join(on, ", ")
}

// GrainsTable writes grains for people.
func GrainsTable(w io.Writer, all inspect.Grains) error {
	err := rows(w, len(all.Grains), "GRAIN\tNODE\tMAILBOX\tTURN\tLASTS\tSTATE", func(t io.Writer, i int) {
		g := &all.Grains[i]
		state := "idle"
		switch {
		case g.Waits:
			state = "waits for what it asks for of the node"
		case g.Late != "":
			state = g.Late
		case g.Turn != "":
			state = "busy"
		}
		fmt.Fprintf(t, "%s/%s\t%s\t%d\t%s\t%s\t%s\n", g.Kind, g.Key, g.Node, g.Mailbox, orDash(g.Turn), lasts(g.Lasts), state)
	})
	if err != nil {
		return err
	}
	return total(w, all.Silent, all.Count, len(all.Grains), "grain", "grains")
}

// FunctionsTable writes functions for people.
func FunctionsTable(w io.Writer, all inspect.Functions) error {
	const head = "FUNCTION\tKIND\tRUNS\tRUNS/S\tERRORS\tP50\tP99\tWAIT P50\tWAIT P99\tRUNNING\tWAITING\tOLDEST WAIT"
	err := rows(w, len(all.Functions), head, func(t io.Writer, i int) {
		f := &all.Functions[i]
		rate := "-"
		if f.Rate > 0 {
			rate = fmt.Sprintf("%.1f", f.Rate)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t", f.Name, f.Kind, f.Runs, rate, f.Errors, took(f.P50), took(f.P99))
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", waited(f.WaitP50), waited(f.WaitP99),
			f.Running, f.Waiting, lasts(f.Oldest))
	})
	if err != nil {
		return err
	}
	return total(w, all.Silent, all.Count, len(all.Functions), "function", "functions")
}

// took is a run time with three digits.
func took(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// waited is took for a wait, which is known to a millisecond.
func waited(d time.Duration) string {
	if d > 0 && d < time.Millisecond {
		return "<1ms"
	}
	return took(d)
}

// FailuresTable writes failures for people.
func FailuresTable(w io.Writer, all inspect.Failures, now time.Time) error {
	err := rows(w, len(all.Failures), "FUNCTION\tNODE\tCOUNT\tFIRST\tLAST\tLAST ID\tTEXT", func(t io.Writer, i int) {
		f := &all.Failures[i]
		ago := func(at time.Time) string { return age(max(now.Sub(at), time.Second)) + " ago" }
		more := ""
		if f.Left > 0 {
			more = "+"
		}
		fmt.Fprintf(t, "%s\t%s\t%d%s\t", cmp.Or(f.Work, f.Function), f.Node, f.Count, more)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", ago(f.First), ago(f.Last), orDash(f.ID), f.Text)
	})
	if err != nil {
		return err
	}
	shown := map[string]bool{}
	for i := range all.Failures {
		f := &all.Failures[i]
		if of := string(f.Node) + "/" + f.Kind + "/" + f.Function; f.Left > 0 && !shown[of] {
			shown[of] = true
			const why = "since there were more than 20 in a second"
			fmt.Fprintf(w, "%s on %s: %s more not looked at, %s\n", f.Function, f.Node, thousands(f.Left), why)
		}
	}
	return total(w, all.Silent, all.Count, len(all.Failures), "kind of failure", "kinds of failures")
}

// thousands is a number with commas.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// maxShownDepth bounds how far a chain of waits is indented.
const maxShownDepth = 32

// WaitsTable writes waits for people: below each what it waits for, and what that waits for. Work that was shown is named alone.
func WaitsTable(w io.Writer, all inspect.Waits) error {
	c := chains{w: w, by: map[string]*inspect.Task{}, turns: map[string]*inspect.Task{}, shown: map[string]bool{}}
	awaited := map[string]bool{}
	for _, list := range [][]inspect.Task{all.Waits, all.Ends} {
		for i := range list {
			t := &list[i]
			if c.by[t.ID] = t; t.Grain != "" {
				c.turns[t.Grain] = t
			}
		}
	}
	for i := range all.Waits {
		for _, on := range all.Waits[i].On {
			if t := c.of(on); t != nil {
				awaited[t.ID] = true
			}
		}
	}
	for _, roots := range []bool{true, false} { // what is left waits in a cycle
		for i := range all.Waits {
			if t := &all.Waits[i]; !c.shown[t.ID] && awaited[t.ID] != roots {
				c.show(t, 0)
			}
		}
	}
	if len(all.Waits) > 0 {
		fmt.Fprintln(w)
	}
	return total(w, all.Silent, all.Count, min(all.Count, len(all.Waits)), "task or turn that waits for other work", "tasks and turns that wait for other work")
}

type chains struct {
	w     io.Writer
	by    map[string]*inspect.Task // by id
	turns map[string]*inspect.Task // by grain
	shown map[string]bool
}

func (c *chains) of(on inspect.WaitsOn) *inspect.Task {
	if t := c.by[on.ID]; t != nil {
		return t
	}
	return c.turns[on.Grain]
}

func (c *chains) show(t *inspect.Task, depth int) {
	indent := strings.Repeat("  ", depth)
	what := t.State
	if t.For != "" {
		what += " for " + t.For
	}
	if t.Lasts > 0 {
		what += ", " + lasts(t.Lasts)
	}
	again := ""
	if c.shown[t.ID] {
		again = ", as above"
	}
	fmt.Fprintf(c.w, "%s%s %s on %s: %s%s\n", indent, t.Function, t.ID, t.Node, what, again)
	if again != "" || depth > maxShownDepth {
		return
	}
	c.shown[t.ID] = true
	indent += "  "
	for _, on := range t.On {
		next := c.of(on)
		switch {
		case next == nil && on.Node != "":
			fmt.Fprintf(c.w, "%s%s %s: at node %s\n", indent, on.Name, on.ID, on.Node)
		case next == nil:
			fmt.Fprintf(c.w, "%s%s %s: no node says where it is\n", indent, on.Name, on.ID)
		case next.ID != on.ID:
			fmt.Fprintf(c.w, "%s%s %s: in the mailbox, behind\n", indent, on.Name, on.ID)
			c.show(next, depth+2)
		default:
			c.show(next, depth+1)
		}
	}
	if more := t.Open - len(t.On); more > 0 {
		fmt.Fprintf(c.w, "%sand %d more\n", indent, more)
	}
}
