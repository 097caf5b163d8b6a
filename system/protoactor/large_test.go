package protoactor_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// carrier is told bytes and numbers. It answers bytes with their length and a number with so many encoded bytes.
type carrier struct{ numbers []*structpb.Value }

// carried counts the messages that carriers got.
var carried atomic.Int64

func (a *carrier) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *wrapperspb.BytesValue:
		carried.Add(1)
		a.numbers = append(a.numbers, structpb.NewNumberValue(float64(binary.LittleEndian.Uint32(m.Value))))
		if c.Sender() != nil {
			c.Respond(wrapperspb.String(fmt.Sprint(len(m.Value), " ", c.MessageHeader().Get("trace"))))
		}
	case *wrapperspb.Int64Value:
		carried.Add(1)
		c.Respond(encoded(int(m.Value)))
	case *emptypb.Empty: // what it was told, in its order
		c.Respond(&structpb.ListValue{Values: a.numbers})
	case *wrapperspb.BoolValue:
		carried.Add(1)
		c.Respond(private{1})
	case *wrapperspb.StringValue:
		c.Poison(c.Self())
	}
}

// private is no message and not registered.
type private struct{ n int }

var _ = protoactor.Kinds(cluster.NewKind("carrier", actor.PropsFromProducer(func() actor.Actor { return &carrier{} })))

// encoded is a message that has n bytes encoded.
func encoded(n int) *wrapperspb.BytesValue {
	m := wrapperspb.Bytes(make([]byte, n))
	for proto.Size(m) > n {
		m.Value = m.Value[1:]
	}
	return m
}

func numbered(n, size int) *wrapperspb.BytesValue {
	m := wrapperspb.Bytes(make([]byte, max(size, 4)))
	binary.LittleEndian.PutUint32(m.Value, uint32(n))
	return m
}

// numbersOf asks a carrier what it was told.
func numbersOf(c *cluster.Cluster, id string) (list []int, err error) {
	v, err := c.Request(id, "carrier", &emptypb.Empty{}, cluster.WithTimeout(patient))
	if err != nil {
		return nil, err
	}
	for _, n := range v.(*structpb.ListValue).Values {
		list = append(list, int(n.GetNumberValue()))
	}
	return list, nil
}

// TestSizes: messages and answers of up to 4 MiB go to other nodes, whatever a frame of the link holds. Larger ones are too large, which
// is what the requester hears, and at once; nothing runs twice because of that.
func TestSizes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	var asked atomic.Int64 // for bodies: by messages that no frame holds
	k.Cluster().Drop(1, func(f testkit.Frame) bool {
		if f.Kind == uint8(wire.KindActorBody) {
			asked.Add(1)
		}
		return false
	})
	carries := func(n int) {
		m := encoded(n)
		v, err := c.Request("a", "carrier", m, cluster.WithTimeout(patient), protoactor.NoRetry())
		if err != nil || v.(*wrapperspb.StringValue).Value != fmt.Sprint(len(m.Value), " ") {
			t.Fatal("a message of", n, "bytes:", v, err)
		}
		v, err = c.Request("a", "carrier", wrapperspb.Int64(int64(n)), cluster.WithTimeout(patient), protoactor.NoRetry())
		if err != nil || proto.Size(v.(proto.Message)) != n {
			t.Fatal("an answer of", n, "bytes:", err)
		}
	}
	const least, most = mib - 90, mib - 30 // a frame has some 50 to 80 bytes beside a message
	for _, n := range []int{10, mib - 64*kib, least} {
		carries(n)
	}
	if n := asked.Load(); n != 0 {
		t.Error(n, "messages that a frame holds have not travelled in one")
	}
	for n := least + 1; n < most; n++ { // one of them fills a frame, and the next is the first that does not
		carries(n)
	}
	asked.Store(0)
	for _, n := range []int{most, mib + 1, 2*mib + 17, 4*mib - 1, 4 * mib} {
		carries(n)
	}
	if n := asked.Load(); n != 10 {
		t.Error(n, "messages and answers have gone over the bulk connection, want 10")
	}
	for _, n := range []int{4*mib + 1, 9 * mib} {
		before := carried.Load()
		_, err := c.Request("a", "carrier", encoded(n), cluster.WithTimeout(patient))
		isTooLarge(t, fmt.Sprint("a message of ", n, " bytes"), err)
		if carried.Load() != before {
			t.Error("a message that is too large came to its actor")
		}
		_, err = c.Request("a", "carrier", wrapperspb.Int64(int64(n)), cluster.WithTimeout(patient))
		isTooLarge(t, fmt.Sprint("an answer of ", n, " bytes"), err)
		if ran := carried.Load() - before; ran != 1 {
			t.Error("the actor ran", ran, "times for an answer that is too large")
		}
		f, err := c.RequestFuture("a", "carrier", encoded(n), cluster.WithTimeout(patient))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(); !errors.Is(err, actor.ErrDeadLetter) {
			t.Error("a future, which knows no other error:", err)
		}
	}
	pid := c.Get("a", "carrier")
	header := &actor.MessageEnvelope{Header: map[string]string{"trace": string(make([]byte, mib))}, Message: encoded(100), Sender: c.ActorSystem.NewLocalPID("nobody")}
	dead := deadLetters(c)
	c.ActorSystem.Root.Send(pid, header)
	c.ActorSystem.Root.Send(pid, encoded(5*mib))
	if n := dead(); n != 2 {
		t.Error(n, "dead letters for a header and a message that are too large, want 2")
	}
	if _, err := numbersOf(c, "a"); err != nil {
		t.Error("after all that:", err)
	}
}

