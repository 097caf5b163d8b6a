package client

import (
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/placement"
)

func TestGroupsTable(t *testing.T) {
	now := time.Unix(1000, 0)
	one := raysys.Resources{CPU: 1}
	for want, all := range map[string]inspect.Groups{
		"total: 0 placement groups\n": {},
		`GROUP       ID  PROGRAM  GOES WITH  STRATEGY       STATE    SINCE  BUNDLES
"training"  a1  prog     detached   STRICT_SPREAD  held     1m40s  a: 2 x (CPU 1), b: GPU 4
-           b2  -        driver     PACK           waiting  -      no node: CPU 1

c: no answer within 3s: the groups of the shards that it leads are missing
total: 5 placement groups; 3 are not listed: raise --limit
`: {Count: 5, Silent: []string{"c: no answer within 3s"}, Groups: []inspect.GroupStatus{
			{ID: "a1", Name: "training", Namespace: "prog", Strategy: placement.StrictSpread, State: inspect.GroupHeld, Detached: true, Made: time.Unix(900, 0), Bundles: []inspect.BundleStatus{
				{Resources: one, Node: "a"}, {Resources: one, Node: "a"}, {Resources: raysys.Resources{GPU: 4}, Node: "b"},
			}},
			{ID: "b2", Strategy: placement.Pack, State: inspect.GroupWaiting, Owner: "driver", Bundles: []inspect.BundleStatus{{Resources: one}}},
		}},
	} {
		var b strings.Builder
		if err := GroupsTable(&b, all, now); err != nil || b.String() != want {
			t.Errorf("%v:\n%swant\n%s", err, b.String(), want)
		}
	}
}
