package client_test

import (
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

// TestStreamsTable: the parts of a subscription are one line.
func TestStreamsTable(t *testing.T) {
	part := func(node, stream, to string, n int) inspect.StreamPart {
		p := inspect.StreamPart{Node: raysys.NodeID(node), Namespace: "shop", Stream: stream, To: to, Part: n, Lag: 10, Failing: n, Parked: 2, Rate: 1.5}
		if n == 1 {
			p.Stores, p.Since, p.Dropped = 2, 1764248400, 3
		}
		if n == 0 && stream == "orders" {
			p.Copies, p.Wanted = 1, 3
		}
		return p
	}
	var b strings.Builder
	err := client.StreamsTable(&b, inspect.Streams{
		Parts:  []inspect.StreamPart{part("n2", "orders", "account", 0), part("n1", "orders", "account", 1), part("n1", "orders", "audit", 0)},
		Silent: []string{"n3: no answer within 3s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `STREAM  TO       PROGRAM  PARTS  NODES  LAG  FAILING  PARKED  RATE
orders  account  shop     2      n1,n2  20   1        4       3/s
orders  audit    shop     1      n1     10   0        2       2/s

orders to account: another store since 2025-11-27T13:00:00Z: NATS came back without events that were taken
orders to account: 3 events were dropped: no handler took them before their last attempt, or before Keep was over
warning: orders of shop has 1 of 3 copies: a server that is lost takes events along
n3: no answer within 3s: the parts that it delivers are missing
total: 2 subscriptions
`
	if b.String() != want {
		t.Fatalf("%s", b.String())
	}
}