func isTooLarge(t *testing.T, what string, err error) {
	t.Helper()
	for _, other := range []error{raysys.ErrOutcomeUnknown, actor.ErrDeadLetter, actor.ErrTimeout} {
		if !errors.Is(err, raysys.ErrTooLarge) || errors.Is(err, other) {
			t.Errorf("%s: %v; want raysys.ErrTooLarge", what, err)
		}
	}
}

// deadLetters counts those of a node from now on.
func deadLetters(c *cluster.Cluster) func() int64 {
	var n atomic.Int64
	c.ActorSystem.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok {
			if _, ok := d.Message.(*wrapperspb.BytesValue); ok {
				n.Add(1)
			}
		}
	})
	return n.Load
}

// TestTypesThatCannotTravel: a requester hears at once that its message, or the answer, is no protobuf message; nothing runs twice.
func TestTypesThatCannotTravel(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	if _, err := c.Request("a", "carrier", private{1}, cluster.WithTimeout(patient)); !errors.Is(err, raysys.ErrEncode) || errors.Is(err, raysys.ErrOutcomeUnknown) {
		t.Error("a message:", err)
	}
	before := carried.Load()
	_, err := c.Request("a", "carrier", wrapperspb.Bool(true), cluster.WithTimeout(patient))
	if ran := carried.Load() - before; !errors.Is(err, raysys.ErrEncode) || errors.Is(err, raysys.ErrOutcomeUnknown) || ran != 1 {
		t.Error("an answer:", err, "and the actor ran", ran, "times")
	}
}

// TestOrderOfSizes: messages of any size of one sender come in their order and once each, while others send to the same actor.
func TestOrderOfSizes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	cs := clusters(k)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(4, 200), rapid.IntRange(4, 200), rapid.IntRange(4, 70*kib), rapid.IntRange(mib-100, mib+200*kib))
		lists := rapid.SliceOfN(rapid.SliceOfN(size, 1, 6), 1, 3).Draw(rt, "sizes, by sender")
		run++
		id := fmt.Sprint("run ", run)
		var senders sync.WaitGroup
		for s, list := range lists {
			c := cs[s%len(cs)]
			pid := c.Get(id, "carrier")
			senders.Go(func() {
				for i, n := range list {
					c.ActorSystem.Root.Send(pid, numbered(s<<16|i, n))
				}
			})
		}
		senders.Wait()
		var got []int
		for s := range lists { // each asks behind what it has sent
			list, err := numbersOf(cs[s%len(cs)], id)
			if err != nil {
				rt.Fatal(err)
			}
			got = list
		}
		inOrder(rt, got, lists)
	})
}

