package client

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys/inspect"
)

// ThingName names a thing in a line of talk.
func ThingName(t *inspect.Thing) string {
	if t.Name != "" {
		return fmt.Sprintf("%s %q", t.Kind, t.Name)
	}
	return t.Kind + " " + t.ID
}

// FoundText writes all that is known of a text for people, an empty line between two things.
func FoundText(w io.Writer, f inspect.Found, now time.Time) error {
	var b strings.Builder
	for i := range f.Things {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := thing(&b, &f.Things[i], f.Count > 1, now); err != nil {
			return err
		}
	}
	if more := f.Count - len(f.Things); more > 0 {
		fmt.Fprintf(&b, "\nand %d things more: give more of one of the ids\n", more)
	}
	for _, s := range f.Silent {
		fmt.Fprintf(&b, "%s: what it knows is missing\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func thing(b *strings.Builder, t *inspect.Thing, several bool, now time.Time) error {
	if several || t.Kind == inspect.ThingJob {
		fmt.Fprintf(b, "%s %s\n", ThingName(t), t.ID)
	}
	for i := range t.Grains {
		g := &t.Grains[i]
		fmt.Fprintf(b, "%s/%s on %s: %d messages in the mailbox", g.Kind, g.Key, g.Node, g.Mailbox)
		if g.Turn != "" {
			fmt.Fprintf(b, ", in %s", g.Turn)
			if g.Lasts > 0 {
				fmt.Fprintf(b, " for %s at least", lasts(g.Lasts))
			}
		}
		if g.Late != "" {
			fmt.Fprintf(b, ", %s", g.Late)
		}
		if g.Keys > 0 || !g.Forgotten.IsZero() {
			fmt.Fprintf(b, ", %d keys of calls", g.Keys)
		}
		if !g.Forgotten.IsZero() {
			fmt.Fprintf(b, ", older ones forgotten up to %s", g.Forgotten.UTC().Format(time.RFC3339))
		}
		outbox(b, g)
	}
	for _, x := range t.Outbox {
		fmt.Fprintf(b, "%s is on no node, and %d messages to others have not arrived: %s\n", t.ID, x.Messages, x.Why)
		receivers(b, x.Receivers, x.Messages)
	}
	for i := range t.Tasks {
		r := &t.Tasks[i]
		fmt.Fprintf(b, "%s %s on %s: %s", r.Function, r.ID, r.Node, r.State)
		if r.Lasts > 0 {
			fmt.Fprintf(b, " for %s", lasts(r.Lasts))
		}
		fmt.Fprintf(b, ", attempt %d", r.Attempt)
		if r.Of != "" {
			fmt.Fprintf(b, ", of node %s", r.Of)
		}
		b.WriteByte('\n')
		for _, on := range r.On {
			fmt.Fprintf(b, "  waits for %s %s\n", on.Name, on.ID)
		}
		if more := r.Open - len(r.On); more > 0 {
			fmt.Fprintf(b, "  and for %d more\n", more)
		}
	}
	if t.Scheduling != nil {
		b.WriteString(t.Scheduling.String())
	}
	if t.Value != nil {
		b.WriteString(t.Value.String())
	}
	if x := t.Failure; x != nil {
		failure(b, t, x, now)
	}
	for i := range t.States {
		what := "State"
		if t.States[i].Entries > 0 {
			what = "Map"
		}
		stored(b, what, &t.States[i])
	}
	if t.Argument != nil {
		stored(b, "argument", t.Argument)
	}
	if t.Outcome != nil {
		stored(b, "outcome", t.Outcome)
	}
	if t.Schedule != nil {
		return scheduleText(b, t.Schedule, now)
	}
	if t.Group != nil {
		return GroupsTable(b, inspect.Groups{Count: 1, Groups: []inspect.GroupStatus{*t.Group}}, now)
	}
	return nil
}

// failure writes the last failure of a thing, whose stack has lines.
func failure(b *strings.Builder, t *inspect.Thing, x *inspect.Failure, now time.Time) {
	fmt.Fprintf(b, "last failure of %s", cmp.Or(x.Work, x.Function))
	if x.ID != t.ID {
		fmt.Fprintf(b, ", %s", x.ID)
	}
	fmt.Fprintf(b, ", on %s %s ago: %s\n", x.Node, age(max(now.Sub(x.Last), time.Second)), x.Text)
	for line := range strings.Lines(x.Stack) {
		fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))
	}
}

