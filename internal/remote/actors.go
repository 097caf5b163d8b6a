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
func (a *Actors) Down(p *mesh.Peer) {
	a.bodies.down(p)
	a.lines.down(p)
}

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

// send sends a message. Messages are sent in the order of the calls.
func (p process) send(pid, sender *actor.PID, header actor.ReadonlyMessageHeader, msg any, system bool) {
	frame, err := appendActorMessage(nil, pid, sender, msg, system)
	if err == nil && header != nil && header.Length() > 0 {
		for k, v := range header.ToMap() { // at the end, where earlier versions do not look
			frame = wire.AppendBytes(wire.AppendBytes(frame, k), v)
		}
	}
	if err != nil {
		p.refused(pid, sender, msg, err, false)
		return
	}
	to, now, err := p.a.Mesh.ConnectedOr(p.to, func(to *mesh.Peer, err error) { p.sendOver(to, err, pid, sender, msg, frame, true) })
	if now {
		p.sendOver(to, err, pid, sender, msg, frame, false)
	}
}

// sendOver sends a message over a connection, unless there is none because of err. later says that the caller must not block.
func (p process) sendOver(to *mesh.Peer, err error, pid, sender *actor.PID, msg any, frame []byte, later bool) {
	if err == nil {
		err = to.Send(wire.Requests, wire.KindActor, frame)
	}
	if errors.Is(err, raysys.ErrTooLarge) {
		err = p.a.bodies.send(to, frame, func() { p.undelivered(pid, sender, msg, true) })
	}
	switch {
	case errors.Is(err, raysys.ErrTooLarge), errors.Is(err, raysys.ErrOverloaded): // its header is too large, or too much waits here
		p.refused(pid, sender, msg, err, later)
	case err != nil:
		p.undelivered(pid, sender, msg, later)
	}
}

// failer is a process that waits for the answer to a message and can hear why none comes. Failed must not block.
type failer interface{ Failed(error) }

// refused is undelivered for a message that no other attempt can deliver. A failer hears why, whether it has sent the message or the
// message was to be its answer.
func (p process) refused(pid, sender *actor.PID, msg any, err error, later bool) {
	if !errors.Is(err, raysys.ErrOverloaded) { // of which there may be many
		p.a.Log.Warn("message to an actor of another node cannot be sent", zap.String("pid", pid.String()), zap.Error(err))
	}
	if sender != nil && sender.Address == p.a.System.Address() {
		if f, ok := p.a.local(sender).(failer); ok {
			f.Failed(err)
			return
		}
	}
	p.undelivered(pid, sender, msg, later)
	p.a.sendFailed(p.to, pid, "", err)
}

// undelivered tells the sender as protoactor does for local PIDs: a dead letter, and Terminated for a watcher.
func (p process) undelivered(pid, sender *actor.PID, msg any, later bool) {
	m := inbound{to: pid, sender: sender, content: msg, dead: true}
	if w, ok := msg.(*actor.Watch); ok {
		p.a.watches.remove(p.to, pid, w.Watcher)
		m = inbound{to: w.Watcher, content: &actor.Terminated{Who: pid, Why: actor.TerminatedReason_AddressTerminated}, system: true}
	}
	if later {
		p.a.lines.enter(p.to, m, true)
		return
	}
	p.a.hand(&m)
}

// ofSender in a frame of formFailed says that the process has sent what could not be delivered, and does not wait for an answer alone.
const ofSender = "sender"

// sendFailed tells a process of another node why a message is not delivered.
func (a *Actors) sendFailed(to core.NodeKey, pid *actor.PID, whose string, cause error) {
	a.Mesh.Connect(to, func(to *mesh.Peer, down error) {
		if down == nil {
			frame := appendAddressed(nil, pid, nil, 0)
			frame = wire.AppendBytes(append(frame, formFailed), whose)
			_ = to.Send(wire.Requests, wire.KindActor, wire.AppendBytes(frame, wire.AppendError(nil, cause)))
		}
	})
}

