package protoactor

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

// Topics of proto.Actor's pub-sub are actors of a kind of their own.
var _ = Kinds(cluster.NewKind(cluster.TopicActorKind, actor.PropsFromProducer(func() actor.Actor { return &topic{} })))

// topic is proto.Actor's, which keeps its subscribers in a State.
type topic struct {
	*cluster.TopicActor
	subscribers *Saved[cluster.Subscribers]
}

// Receive implements actor.Actor.
func (t *topic) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
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
		return func(c actor.ReceiverContext, m *actor.MessageEnvelope) { next(c, unpacked(m).(*actor.MessageEnvelope)) }
	}))
	if _, err := n.system().Root.SpawnNamed(props, cluster.PubSubDeliveryName); err != nil {
		return fmt.Errorf("start pub-sub: %w", err)
	}
	return nil
}

// packing is the address resolver for actors of other nodes. Some messages of proto.Actor, those of pub-sub among them, become
// protobuf messages only when they leave the process.
func packing(resolvers []actor.AddressResolver) actor.AddressResolver {
	return func(pid *actor.PID) (actor.Process, bool) {
		for _, resolve := range resolvers {
			if p, ok := resolve(pid); ok {
				return packed{p}, true
			}
		}
		return nil, false
	}
}

type packed struct{ actor.Process }

// SendUserMessage implements actor.Process.
func (p packed) SendUserMessage(pid *actor.PID, message any) {
	if m, ok := actor.UnwrapEnvelopeMessage(message).(remote.RootSerializable); ok {
		if out, err := m.Serialize(); err == nil { // else the link says in the log that it cannot send such a message
			message = with(message, out)
		}
	}
	p.Process.SendUserMessage(pid, message)
}

// unpacked turns what packed sent back into the message.
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
