package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/clusterproviders/consul"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/tools/internal/figures"
)

const (
	consulAddress = "CONSUL_HTTP_ADDR" // Consul's own variable

	name       = "benchproto"     // of both clusters
	kind       = "echo"           // of the actors
	lease      = 10 * time.Second // raysys's default
	serviceTTL = 3 * time.Second  // the default of proto.Actor's provider
)

// cell is the grain.
type cell struct{}

func (*cell) Echo(_ context.Context, b []byte) ([]byte, error) { return b, nil }

var (
	cells = grains.Define[cell]("cell")
	echo  = grains.Method(cells, "echo", (*cell).Echo)

	props = actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *wrapperspb.BytesValue:
			c.Respond(m)
		case *wrapperspb.StringValue:
			c.Respond(wrapperspb.String(strconv.Itoa(os.Getpid())))
		}
	})
	_ = protoactor.Kinds(cluster.NewKind(kind, props))
)

// process is one that hosts actors.
type process struct {
	cmd     *exec.Cmd
	pid     string
	address string // of its proto.Actor remote, or of serve
	end     func() // holds its input, which ends with this process
}

// launch starts a process that hosts the actors of a side.
func launch(side string) (*process, error) {
	cmd := figures.Child(side)
	address, end, err := figures.Launch(cmd)
	if err != nil {
		return nil, err
	}
	return &process{cmd, strconv.Itoa(cmd.Process.Pid), address, end}, nil
}

// host is a process that launch started.
func host(ctx context.Context, args []string) error {
	var address string
	if args[0] == "raysys" {
		if _, err := join(ctx, system.Worker, "worker-"+strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go serve(l)
		address = l.Addr().String()
	} else {
		c, err := newCluster(cluster.WithKinds(cluster.NewKind(kind, props)))
		if err != nil {
			return err
		}
		c.StartMember()
		for i := range callers {
			if _, err := c.ActorSystem.Root.SpawnNamed(props, id(i)); err != nil {
				return err
			}
		}
		address = c.ActorSystem.Address()
	}
	return figures.Wait(address)
}

// serve is the raw end of connections: what comes from one goes back.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			b := make([]byte, size)
			for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		}()
	}
}

// id is the identity of a caller's actor.
func id(caller int) string { return "actor-" + strconv.Itoa(caller) }

func join(ctx context.Context, role system.Role, as string) (*system.Node, error) {
	n, err := system.New(system.Config{
		Name: raysys.NodeID(as), Cluster: &system.ClusterConfig{Name: name, Consul: os.Getenv(consulAddress), Role: role, TTL: lease},
	})
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// side is one of the two clusters, seen by this process.
type side struct {
	name    string
	ctx     context.Context // of the raysys node
	cluster *cluster.Cluster
	hosts   map[string]*process // by pid
	address string              // of the first one
}

func newSide(ctx context.Context, name string) (*side, error) {
	p, err := launch(name)
	if err != nil {
		return nil, err
	}
	s := &side{name: name, hosts: map[string]*process{p.pid: p}, address: p.address}
	if name == "raysys" {
		n, err := join(ctx, system.Driver, "driver")
		if err != nil {
			return nil, err
		}
		s.ctx = n.Context(ctx)
		s.cluster = protoactor.Cluster(s.ctx)
		return s, nil
	}
	if s.cluster, err = newCluster(); err == nil {
		s.cluster.StartClient()
	}
	return s, err
}

func (s *side) end() {
	for _, p := range s.hosts {
		_ = p.cmd.Process.Kill()
	}
}

// newCluster makes a stock cluster with the defaults of everything but its log, and the queue to a peer, which else takes 16 MB.
func newCluster(opts ...cluster.ConfigOption) (*cluster.Cluster, error) {
	provider, err := consul.New(consul.WithTTL(serviceTTL))
	if err != nil {
		return nil, err
	}
	s := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	return cluster.New(s, cluster.Configure(name, provider, disthash.New(), remote.Configure("127.0.0.1", 0, remote.WithEndpointWriterQueueSize(4096)), opts...)), nil
}

// contenders are the ways to ask, stock proto.Actor's cluster last.
func contenders(ray, stock *side) ([]*contender, error) {
	arg := bytes.Repeat([]byte{7}, size)
	m := wrapperspb.Bytes(arg)
	kinds := func(s *side) func(int) error {
		return func(i int) error { return answered(s.cluster.Request(id(i), kind, m)) }
	}
	var pids []*actor.PID
	var conns []net.Conn
	for i := range callers {
		c, err := net.Dial("tcp", ray.address)
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
		pids = append(pids, actor.NewPID(stock.address, id(i)))
	}
	return []*contender{
		{name: "raw TCP, a connection for each caller", ask: func(i int) error {
			b := make([]byte, size)
			if _, err := conns[i].Write(arg); err != nil {
				return err
			}
			_, err := io.ReadFull(conns[i], b)
			return err
		}},
		{name: "raysys grains", ask: func(i int) error { return checked(echo.Call(ray.ctx, cells.Get(id(i)), arg).Get(ray.ctx)) }},
		{name: "proto.Actor kinds on raysys", ask: kinds(ray)},
		{name: "stock proto.Actor remote", ask: func(i int) error {
			return answered(stock.cluster.ActorSystem.Root.RequestFuture(pids[i], m, stock.cluster.Config.RequestTimeoutTime).Result())
		}},
		{name: "stock proto.Actor cluster", ask: kinds(stock)},
	}, nil
}

func answered(v any, err error) error {
	m, _ := v.(*wrapperspb.BytesValue)
	return checked(m.GetValue(), err)
}

func checked(b []byte, err error) error {
	if err == nil && len(b) != size {
		err = fmt.Errorf("an answer of %d bytes, not %d", len(b), size)
	}
	return err
}

// failover kills the process of an actor, each time after another has joined, and returns the seconds until it has answered from there.
func (s *side) failover() (list []float64, err error) {
	for range *failovers {
		p, err := launch(s.name)
		if err != nil {
			return nil, err
		}
		s.hosts[p.pid] = p
		if err := until(s.settled); err != nil {
			return nil, err
		}
		at, err := s.where()
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := s.hosts[at].cmd.Process.Kill(); err != nil {
			return nil, err
		}
		delete(s.hosts, at)
		for now := at; now == at; {
			if pid, err := s.where(); err == nil {
				now = pid
			} else if time.Since(begin) > patience {
				return nil, err
			}
		}
		list = append(list, time.Since(begin).Seconds())
	}
	return list, nil
}

// where returns the pid of the process that has the actor.
func (s *side) where() (string, error) {
	v, err := s.cluster.Request("moved", kind, wrapperspb.String("where"))
	if m, ok := v.(*wrapperspb.StringValue); ok && err == nil {
		return m.Value, nil
	}
	return "", fmt.Errorf("%s: ask where an actor is: %v: %w", s.name, v, err)
}

// settled says whether the processes that live are the members that can host actors.
func (s *side) settled() error {
	n := 0
	for _, m := range s.cluster.MemberList.Members().Members() {
		n += min(1, len(m.Kinds))
	}
	if n != len(s.hosts) {
		return fmt.Errorf("%s: %d members that can host actors, not %d", s.name, n, len(s.hosts))
	}
	return nil
}
