package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/door/mcp"
	"github.com/raysys/raysys/system"
)

// An agent sees what is marked as tools, and calls one.
func Example() {
	ctx := context.Background()
	n, err := system.New(system.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := n.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close(ctx)
	d, err := door.New(n, door.Method(add, "Adds cents to an account, returns the sum."),
		door.Error(errNoMoney, http.StatusPaymentRequired, "not enough money"))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/call/", d)
	mux.Handle("/mcp", mcp.Handler(d))
	s := httptest.NewServer(mux)
	defer s.Close()

	agent := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := agent.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tool.Name, "-", tool.Description)
	}
	for _, args := range []string{`{"key": "alice", "arg": {"n": 5}}`, `{"key": "alice", "arg": {"n": "x"}}`, `{"arg": {"n": 5}}`} {
		r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_account_add", Arguments: json.RawMessage(args)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.IsError, r.Content[0].(*sdk.TextContent).Text)
	}
	// Output:
	// mcp_account_add - Adds cents to an account, returns the sum.
	// false {"result":5}
	// true {"type":"raysys:bad-argument","title":"Bad Request","status":400,"detail":"at n: string is no int64","ran":"no"}
	// true mcp_account_add takes arg, idempotency_key, key: key is missing
}
