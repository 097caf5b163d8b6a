package client

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys/inspect"
)

// when is a moment for people: the time from now on, or since.
func when(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return "-"
	case d >= 0:
		return "in " + lasts(d)
	default:
		return lasts(-d) + " ago"
	}
}

// stateOf is what a schedule does now.
func stateOf(s *inspect.Schedule) string {
	switch {
	case s.Why != "":
		return "stays: " + s.Why
	case s.Waits != "":
		return fmt.Sprintf("waits, on %s, for %s", s.Node, s.Waits)
	case s.Node != "" && len(s.Running) > 0:
		return fmt.Sprintf("runs on %s", s.Node)
	case s.Node != "":
		return fmt.Sprintf("is due, on %s", s.Node)
	case s.Paused:
		return "paused"
	case s.LastError != "":
		return "failed: " + s.LastError
	}
	return "-"
}

// missedReasons is the order in which missedText shows the reasons that every version knows.
var missedReasons = []string{"overlap", "late", "full", "unknown"}

// missedText is the number of times that a schedule missed, with the reasons: "12: 9 overlap, 3 late". Reasons that only
// another version knows come last, in the order of their names.
func missedText(s *inspect.Schedule) string {
	others := slices.Sorted(maps.Keys(s.Left))
	others = slices.DeleteFunc(others, func(reason string) bool { return slices.Contains(missedReasons, reason) })
	var parts []string
	for _, reason := range slices.Concat(missedReasons, others) {
		if n := s.Left[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, orDash(reason)))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprint(s.Missed)
	}
	return fmt.Sprintf("%d: %s", s.Missed, strings.Join(parts, ", "))
}

// SchedulesTable writes schedules for people.
func SchedulesTable(w io.Writer, all inspect.Schedules, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tPROGRAM\tWHEN\tDOES\tNEXT\tLAST\tMISSED\tSTATE")
	for i := range all.Schedules {
		s := &all.Schedules[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			s.Name, orDash(s.Namespace), orDash(s.When), orDash(s.Work), when(s.Next, now), when(s.Last, now), missedText(s), strings.ReplaceAll(stateOf(s), "\n", " "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := all.Count - len(all.Schedules); more > 0 {
		fmt.Fprintf(w, "and %d more: --prefix and --limit say which are shown\n", more)
	}
	for _, s := range all.Silent {
		fmt.Fprintf(w, "%s: its schedules are missing\n", s)
	}
	return nil
}

// scheduleText writes all that is known of one.
func scheduleText(w io.Writer, s *inspect.Schedule, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	at := func(x time.Time) string {
		if x.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%s (%s)", x.UTC().Format(time.RFC3339), when(x, now))
	}
	fmt.Fprintf(t, "schedule\t%s\nprogram\t%s\nwhen\t%s\ndoes\t%s\n", s.Name, orDash(s.Namespace), orDash(s.When), orDash(s.Work))
	fmt.Fprintf(t, "overlap\t%s, catch up %d, jitter %s\nnext\t%s\nlast\t%s\n", orDash(s.Overlap), s.CatchUp, cmp.Or(s.Jitter, "0s"), at(s.Next), at(s.Last))
	fmt.Fprintf(t, "missed\t%s\nstate\t%s\n", missedText(s), stateOf(s))
	for _, r := range s.Running {
		fmt.Fprintf(t, "has not ended\tdue %s\n", at(r))
	}
	if s.LastError != "" {
		fmt.Fprintf(t, "last error\t%s\n", s.LastError)
	}
	return t.Flush()
}
