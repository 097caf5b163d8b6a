package remote

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/wire"
)

// A PID of another node works like one of this node: messages to it are sent over the link, and an actor that watches
// it is told of its end, and of the end of its node. Messages are protobuf messages, or values of types registered with
// raysys.Register. They have at most maxMessage bytes.

// Config is the node whose actors these are.
type Config struct {
	Mesh   *mesh.Mesh
	System *actor.ActorSystem
	Log    *zap.Logger
}

// Actors join the actors of this node to those of other nodes.
type Actors struct {
	Config
	watches watches
	bodies  bodies
	lines   lines
}

// New makes the Actors of a node.
func New(c Config) *Actors {
	a := &Actors{Config: c}
	a.lines.a = a
	return a
}

// ServeBody handles KindActorBody.
func (a *Actors) ServeBody(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error {
	return a.bodies.serve(p, r, to)
}

// Down is called when a connection is over.
func (a *Actors) Down(p *mesh.Peer) { a.bodies.down(p) }

// Address is the Address of the PIDs of an incarnation. It ends with :0 because proto.Actor takes the address of a member
// apart into a host and a port.
func Address(k core.NodeKey) string {
	return string(k.Node) + "#" + strconv.FormatUint(k.Incarnation, 10) + ":0"
}

func parseAddress(s string) (core.NodeKey, bool) {
	node, inc, ok := strings.Cut(strings.TrimSuffix(s, ":0"), "#")
	n, err := strconv.ParseUint(inc, 10, 64)
	return core.NodeKey{Node: raysys.NodeID(node), Incarnation: n}, ok && err == nil && node != ""
}

// Resolve returns the process for a PID of another node; protoactor calls it.
func (a *Actors) Resolve(pid *actor.PID) (actor.Process, bool) {
	k, ok := parseAddress(pid.Address)
	if !ok {
		return nil, false
	}
	return process{a, k}, true
}

// process stands for all actors of another node: each call names one by its PID.
type process struct {
	a  *Actors
	to core.NodeKey
}

// SendUserMessage implements actor.Process.
func (p process) SendUserMessage(pid *actor.PID, message any) {
	header, msg, sender := actor.UnwrapEnvelope(message)
	p.send(pid, sender, header, msg, false)
}

// SendSystemMessage implements actor.Process.
func (p process) SendSystemMessage(pid *actor.PID, message any) {
	switch m := message.(type) {
	case *actor.Watch:
		p.a.watches.add(p.to, pid, m.Watcher)
	case *actor.Unwatch:
		p.a.watches.remove(p.to, pid, m.Watcher)
	}
	p.send(pid, nil, nil, message, true)
}

// Stop implements actor.Process.
func (p process) Stop(pid *actor.PID) { p.SendSystemMessage(pid, &actor.Stop{}) }

// send sends a message. Messages are sent in the order of the calls while the connection is up.
func (p process) send(pid, sender *actor.PID, header actor.ReadonlyMessageHeader, msg any, system bool) {
	frame, err := appendActorMessage(nil, pid, sender, msg, system)
	if err == nil && header != nil && header.Length() > 0 {
		for k, v := range header.ToMap() { // at the end, where earlier versions do not look
			frame = wire.AppendBytes(wire.AppendBytes(frame, k), v)
		}
	}
	if err != nil {
		p.refused(pid, sender, msg, err)
		return
	}
	refs.Connect(p.a.Mesh, p.to, func(to *refs.Session, err error) {
		if err == nil {
			err = to.Send(wire.Requests, wire.KindActor, frame)
		}
		if errors.Is(err, raysys.ErrTooLarge) {
			err = p.a.bodies.send(to, frame, func() { p.undelivered(pid, sender, msg) })
		}
		switch {
		case errors.Is(err, raysys.ErrTooLarge): // its header is
			p.refused(pid, sender, msg, err)
		case err != nil:
			p.undelivered(pid, sender, msg)
		}
	})
}

// failer is a process that waits for the answer to a message and can hear why none comes.
type failer interface{ Failed(error) }

// refused is undelivered for a message that no other attempt can deliver. A failer hears why, whether it has sent the message or the
// message was to be its answer.
func (p process) refused(pid, sender *actor.PID, msg any, err error) {
	p.a.Log.Warn("message to an actor of another node cannot be sent", zap.String("pid", pid.String()), zap.Error(err))
	if sender != nil && sender.Address == p.a.System.Address() {
		if f, ok := p.a.local(sender).(failer); ok {
			f.Failed(err)
			return
		}
	}
	p.undelivered(pid, sender, msg)
	refs.Connect(p.a.Mesh, p.to, func(to *refs.Session, down error) {
		if down == nil {
			frame := appendAddressed(nil, pid, nil, 0)
			frame = wire.AppendBytes(append(frame, formFailed), "")
			_ = to.Send(wire.Requests, wire.KindActor, wire.AppendBytes(frame, wire.AppendError(nil, err)))
		}
	})
}

// undelivered tells the sender as protoactor does for local PIDs: a dead letter, and Terminated for a watcher.
func (p process) undelivered(pid, sender *actor.PID, msg any) {
	if w, ok := msg.(*actor.Watch); ok {
		p.a.watches.remove(p.to, pid, w.Watcher)
		p.a.toLocal(w.Watcher, &actor.Terminated{Who: pid, Why: actor.TerminatedReason_AddressTerminated})
		return
	}
	p.a.System.DeadLetter.SendUserMessage(pid, &actor.MessageEnvelope{Message: msg, Sender: sender})
}

func (a *Actors) toLocal(pid *actor.PID, system any) {
	if ref, ok := a.System.ProcessRegistry.GetLocal(pid.Id); ok {
		ref.SendSystemMessage(pid, system)
	}
}

// Forms of a message on the wire. A node of an earlier version drops those that it does not know, with a line in its log.
const (
	formProto byte = iota
	formRegistered
	formHead   // the body has the message's form and a number: the rest is to be asked for
	formFailed // an error: the message to this process could not be sent
)

const flagSystem byte = 1

// addressedSize is about what the rest of a message takes beside its body, its type and whom it is to.
const addressedSize = 96

// appendAddressed appends what a message begins with.
func appendAddressed(dst []byte, to, sender *actor.PID, flags byte) []byte {
	dst = append(dst, flags)
	dst = wire.AppendBytes(dst, to.Id)
	dst = wire.AppendUvarint(dst, uint64(to.RequestId))
	if sender == nil {
		sender = &actor.PID{}
	}
	dst = wire.AppendBytes(wire.AppendBytes(dst, sender.Address), sender.Id)
	return wire.AppendUvarint(dst, uint64(sender.RequestId))
}

// readAddressed is the counterpart of appendAddressed.
func readAddressed(r *wire.Reader) (to, sender *actor.PID, flags byte) {
	flags = r.Byte()
	to = &actor.PID{Id: r.String(), RequestId: r.Uint32()}
	return to, &actor.PID{Address: r.String(), Id: r.String(), RequestId: r.Uint32()}, flags
}

func appendActorMessage(dst []byte, to, sender *actor.PID, msg any, system bool) ([]byte, error) {
	flags := byte(0)
	if system {
		flags = flagSystem
	}
	if m, ok := msg.(proto.Message); ok {
		size, name := proto.Size(m), string(m.ProtoReflect().Descriptor().FullName())
		if size > maxMessage {
			return nil, tooLarge(msg, size)
		}
		dst = slices.Grow(dst, size+len(name)+len(to.Id)+addressedSize)
		dst = wire.AppendBytes(append(appendAddressed(dst, to, sender, flags), formProto), name)
		dst = wire.AppendUvarint(dst, uint64(size))
		from := len(dst)
		dst, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
		if err == nil && len(dst)-from != size {
			err = errors.New("it was changed while it was sent")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %T: %w", raysys.ErrEncode, msg, err)
		}
		return dst, nil
	}
	dst = appendAddressed(dst, to, sender, flags)
	if msg == nil {
		return nil, fmt.Errorf("%w: nil message", raysys.ErrEncode)
	}
	t := reflect.TypeOf(msg)
	name, ok := core.RegisteredName(t)
	if !ok {
		return nil, fmt.Errorf("%w: %s is no protobuf message and not registered: raysys.Register[%s](\"name\")", raysys.ErrEncode, t, t)
	}
	plan, err := codec.PlanOf(t)
	if err != nil {
		return nil, err
	}
	v := reflect.New(t).Elem()
	v.Set(reflect.ValueOf(msg))
	body, err := plan.Append(nil, v, nil)
	if err != nil {
		return nil, err
	}
	dst = wire.AppendBytes(append(dst, formRegistered), name)
	if len(body) > maxMessage {
		return nil, tooLarge(msg, len(body))
	}
	return wire.AppendBytes(dst, body), nil
}

func tooLarge(msg any, size int) error {
	return fmt.Errorf("%w: %T has %d bytes encoded, and a message to another node at most %d: send several", raysys.ErrTooLarge, msg, size, maxMessage)
}

// Receive handles KindActor. A message of an unknown type is dropped with a line in the log: the sender may be a newer
// version.
func (a *Actors) Receive(p *mesh.Peer, frame []byte) error {
	r := wire.NewReader(frame)
	to, sender, flags := readAddressed(&r)
	to.Address = a.System.ProcessRegistry.Address
	form, name, body := r.Byte(), r.String(), r.Bytes()
	var header map[string]string
	for r.Err() == nil && r.Len() > 0 {
		if header == nil {
			header = map[string]string{}
		}
		k := r.String()
		header[k] = r.String()
	}
	if err := r.Err(); err != nil {
		return err
	}
	if sender.Id == "" {
		sender = nil
	}
	m := inbound{to: to, sender: sender, header: header}
	switch form {
	case formHead:
		of := wire.NewReader(body)
		m.form, m.name, m.number = of.Byte(), name, of.Uvarint()
		if err := of.Err(); err != nil {
			return err
		}
		return a.lines.head(p, m)
	case formFailed:
		of := wire.NewReader(body)
		cause := wire.ReadError(&of)
		if f, ok := a.local(to).(failer); ok && of.Err() == nil {
			f.Failed(cause)
		}
		return of.Err()
	}
	var err error
	if m.content, err = readActorMessage(form, name, body); err != nil {
		a.Log.Warn("actor message from another node dropped", zap.Stringer("peer", p.Key()), zap.String("type", name), zap.Error(err))
		return nil
	}
	if flags&flagSystem == 0 {
		if a.lines.count.Load() == 0 || !a.lines.behind(p, m) {
			a.hand(m)
		}
		return nil
	}
	if !whole(m.content) {
		return fmt.Errorf("%w: a %T of node %s names no actor", wire.ErrCorrupt, m.content, p.Node())
	}
	ref, ok := a.System.ProcessRegistry.GetLocal(to.Id)
	switch m := m.content.(type) {
	case *actor.Watch:
		if !ok {
			a.System.Root.Send(m.Watcher, &actor.Terminated{Who: to, Why: actor.TerminatedReason_NotFound})
			return nil
		}
	case *actor.Terminated:
		a.watches.remove(p.Key(), m.Who, to)
	}
	if ok {
		ref.SendSystemMessage(to, m.content)
	}
	return nil
}

// whole reports whether a system message names the actor that proto.Actor uses without a look.
func whole(system any) bool {
	switch m := system.(type) {
	case *actor.Watch:
		return m.Watcher != nil
	case *actor.Unwatch:
		return m.Watcher != nil
	case *actor.Terminated:
		return m.Who != nil
	}
	return true
}

// local is the process with a PID of this node: the dead letter process when there is no such actor.
func (a *Actors) local(pid *actor.PID) actor.Process {
	ref, _ := a.System.ProcessRegistry.GetLocal(pid.Id)
	return ref
}

// hand hands a message of another node to its actor.
func (a *Actors) hand(m inbound) {
	msg := m.content
	if m.sender != nil || len(m.header) > 0 {
		msg = &actor.MessageEnvelope{Header: m.header, Message: msg, Sender: m.sender}
	}
	a.local(m.to).SendUserMessage(m.to, msg)
}

func readActorMessage(form byte, name string, body []byte) (any, error) {
	switch form {
	case formProto:
		t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
		if err != nil {
			return nil, err
		}
		m := t.New().Interface()
		return m, proto.Unmarshal(body, m)
	case formRegistered:
		t, ok := core.RegisteredType(name)
		if !ok {
			return nil, fmt.Errorf("type %q is not registered here", name)
		}
		plan, err := codec.PlanOf(t)
		if err != nil {
			return nil, err
		}
		v := reflect.New(t).Elem()
		if err := plan.Decode(body, v, nil); err != nil {
			return nil, err
		}
		return v.Interface(), nil
	}
	return nil, fmt.Errorf("form %d is unknown here", form)
}

// watches are the actors of other nodes that actors here watch. Their watchers are told when the whole node is gone.
type watches struct {
	mu sync.Mutex // guards m
	m  map[core.NodeKey]map[watchPair]bool
}

type watchPair struct{ watched, watcher string }

func (w *watches) add(k core.NodeKey, watched, watcher *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[core.NodeKey]map[watchPair]bool{}
	}
	if w.m[k] == nil {
		w.m[k] = map[watchPair]bool{}
	}
	w.m[k][watchPair{watched.Id, watcher.Id}] = true
}

func (w *watches) remove(k core.NodeKey, watched, watcher *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m[k], watchPair{watched.Id, watcher.Id})
	if len(w.m[k]) == 0 {
		delete(w.m, k)
	}
}

// Gone tells the watchers of all actors of a dead incarnation that these have ended.
func (a *Actors) Gone(k core.NodeKey) {
	a.watches.mu.Lock()
	pairs := a.watches.m[k]
	delete(a.watches.m, k)
	a.watches.mu.Unlock()
	for p := range pairs {
		who := &actor.PID{Address: Address(k), Id: p.watched}
		a.toLocal(&actor.PID{Id: p.watcher}, &actor.Terminated{Who: who, Why: actor.TerminatedReason_AddressTerminated})
	}
}
