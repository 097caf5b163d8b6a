package countload

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOrderRound(t *testing.T) {
	for round, want := range [][]int{{0, 1, 2}, {2, 1, 0}, {0, 1, 2}} {
		if got := OrderRound(round, 3); !slices.Equal(got, want) {
			t.Error(round, got)
		}
	}
}

// tableOf has two rounds: ours, and two peers of which each is the best in one round.
func tableOf() *Table {
	t := &Table{
		Loads: []string{"0.5", "1.5"}, Each: 3 * time.Second, Skipped: []string{"X was skipped: there is no x."},
		Lines: []*Line{
			{Name: "raysys", Ours: true},
			{Name: "raysys", Ours: true, Keyed: true},
			{Name: "A"},
			{Name: "A", Keyed: true},
			{Name: "B"},
			{Name: "B", Keyed: true},
		},
	}
	rates := [][]float64{{100, 300}, {50, 300}, {20, 10}, {0, 0}, {10, 40}, {0, 0}}
	for _, p := range allParts {
		for i, l := range t.Lines {
			for _, rate := range rates[i] {
				l.Add(Result{Part: p.name, Rate: rate, P50: 1.2345, P99: 123.45, CPU: 55, Bytes: 4096})
			}
		}
	}
	return t
}

// TestTable: a ratio is of one round, to the best of the peers there, and to the same side without keys.
func TestTable(t *testing.T) {
	made := tableOf().String()
	for _, want := range []string{
		"; medians of 2 rounds, 3s a part; the load before each round was 0.5, 1.5. X was skipped: there is no x.\n\n| callers |",
		"| 1 | raysys | 200 | 1.23, 123 ms | 55 us | 4096 B | 6.25, 5.00 to 7.50 |  |\n| 1 | A | 15 | 1.23, 123 ms | 55 us | 4096 B |  |  |\n",
		"| 1,000 | raysys, keys | 175 | 1.23, 123 ms | 55 us | 4096 B |  | 0.75, 0.50 to 1.00 |\n", // of peers that answered nothing there is no ratio
	} {
		if !strings.Contains(made, want) {
			t.Errorf("%s\nhas no %s", made, want)
		}
	}
	if n := strings.Count(made, "\n"); n != 2+2+6*len(allParts) {
		t.Errorf("%d lines:\n%s", n, made)
	}
	tab := tableOf()
	if err := tab.Wrong(); err != nil {
		t.Error(err)
	}
	tab.Lines[3].parts["100"][1].Wrong = "9 sums came twice"
	tab.Lines[0].parts["1"][0].Failed, tab.Lines[0].parts["1"][1].Failed = 3, 5
	if err := tab.Wrong(); err == nil || err.Error() != "A, keys true, callers 100, round 2: 9 sums came twice" {
		t.Error(err)
	}
	if made := tab.String(); !strings.Contains(made, "| 1 | raysys | 200, 4 calls failed |") {
		t.Error(made)
	}
	tab.Lines = tab.Lines[:2]
	if made := tab.String(); !strings.Contains(made, "4096 B |  |  |\n") {
		t.Error(made) // without peers
	}
}