// inOrder fails the test unless each sender's numbers came once and in their order.
func inOrder(t rapid.TB, got []int, sent [][]int) {
	for s, list := range sent {
		of := slices.DeleteFunc(slices.Clone(got), func(n int) bool { return n>>16 != s })
		for i := range of {
			of[i] &= 1<<16 - 1
		}
		if len(of) != len(list) || !slices.IsSorted(of) || len(slices.Compact(slices.Clone(of))) != len(of) {
			t.Fatalf("of sender %d came %v, want 0 to %d", s, of, len(list)-1)
		}
	}
}

// TestProcessesTakeLargeMessages: the order of sizes, and the sizes, between real processes on a real Consul.
func TestProcessesTakeLargeMessages(t *testing.T) {
	p := testkit.Processes(t, 2)
	c := protoactor.Cluster(p.Context())
	for id := range 4 {
		id := fmt.Sprint(id)
		pid := c.Get(id, "carrier")
		sizes := []int{10, mib + 1, 10, 4*mib - 10, 900 * kib, 10, 2 * mib, mib, 10}
		for i, n := range sizes {
			c.ActorSystem.Root.Send(pid, numbered(i, n))
		}
		got, err := numbersOf(c, id)
		if err != nil {
			t.Fatal(err)
		}
		inOrder(t, got, [][]int{sizes})
		v, err := c.Request(id, "carrier", wrapperspb.Int64(4*mib), cluster.WithTimeout(patient))
		if err != nil || proto.Size(v.(proto.Message)) != 4*mib {
			t.Error("an answer of 4 MiB:", err)
		}
		_, err = c.Request(id, "carrier", wrapperspb.Int64(4*mib+1), cluster.WithTimeout(patient))
		isTooLarge(t, "an answer of another process", err)
	}
}

// TestHeaderOfLargeMessage: a large message has its header and its sender.
func TestHeaderOfLargeMessage(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	f := actor.NewFuture(c.ActorSystem, patient)
	c.ActorSystem.Root.Send(c.Get("a", "carrier"), &actor.MessageEnvelope{Header: map[string]string{"trace": "17"}, Message: encoded(2 * mib), Sender: f.PID()})
	if v, err := f.Result(); err != nil || v.(*wrapperspb.StringValue).Value != fmt.Sprint(2*mib-4, " 17") {
		t.Error(v, err)
	}
}

// TestLargeMessageIsLost: whichever of its frames is lost, the requester of a large message is answered, by another attempt, once the
// connection has been made anew; what was sent around it comes in its order.
func TestLargeMessageIsLost(t *testing.T) {
	for what, is := range map[string]func(testkit.Frame, raysys.NodeID) bool{
		"head": func(f testkit.Frame, self raysys.NodeID) bool {
			return f.From == self && f.Kind == uint8(wire.KindActor)
		},
		"question": func(f testkit.Frame, self raysys.NodeID) bool {
			return f.To == self && f.Kind == uint8(wire.KindActorBody)
		},
		"body": func(f testkit.Frame, self raysys.NodeID) bool {
			return f.From == self && f.Class == wire.Bulk.String() && f.Kind == uint8(wire.KindAnswer)
		},
	} {
		t.Run(what, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(2), testkit.TTL(2*time.Second))
			c := clusters(k)[0]
			pid := c.Get("a", "carrier")
			send := func(n int) { c.ActorSystem.Root.Send(pid, numbered(n, 10)) }
			send(0)
			if _, err := numbersOf(c, "a"); err != nil {
				t.Fatal(err)
			}
			self := k.Cluster().Name(0)
			var met atomic.Int64
			first := int64(1)
			if what == "head" {
				first = 2 // before it, the message as a whole is offered to the link, which refuses it
			}
			k.Cluster().Drop(1, func(f testkit.Frame) bool { return is(f, self) && met.Add(1) == first })
			f, err := c.RequestFuture("a", "carrier", numbered(2, 2*mib), cluster.WithTimeout(patient))
			if err != nil {
				t.Fatal(err)
			}
			send(3)
			if _, err := f.Result(); err != nil || met.Load() < first {
				t.Fatal(err, "and such frames were sent:", met.Load())
			}
			got, err := numbersOf(c, "a")
			if err != nil || !slices.Equal(got, []int{0, 3, 2}) { // 2 was sent again behind 3
				t.Error(got, err)
			}
		})
	}
}

