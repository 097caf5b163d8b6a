package system_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

type adminRequest struct{ N int }

var _ = raysys.Register[adminRequest]("system_test.question")

type secret struct{ N int } // not registered

// oracle answers questions and protobuf strings.
func oracle(c actor.Context) {
	switch m := c.Message().(type) {
	case adminRequest:
		c.Respond(adminRequest{m.N + 1})
	case *wrapperspb.StringValue:
		c.Respond(wrapperspb.String(m.Value + "!"))
	}
}

// watcher tells what it hears of the actors that it watches.
type watcher struct {
	pid  *actor.PID
	told chan *actor.Terminated
	sent chan struct{} // closed when the watch has been sent
}

func (w *watcher) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Watch(w.pid)
		close(w.sent)
	case *actor.Terminated:
		w.told <- m
	}
}

func heard(t *testing.T, ch chan *actor.Terminated, why actor.TerminatedReason) {
	t.Helper()
	select {
	case m := <-ch:
		if m.Why != why {
			t.Errorf("it ended with %v, want %v", m.Why, why)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the watcher was told nothing")
	}
}

// TestActorsOfOtherNodes: a PID of another node takes requests and is watched like one of this node.
func TestActorsOfOtherNodes(t *testing.T) {
	f := newFleet(t)
	a, _ := f.join("a", system.Worker)
	b, _ := f.join("b", system.Worker)
	spawn := func(f actor.ReceiveFunc) *actor.PID { return a.Actors().Root.Spawn(actor.PropsFromFunc(f)) }
	pid := spawn(oracle)
	ask := func(m any) (any, error) { return b.Actors().Root.RequestFuture(pid, m, 5*time.Second).Result() }
	if v, err := ask(adminRequest{41}); v != (adminRequest{42}) || err != nil {
		t.Error(v, err)
	}
	v, err := ask(wrapperspb.String("hi"))
	if s, ok := v.(*wrapperspb.StringValue); !ok || s.Value != "hi!" || err != nil {
		t.Error(v, err)
	}
	if _, err := ask(secret{1}); !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("a type that cannot travel: %v", err)
	}
	reader := spawn(func(c actor.Context) {
		if m, ok := c.Message().(*wrapperspb.StringValue); ok {
			c.Respond(wrapperspb.String(c.MessageHeader().Get(m.Value)))
		}
	})
	header := actor.NewFuture(b.Actors(), 5*time.Second)
	b.Actors().Root.Send(reader, &actor.MessageEnvelope{
		Header: map[string]string{"trace": "17", "user": "ann"}, Message: wrapperspb.String("trace"), Sender: header.PID(),
	})
	v, err = header.Result()
	if s, ok := v.(*wrapperspb.StringValue); !ok || s.Value != "17" || err != nil {
		t.Error("header:", v, err)
	}

	told := make(chan *actor.Terminated, 10)
	watch := func(pid *actor.PID) {
		sent := make(chan struct{})
		b.Actors().Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &watcher{pid, told, sent} }))
		<-sent
	}
	watch(pid)
	if v, err := ask(adminRequest{1}); v != (adminRequest{2}) || err != nil { // the watch is there before this
		t.Error(v, err)
	}
	b.Actors().Root.Stop(pid)
	heard(t, told, actor.TerminatedReason_Stopped)
	watch(pid)
	heard(t, told, actor.TerminatedReason_NotFound)

	pid = spawn(oracle)
	watch(pid)
	if v, err := ask(adminRequest{5}); v != (adminRequest{6}) || err != nil {
		t.Error(v, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Error(err)
	}
	heard(t, told, actor.TerminatedReason_AddressTerminated)
	if _, err := ask(adminRequest{1}); !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("to a node that is gone: %v", err)
	}
}

// TestDataDirectory: what a State holds survives the process's node, and one process at a time has the directory.
func TestDataDirectory(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		n := newNode(t, system.Config{Table: table, Data: dir})
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := n.Context(context.Background())
		for i := range 20 {
			v, err := deposit.Call(ctx, accounts.Get(fmt.Sprint(i)), 1).Get(ctx)
			if v != round+1 || err != nil {
				t.Fatal(round, i, v, err)
			}
		}
		other := newNode(t, system.Config{Table: table, Data: dir})
		if err := other.Start(t.Context()); err == nil {
			t.Error("two nodes have the directory open")
		}
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStateInMemory: without a directory State works for as long as the node lives, across activations.
func TestStateInMemory(t *testing.T) {
	_, ctx := startNode(t, system.Config{Table: table})
	g := accounts.Get("x")
	for i := range 5 {
		if v, err := deposit.Call(ctx, g, 2).Get(ctx); v != 2*(i+1) || err != nil {
			t.Fatal(v, err)
		}
		if _, err := retire.Call(ctx, g).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
