package link_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// greeter starts a node that answers greetings.
func greeter(node raysys.NodeID, transport link.Transport, answers chan<- string) *link.Link {
	l, err := link.New(link.Config{
		Self:      func() link.Identity { return link.Identity{Cluster: "example", Node: node, Incarnation: 1} },
		Transport: transport,
		Listen:    "127.0.0.1:0",
		Handlers: map[wire.Kind]link.Handler{
			40: func(p *link.Peer, _ wire.Class, name []byte) {
				p.Send(wire.Replies, 41, fmt.Appendf(nil, "hello %s, this is %s", name, node))
			},
			41: func(_ *link.Peer, class wire.Class, text []byte) { answers <- fmt.Sprint(class, ": ", string(text)) },
		},
	})
	if err != nil {
		panic(err)
	}
	if err := l.Start(context.Background()); err != nil {
		panic(err)
	}
	return l
}

// Two nodes over loopback TCP: a request and its reply.
func Example() {
	ctx, answers := context.Background(), make(chan string, 1)
	a := greeter("a", link.TCP(link.TCPConfig{}), answers)
	b := greeter("b", link.TCP(link.TCPConfig{}), nil)
	defer b.Close(ctx)
	defer a.Close(ctx)

	p, err := a.Connect(ctx, "b", b.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Send(wire.Requests, 40, []byte("alice"))
	p.Flush() // it is about to wait
	fmt.Println(<-answers)
	// Output: replies: hello alice, this is b
}

// The same in memory, with a process that dies: the session is down at once, and the redial proves the death.
func ExampleNetwork() {
	ctx, n := context.Background(), linktest.NewNetwork(1)
	a := greeter("a", n.Transport("a"), nil)
	b := greeter("b", n.Transport("b"), nil)
	defer b.Close(ctx)
	defer a.Close(ctx)

	addr := b.Addr()
	p, _ := a.Connect(ctx, "b", addr)
	n.Kill("b")
	<-p.Done()
	fmt.Println(errors.Is(p.Err(), link.ErrReset))
	fmt.Println(errors.Is(p.Send(wire.Requests, 40, nil), raysys.ErrNotDelivered))
	_, err := a.Connect(ctx, "b", addr)
	fmt.Println(errors.Is(err, link.ErrRefused))
	// Output:
	// true
	// true
	// true
}

// A pair of nodes that cannot reach each other talks through a third.
func ExampleLink_ConnectVia() {
	ctx, n, answers := context.Background(), linktest.NewNetwork(1), make(chan string, 1)
	a, b, r := greeter("a", n.Transport("a"), answers), greeter("b", n.Transport("b"), nil), greeter("r", n.Transport("r"), nil)
	defer r.Close(ctx)
	defer b.Close(ctx)
	defer a.Close(ctx)
	r.Connect(ctx, "b", b.Addr())
	via, _ := a.Connect(ctx, "r", r.Addr())
	n.Cut("a", "b")

	p, err := a.ConnectVia(ctx, "b", via)
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Send(wire.Requests, 40, []byte("alice"))
	fmt.Println(<-answers, p.Relayed())
	// Output: replies: hello alice, this is b true
}

// A certificate names its node.
func ExampleName() {
	fmt.Println(link.Name{Cluster: "prod", Node: "n1", Roles: []string{"worker"}})
	// Output: raysys://prod/n1?role=worker
}