// TestConnectionBreaksUnderLargeMessages: what comes while connections break comes in its order, and what comes after that comes.
func TestConnectionBreaksUnderLargeMessages(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	pid := c.Get("a", "carrier")
	host := hostOf(t, k, c, "carrier", "a")
	for n := range 60 {
		size := 10
		if n%2 == 0 {
			size = mib + n*kib
		}
		c.ActorSystem.Root.Send(pid, numbered(n, size))
		if n%10 == 5 {
			k.Cluster().Reset(0, host)
		}
	}
	testkit.Eventually(t, patient, "messages come again", func() bool {
		_, err := c.Request("a", "carrier", numbered(100, 2*mib), cluster.WithTimeout(time.Second))
		return err == nil
	})
	got, err := numbersOf(c, "a")
	if err != nil || !slices.IsSorted(got) {
		t.Error(got, err)
	}
}

// TestNodesGoUnderLargeMessages: while a node drains and another dies, requests are answered, of which some are large.
func TestNodesGoUnderLargeMessages(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(4))
	cs := clusters(k)
	var n atomic.Int64
	for _, fault := range []func(){func() { k.Cluster().Drain(1) }, func() { k.Cluster().Kill(2) }} {
		end := load(t, []*cluster.Cluster{cs[0], cs[3], cs[4]}, func(c *cluster.Cluster, id string) error {
			size := 10
			if n.Add(1)%32 == 0 {
				size = mib + 100*kib
			}
			_, err := c.Request(id, "carrier", numbered(1, size), cluster.WithTimeout(patient))
			return err
		})
		fault()
		end()
	}
}

// TestLargeMessageToStoppedActor: it is a dead letter of which its sender hears, and a request goes to the next actor.
func TestLargeMessageToStoppedActor(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	pid := c.Get("a", "carrier")
	c.ActorSystem.Root.Send(pid, wrapperspb.String("stop"))
	f := c.ActorSystem.Root.RequestFuture(pid, numbered(1, 2*mib), patient)
	if _, err := f.Result(); !errors.Is(err, actor.ErrDeadLetter) {
		t.Error(err)
	}
	if _, err := c.Request("a", "carrier", numbered(2, 2*mib), cluster.WithTimeout(patient)); err != nil {
		t.Error(err)
	}
}

// TestLargeMessagesWait: a node that asks for nothing has 64 MiB of large messages wait for it, and no more.
func TestLargeMessagesWait(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), testkit.TTL(time.Minute))
	c := clusters(k)[0]
	pid := c.Get("a", "carrier")
	k.Cluster().Drop(1, func(f testkit.Frame) bool { return f.Kind == uint8(wire.KindActorBody) })
	dead := deadLetters(c)
	for n := range 20 {
		c.ActorSystem.Root.Send(pid, numbered(n, 4*mib-8))
	}
	if n := dead(); n != 4 {
		t.Error(n, "of 20 messages of 4 MiB were refused, want 4")
	}
	k.Cluster().Reset(0, hostOf(t, k, c, "carrier", "a"))
	testkit.Eventually(t, patient, "all are dead letters once the connection has ended", func() bool { return dead() == 20 })
}
