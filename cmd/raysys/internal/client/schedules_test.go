package client_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

// TestMissed: list and get show for which reasons a schedule missed times.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		missed uint64
		left   map[string]uint64
		want   string
	}{
		{0, nil, "0"},
		{7, nil, "7"}, // of a node that knows no reasons
		{12, map[string]uint64{"late": 3, "overlap": 9, "full": 0}, "12: 9 overlap, 3 late"},
		{10, map[string]uint64{"unknown": 4, "full": 3, "late": 2, "overlap": 1}, "10: 1 overlap, 2 late, 3 full, 4 unknown"},
		{9, map[string]uint64{"z\x1b[2J\n": 4, "": 1, "a": 2, "full": 2}, `9: 2 full, 1 -, 2 a, 4 z\x1b[2J\n`}, // of a version to come
	} {
		s := inspect.Schedule{Name: "bill", Missed: c.missed, Left: c.left}
		var list strings.Builder
		if err := client.SchedulesTable(&list, cli.Printable(inspect.Schedules{Count: 1, Schedules: []inspect.Schedule{s}}), time.Now()); err != nil {
			t.Fatal(err)
		}
		head, row, _ := strings.Cut(list.String(), "\n")
		if at := strings.Index(head, "MISSED"); !strings.HasPrefix(row[at:], c.want+"  ") {
			t.Errorf("list: got %q, want %q below MISSED", list.String(), c.want)
		}
		var get strings.Builder
		err := client.FoundText(&get, cli.Printable(inspect.Found{Count: 1, Things: []inspect.Thing{{Kind: "schedule", Name: "bill", Schedule: &s}}}), time.Now())
		if !regexp.MustCompile(`\nmissed +`+regexp.QuoteMeta(c.want)+`\n`).MatchString(get.String()) || err != nil {
			t.Errorf("get: got %q, %v, want %q", get.String(), err, c.want)
		}
	}
}
