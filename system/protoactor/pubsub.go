package protoactor

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

// Topics of proto.Actor's pub-sub are actors of a kind of their own.
var _ = Kinds(cluster.NewKind(cluster.TopicActorKind, actor.PropsFromProducer(func() actor.Actor { return &topic{} }, actor.WithSenderMiddleware(packing))))

// packing is the middleware of topics, which send batches to other nodes.
func packing(next actor.SenderFunc) actor.SenderFunc {
	return func(c actor.SenderContext, to *actor.PID, m *actor.MessageEnvelope) {
		n := cluster.GetCluster(c.ActorSystem()).IdentityLookup.(lookup).n
		next(c, to, with(m, n.packed(to, m.Message)).(*actor.MessageEnvelope))
	}
}

// topic is proto.Actor's, which keeps its subscribers in a State.
type topic struct {
	*cluster.TopicActor
	subscribers *Saved[cluster.Subscribers]
}

// Receive implements actor.Actor.
func (t *topic) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		n := cluster.GetCluster(c.ActorSystem()).IdentityLookup.(lookup).n
		n.topology.Lock()
		defer n.topology.Unlock()
		var err error
		if t.subscribers, err = State[cluster.Subscribers](c); err != nil {
			panic(err) // only what was stored by this type is here
		}
		t.TopicActor = cluster.NewTopicActor(t, c.Logger())
	}
	t.TopicActor.Receive(c)
}

// Set implements cluster.KeyValueStore.
func (t *topic) Set(_ context.Context, _ string, s *cluster.Subscribers) error {
	proto.Reset(&t.subscribers.Value)
	proto.Merge(&t.subscribers.Value, s)
	return t.subscribers.Write()
}

// Get implements cluster.KeyValueStore.
func (t *topic) Get(context.Context, string) (*cluster.Subscribers, error) {
	return &t.subscribers.Value, nil
}

// Clear implements cluster.KeyValueStore.
func (t *topic) Clear(context.Context, string) error { return t.subscribers.Clear() }

// startPubSub starts the actor to which topics send what the subscribers of this node get.
func (n *node) startPubSub() error {
	props := actor.PropsFromProducer(func() actor.Actor {
		return cluster.NewPubSubMemberDeliveryActor(n.cluster.Config.PubSubConfig.SubscriberTimeout, n.log())
	}, actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, m *actor.MessageEnvelope) {
			defer func() { // a subscriber that cannot be located is nil there; the actor delivers for all others on this node
				if p := recover(); p != nil {
					n.log().Error("a batch of pub-sub was not delivered to all", slog.Any("panic", p))
				}
			}()
			next(c, unpacked(m).(*actor.MessageEnvelope))
		}
	}))
	if _, err := n.system().Root.SpawnNamed(props, cluster.PubSubDeliveryName); err != nil {
		return fmt.Errorf("start pub-sub: %w", err)
	}
	return nil
}

// packed is a message as it leaves for the actor with a PID. Some messages of proto.Actor, those of pub-sub among them, become protobuf
// messages only when they leave the process.
func (n *node) packed(to *actor.PID, message any) any {
	m, ok := message.(remote.RootSerializable)
	if !ok || to.Address == n.system().Address() {
		return message
	}
	out, err := m.Serialize()
	if err != nil {
		return message // the link says in the log that it cannot send such a message
	}
	return out
}

// unpacked turns what packed has made back into the message.
func unpacked(message any) any {
	if m, ok := actor.UnwrapEnvelopeMessage(message).(remote.RootSerialized); ok {
		if in, err := m.Deserialize(); err == nil { // else the actor gets a message that it does not know
			return with(message, in)
		}
	}
	return message
}

// with is the message with another content.
func with(message, content any) any {
	e, ok := message.(*actor.MessageEnvelope)
	if !ok {
		return content
	}
	return &actor.MessageEnvelope{Header: e.Header, Message: content, Sender: e.Sender}
}