func stored(b *strings.Builder, what string, s *inspect.State) {
	fmt.Fprintf(b, "%s, %d bytes", strings.TrimSpace(what+" "+s.Name), s.Bytes)
	if s.Entries > 0 {
		fmt.Fprintf(b, " in %d entries", s.Entries)
	}
	if s.Namespace != "" {
		fmt.Fprintf(b, ", of %s", s.Namespace)
	}
	if s.Why != "" {
		fmt.Fprintf(b, ": %s", s.Why)
	}
	if s.Object != "" {
		fmt.Fprintf(b, ": raysys get %s", s.Object)
	}
	b.WriteByte('\n')
	if text := string(s.JSON) + s.Text; text != "" {
		fmt.Fprintf(b, "  %s\n", text)
	}
	if s.Cut > 0 {
		fmt.Fprintf(b, "  %d bytes more\n", s.Cut)
	}
}

// StacksText writes stacks for people.
func StacksText(w io.Writer, s inspect.Stacks) error {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s, process %d: %d goroutines, %d stacks\n", s.Node, s.PID, s.Goroutines, len(s.Stacks))
	for i := range s.Stacks {
		k := &s.Stacks[i]
		fmt.Fprintf(&b, "\n%d: %s", k.Count, k.State)
		if k.Waits > 0 {
			fmt.Fprintf(&b, ", %d minutes", k.Waits)
		}
		b.WriteByte('\n')
		for _, f := range k.Frames {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		if k.By != "" {
			fmt.Fprintf(&b, "  started by %s\n", k.By)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// outbox ends the line of a grain, and writes what of its messages to others has not arrived.
func outbox(b *strings.Builder, g *inspect.Grain) {
	if g.Outbox > 0 {
		fmt.Fprintf(b, ", %d messages to others have not arrived", g.Outbox)
	}
	if g.OutboxAge > 0 {
		fmt.Fprintf(b, ", the oldest for %s at least", lasts(g.OutboxAge))
	}
	b.WriteByte('\n')
	receivers(b, g.Receivers, g.Outbox)
}

func receivers(b *strings.Builder, list []inspect.Receiver, left int) {
	for _, r := range list {
		fmt.Fprintf(b, "  %d to %s", r.Messages, r.To)
		if r.Tries > 0 {
			fmt.Fprintf(b, ", tried %d times in vain", r.Tries)
		}
		if r.Why != "" {
			fmt.Fprintf(b, ": %s", r.Why)
		}
		b.WriteByte('\n')
		left -= r.Messages
	}
	if left > 0 && len(list) > 0 {
		fmt.Fprintf(b, "  and %d to others, or of turns that are not stored yet\n", left)
	}
}

// StatesTable writes a page of what is stored of grains for people.
func StatesTable(w io.Writer, p inspect.StoredGrains, first bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if first {
		fmt.Fprintln(t, "KEY\tPROGRAM\tTURN\tENTRIES\tKEYS\tMESSAGES\tSTATES")
	}
	for i := range p.Grains {
		g := &p.Grains[i]
		entries, states := 0, []string{}
		for _, s := range g.States {
			entries += s.Entries
			states = append(states, fmt.Sprintf("%s %d bytes", s.Name, s.Bytes))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", orDash(g.Key), orDash(g.Namespace), g.Turn, entries, g.Keys,
			g.Messages, orDash(strings.Join(states, ", ")))
		for _, s := range g.States {
			if text := string(s.JSON) + s.Text; text != "" {
				fmt.Fprintf(t, "  %s %s\n", s.Name, text)
			}
			if s.Why != "" {
				fmt.Fprintf(t, "  %s: %s\n", s.Name, s.Why)
			}
		}
		if g.Why != "" {
			fmt.Fprintf(t, "  %s\n", g.Why)
		}
	}
	return t.Flush()
}
