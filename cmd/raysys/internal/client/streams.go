package client

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys/inspect"
)

// StreamsTable writes subscriptions for people: the parts of each together.
func StreamsTable(w io.Writer, all inspect.Streams) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STREAM\tTO\tPROGRAM\tPARTS\tNODES\tLAG\tFAILING\tPARKED\tRATE")
	total := 0
	var others []string
	for i := 0; i < len(all.Parts); {
		one := all.Parts[i]
		var nodes []string
		parts := 0
		one.Lag, one.Failing, one.Parked, one.Dropped, one.Rate, one.Since = 0, 0, 0, 0, 0, 0
		for ; i < len(all.Parts) && all.Parts[i].Stream == one.Stream && all.Parts[i].To == one.To && all.Parts[i].Namespace == one.Namespace; i++ {
			p := &all.Parts[i]
			parts++
			one.Lag, one.Failing, one.Parked, one.Rate = one.Lag+p.Lag, one.Failing+p.Failing, one.Parked+p.Parked, one.Rate+p.Rate
			one.Dropped += p.Dropped
			one.Since = max(one.Since, p.Since)
			if !slices.Contains(nodes, string(p.Node)) {
				nodes = append(nodes, string(p.Node))
			}
		}
		if one.Since > 0 {
			others = append(others, fmt.Sprintf("%s to %s: another store since %s: NATS came back without events that were taken",
				one.Stream, one.To, time.Unix(one.Since, 0).UTC().Format(time.RFC3339)))
		}
		if one.Dropped > 0 {
			others = append(others, fmt.Sprintf("%s to %s: %s dropped: no handler took them before their last attempt, or before Keep was over",
				one.Stream, one.To, Some(int(one.Dropped), "event was", "events were")))
		}
		total++
		slices.Sort(nodes)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\t%.0f/s\n", one.Stream, one.To, orDash(one.Namespace), parts, strings.Join(nodes, ","), one.Lag, one.Failing, one.Parked, one.Rate)
	}
	if total > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for _, s := range others {
		fmt.Fprintln(w, s)
	}
	for _, s := range all.Thin() {
		fmt.Fprintf(w, "warning: %s: a server that is lost takes events along\n", s)
	}
	for _, s := range all.Silent {
		fmt.Fprintf(w, "%s: the parts that it delivers are missing\n", s)
	}
	_, err := fmt.Fprintln(w, "total:", Some(total, "subscription", "subscriptions"))
	return err
}