// failed tells a process of this node why a message is not delivered. A sender that cannot hear why gets what the sender of a dead
// letter gets.
func (a *Actors) failed(p *mesh.Peer, pid *actor.PID, whose string, cause error) {
	if f, ok := a.local(pid).(failer); ok {
		f.Failed(cause)
	} else if whose == ofSender {
		a.lines.enter(p.Key(), inbound{to: pid, content: &actor.DeadLetterResponse{}, peer: p}, true)
	}
}

// overloaded refuses a message of another node that has no room in its line.
func (a *Actors) overloaded(m inbound, waits load, first bool) {
	err := fmt.Errorf("%w: %d messages of node %s, of %d bytes, wait for the actor %s, which has no room for them",
		raysys.ErrOverloaded, waits.messages, m.peer.Node(), waits.bytes, m.to.Id)
	if first {
		a.Log.Warn("messages of another node to an actor are refused", zap.Stringer("peer", m.peer.Key()), zap.String("pid", m.to.String()), zap.Error(err))
	}
	if m.sender == nil {
		return
	}
	if m.sender.Address == a.System.Address() {
		a.failed(m.peer, m.sender, ofSender, err)
	} else if k, ok := parseAddress(m.sender.Address); ok {
		a.sendFailed(k, m.sender, ofSender, err)
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
	m := inbound{to: to, sender: sender, header: header, system: flags&flagSystem != 0, peer: p, size: len(frame)}
	switch form {
	case formHead:
		of := wire.NewReader(body)
		m.form, m.name, m.number = of.Byte(), name, of.Uvarint()
		if err := of.Err(); err != nil {
			return err
		}
		return a.lines.head(m)
	case formFailed:
		of := wire.NewReader(body)
		cause := wire.ReadError(&of)
		if of.Err() == nil {
			a.failed(p, to, name, cause)
		}
		return of.Err()
	}
	if form == formRegistered && foreign(name) {
		m.form, m.name, m.body = form, name, slices.Clone(body)
		a.lines.enter(p.Key(), m, true)
		return nil
	}
	var err error
	if m.content, err = readActorMessage(form, name, body); err != nil {
		a.Log.Warn("actor message from another node dropped", zap.Stringer("peer", p.Key()), zap.String("type", name), zap.Error(err))
		return nil
	}
	if m.system {
		if !whole(m.content) {
			return fmt.Errorf("%w: a %T of node %s names no actor", wire.ErrCorrupt, m.content, p.Node())
		}
		switch of := m.content.(type) {
		case *actor.Watch:
			if _, ok := a.System.ProcessRegistry.GetLocal(to.Id); !ok {
				a.System.Root.Send(of.Watcher, &actor.Terminated{Who: to, Why: actor.TerminatedReason_NotFound})
				return nil
			}
		case *actor.Terminated:
			a.watches.remove(p.Key(), of.Who, to)
		}
	}
	if a.lines.count.Load() != 0 && a.lines.behind(m) {
		return nil
	}
	if !offer(a.local(to), to, m.message(), m.system) {
		a.lines.enter(p.Key(), m, true)
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

// message is what the process gets.
func (m *inbound) message() any {
	if m.sender != nil || len(m.header) > 0 {
		return &actor.MessageEnvelope{Header: m.header, Message: m.content, Sender: m.sender}
	}
	return m.content
}

// hand hands a message to its process. It may block.
func (a *Actors) hand(m *inbound) {
	switch ref, ok := a.System.ProcessRegistry.GetLocal(m.to.Id); {
	case m.dead:
		if m.content != nil {
			a.System.DeadLetter.SendUserMessage(m.to, &actor.MessageEnvelope{Message: m.content, Sender: m.sender})
		}
	case !m.system:
		ref.SendUserMessage(m.to, m.message())
	case ok:
		ref.SendSystemMessage(m.to, m.content)
	}
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
		m := inbound{to: &actor.PID{Id: p.watcher}, content: &actor.Terminated{Who: who, Why: actor.TerminatedReason_AddressTerminated}, system: true}
		a.lines.enter(k, m, true)
	}
}
