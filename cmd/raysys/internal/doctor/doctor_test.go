package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/doctor"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a world that is well; cases make it ill.
type patient struct {
	agent     doctor.Agent
	agentErr  error
	writeErr  error
	anyoneErr error
	address   string // of Consul
	status    client.Status
	statusErr error
	links     []doctor.Link
	linksErr  error
	unreached map[string]error
	limits    doctor.Limits
	limitsErr error
	certs     doctor.Certificates
	certsErr  error
	now       time.Time
	version   string
	token     bool
	nats      string // RAYSYS_NATS
	stored    string
	storedErr error
	greetings map[string]doctor.Greeting

	streams    inspect.Streams
	streamsErr error
	outboxes   inspect.Grains
	outboxErr  error
}

func (p *patient) Agent(context.Context) (doctor.Agent, error)  { return p.agent, p.agentErr }
func (p *patient) TryWrite(context.Context) error               { return p.writeErr }
func (p *patient) TryWriteAsAnyone(context.Context) error       { return p.anyoneErr }
func (p *patient) Links(context.Context) ([]doctor.Link, error) { return p.links, p.linksErr }
func (p *patient) dial(_ context.Context, address string) error { return p.unreached[address] }
func (p *patient) ask(context.Context) (client.Status, error)   { return p.status, p.statusErr }
func (p *patient) greet(_ context.Context, address string) (doctor.Greeting, error) {
	return p.greetings[address], p.unreached[address]
}

func (p *patient) doctor() *doctor.Doctor {
	return &doctor.Doctor{
		Address: p.address, Consul: p, Status: p.ask, Mesh: p, Dial: p.dial,
		Outboxes:     func(context.Context) (inspect.Grains, error) { return p.outboxes, p.outboxErr },
		Streams:      func(context.Context) (inspect.Streams, error) { return p.streams, p.streamsErr },
		Certificates: func() (doctor.Certificates, error) { return p.certs, p.certsErr },
		Limits:       func() (doctor.Limits, error) { return p.limits, p.limitsErr },
		Now:          func() time.Time { return p.now }, Version: p.version, Token: p.token,
		Greet: p.greet, NATS: p.nats, StoredNATS: func(context.Context) (string, error) { return p.stored, p.storedErr },
	}
}

func well() *patient {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	node := func(name string) client.Node {
		return client.Node{Name: raysys.NodeID(name), State: inspect.NodeActive, Address: name + ":7400", Version: "v1", TTL: 10 * time.Second}
	}
	a, b := node("a"), node("b")
	a.Electors, b.Electors = []raysys.NodeID{"b"}, []raysys.NodeID{"a"}
	return &patient{
		address: "127.0.0.1:8500", token: true, anyoneErr: store.ErrDenied,
		agent:   doctor.Agent{Version: "1.20.6", Leader: "10.0.0.1:8300", ConnsPerClient: 200, Time: now, Heard: now, TookHalf: time.Millisecond},
		status:  client.Status{Nodes: []client.Node{a, b}, Shards: []client.Shard{{Shard: 0, Node: "a"}, {Shard: 1, Node: "b"}}},
		links:   []doctor.Link{{From: "a", To: "b"}, {From: "b", To: "a"}},
		limits:  doctor.Limits{Files: 65536},
		certs:   doctor.Certificates{Own: now.AddDate(0, 0, 90), CA: now.AddDate(0, 0, 900)},
		now:     now,
		version: "v1",
		stored:  "nats://a:1, nats://secret@b:2",
		streams: inspect.Streams{Parts: []inspect.StreamPart{{Stream: "orders", To: "account", Copies: 3, Wanted: 3}, {Stream: "orders", To: "account", Part: 1}}},
		greetings: map[string]doctor.Greeting{
			"a:1": {Version: "2.15.2", JetStream: true}, "b:2": {Version: "2.15.2", JetStream: true}, "c:4222": {Version: "2.14.0", JetStream: true, TLS: true},
		},
	}
}

func TestWell(t *testing.T) {
	got := well().doctor().Examine(t.Context())
	want := []doctor.Finding{
		{Check: "consul", Level: doctor.OK, Detail: "127.0.0.1:8500 answers (version 1.20.6, leader 10.0.0.1:8300)"},
		{Check: "acl", Level: doctor.OK, Detail: "a session can hold a key"},
		{Check: "connections", Level: doctor.OK, Detail: "the agent takes 200 of one address"},
		{Check: "clock", Level: doctor.OK, Detail: "the same as the agent's"},
		{Check: "limits", Level: doctor.OK, Detail: "65536 open files"},
		{Check: "certificates", Level: doctor.OK, Detail: "the certificate is good for 90 days, its CA for 900"},
		{Check: "cluster", Level: doctor.OK, Detail: "2 nodes, 2 shards"},
		{Check: "ports out", Level: doctor.OK, Detail: "from here all 2 nodes can be reached"},
		{Check: "ports between", Level: doctor.OK, Detail: "all 2 ways between nodes are open"},
		{Check: "electors", Level: doctor.OK, Detail: "each worker has electors that live"},
		{Check: "version", Level: doctor.OK, Detail: "all run v1"},
		{Check: "nats", Level: doctor.OK, Detail: "2 of 2 servers of the cluster's key nats answer (version 2.15.2, 2 with JetStream)"},
		{Check: "streams", Level: doctor.OK, Detail: "1 subscription, and no stream has fewer copies than it should"},
		{Check: "outboxes", Level: doctor.OK, Detail: "what durable grains tell others arrives"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if bad := doctor.Worst(got); bad != nil {
		t.Errorf("failed: %v", bad)
	}
}

// Each illness shows in its own check, with a fix in one line, and skips only what stands on it.
func TestIll(t *testing.T) {
	broken := errors.New("it broke")
	for name, c := range map[string]struct {
		harm    func(*patient)
		check   string
		level   doctor.Level
		detail  string // part of it
		fix     string // part of it
		skipped int
	}{
		"no consul":    {func(p *patient) { p.agentErr = broken }, "consul", doctor.Failed, "127.0.0.1:8500 does not answer: it broke", "--consul", 11},
		"no leader":    {func(p *patient) { p.agent.Leader = "" }, "consul", doctor.Failed, "its servers have no leader", "raft list-peers", 9},
		"dying leader": {func(p *patient) { p.writeErr = store.ErrUnavailable }, "acl", doctor.Failed, "hold a key: ", "raft list-peers", 0},
		"no store":     {func(p *patient) { p.statusErr = fmt.Errorf("%w: %w", client.ErrUnreachable, store.ErrUnavailable) }, "cluster", doctor.Failed, "unreachable", "raft list-peers", 6},
		"denied":       {func(p *patient) { p.writeErr = broken }, "acl", doctor.Failed, "hold a key: it broke", "CONSUL_HTTP_TOKEN", 0},
		"no token":     {func(p *patient) { p.writeErr, p.token = store.ErrDenied, false }, "acl", doctor.Failed, "hold a key: needs a token, and there is none", "CONSUL_HTTP_TOKEN", 0},
		"on the agent": {func(p *patient) { p.writeErr = fmt.Errorf("%w: %w", doctor.ErrOnAgent, store.ErrDenied) }, "acl", doctor.Warning, "no catalog node of its own", "leave_on_terminate = false", 0},
		"namespace": {func(p *patient) {
			p.writeErr = errors.New(`status 400: Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature`)
		}, "acl", doctor.Failed, "Enterprise", "unset CONSUL_NAMESPACE", 0},
		"weak token":      {func(p *patient) { p.writeErr, p.token = store.ErrDenied, true }, "acl", doctor.Failed, "hold a key: the token allows too little", "CONSUL_HTTP_TOKEN", 0},
		"all denied":      {func(p *patient) { p.agentErr, p.token = store.ErrDenied, false }, "consul", doctor.Failed, "127.0.0.1:8500 answers: needs a token, and there is none", "CONSUL_HTTP_TOKEN", 11},
		"no ACL":          {func(p *patient) { p.anyoneErr = nil }, "acl", doctor.Warning, "and needs no token for that", "default_policy deny", 0},
		"no ACL, alone":   {func(p *patient) { p.token = false }, "acl", doctor.Warning, "and needs no token for that", "default_policy deny", 0},
		"plain http":      {func(p *patient) { p.address = "http://10.0.0.5:8500" }, "consul", doctor.Warning, "the way there is plain http", "https address", 0},
		"plain address":   {func(p *patient) { p.address = "consul.example:8500" }, "consul", doctor.Warning, "the way there is plain http", "https address", 0},
		"few conns":       {func(p *patient) { p.agent.ConnsPerClient = 20 }, "connections", doctor.Warning, "takes 20 connections", "http_max_conns_per_client", 0},
		"unknown conns":   {func(p *patient) { p.agent.ConnsPerClient = 0 }, "connections", doctor.Warning, "does not tell", "agent:read", 0},
		"late clock":      {func(p *patient) { p.agent.Heard = p.now.Add(-10 * time.Second) }, "clock", doctor.Warning, "11s from", "set-ntp", 0},
		"wrong clock":     {func(p *patient) { p.agent.Heard = p.now.Add(2 * time.Minute) }, "clock", doctor.Failed, "1m59s from", "certificates", 0},
		"no clock":        {func(p *patient) { p.agent.Time = time.Time{} }, "clock", doctor.Warning, "does not tell the time", "date", 0},
		"few files":       {func(p *patient) { p.limits.Files = 1024 }, "limits", doctor.Warning, "1024 open files", "ulimit -n 65536", 0},
		"no files":        {func(p *patient) { p.limits.Files = 256 }, "limits", doctor.Failed, "256 open files", "ulimit -n 65536", 0},
		"unknown files":   {func(p *patient) { p.limitsErr = broken }, "limits", doctor.Warning, "it broke", "ulimit", 0},
		"old certificate": {func(p *patient) { p.certs.Own = p.now.AddDate(0, 0, 29) }, "certificates", doctor.Warning, "the certificate is good for 29 days", "the same files", 0},
		"old CA":          {func(p *patient) { p.certs.CA = p.now.AddDate(0, 0, 29) }, "certificates", doctor.Warning, "its CA for 29", "add a new CA", 0},
		"expired":         {func(p *patient) { p.certs.Own = p.now }, "certificates", doctor.Failed, "good for 0 days", "the same files", 0},
		"expired CA":      {func(p *patient) { p.certs.CA = p.now.AddDate(0, 0, -1) }, "certificates", doctor.Failed, "its CA for 0", "add a new CA", 0},
		"bad certificate": {func(p *patient) { p.certsErr = broken }, "certificates", doctor.Failed, "it broke", "the same files", 0},
		"no cluster":      {func(p *patient) { p.statusErr = broken }, "cluster", doctor.Failed, "it broke", "raysys node", 6},
		"no node":         {func(p *patient) { p.status = client.Status{} }, "cluster", doctor.Warning, "no node has joined", "raysys node", 0},
		"leaderless":      {func(p *patient) { p.status.Shards[1].Node = "" }, "cluster", doctor.Failed, "1 of them without a leader", "lease", 0},
		"suspect":         {func(p *patient) { p.status.Nodes[1].State = inspect.NodeSuspect }, "cluster", doctor.Warning, "b is suspect", "look at", 0},
		"closed port":     {func(p *patient) { p.unreached = map[string]error{"b:7400": broken} }, "ports out", doctor.Failed, "1 of 2 nodes cannot be reached: b: it broke", "firewall", 0},
		"one way":         {func(p *patient) { p.links[1].Error = "timeout" }, "ports between", doctor.Failed, "1 of 2 ways are broken: b to a: timeout", "open the port", 0},
		"nobody answers":  {func(p *patient) { p.linksErr = broken }, "ports between", doctor.Warning, "it broke", "host", 0},
		"other leases":    {func(p *patient) { p.status.Nodes[1].TTL = time.Minute }, "electors", doctor.Warning, "10s on a; 1m0s on b", "the same RAYSYS_TTL", 0},
		"no electors":     {func(p *patient) { p.status.Nodes[1].Electors = []raysys.NodeID{"a", "y", "z"} }, "electors", doctor.Warning, "b has 1 of 3", "ports between", 0},
		"an old program":  {func(p *patient) { p.status.Nodes[1].Electors, p.status.Nodes[1].TTL = nil, 0 }, "electors", doctor.OK, "", "", 0},
		"mixed":           {func(p *patient) { p.status.Nodes[1].Version = "v2" }, "version", doctor.Warning, "v1 on a; v2 on b", "upgrade", 0},
		"other command":   {func(p *patient) { p.version = "v3" }, "version", doctor.Warning, "the nodes run v1, this command is v3", "the nodes' version", 0},
		"no NATS":         {func(p *patient) { p.stored = "" }, "nats", doctor.OK, "streams have no NATS server", "", 0},
		"memory":          {func(p *patient) { p.nats = "memory:" }, "nats", doctor.OK, "RAYSYS_NATS is memory:", "", 0},
		"TLS":             {func(p *patient) { p.nats = "c,tls://d:3" }, "nats", doctor.OK, "2 of 2 servers of RAYSYS_NATS answer; behind TLS, not looked at: c:4222, d:3", "", 0},
		"odd key":         {func(p *patient) { p.storedErr = broken }, "nats", doctor.Failed, "it broke", "consul kv get", 0},
		"few copies":      {func(p *patient) { p.streams.Parts[0].Copies = 1 }, "streams", doctor.Warning, "orders of - has 1 of 3 copies", "the servers that are away", 0},
		"late messages": {func(p *patient) {
			p.outboxes = inspect.Grains{Count: 7, Grains: []inspect.Grain{{Kind: "a", Key: "b\x1b", Outbox: 3000, OutboxAge: 90 * time.Second, Receivers: []inspect.Receiver{{To: "led/x"}}}}}
		}, "outboxes", doctor.Warning, "messages of 7 durable grains do not arrive: a/b\\x1b has 3000 messages, the oldest for 1m30s, most to led/x", "raysys get", 0},
		"no outboxes":    {func(p *patient) { p.outboxErr = broken }, "outboxes", doctor.Warning, "it broke", "see cluster", 0},
		"no streams":     {func(p *patient) { p.streamsErr = broken }, "streams", doctor.Warning, "it broke", "see cluster", 0},
		"odd URL":        {func(p *patient) { p.nats = "a:1,nats://secret@" }, "nats", doctor.Failed, "RAYSYS_NATS: a URL names no host", "nats://HOST:PORT", 0},
		"NATS half down": {func(p *patient) { p.unreached = map[string]error{"b:2": broken} }, "nats", doctor.Warning, "1 of 2 servers of the cluster's key nats answer (version 2.15.2, 1 with JetStream); not reached: b:2: it broke", "firewall", 0},
		"NATS down":      {func(p *patient) { p.nats, p.unreached = "b:2", map[string]error{"b:2": broken} }, "nats", doctor.Failed, "0 of 1 servers of RAYSYS_NATS answer; not reached", "mend RAYSYS_NATS", 0},
		"no JetStream":   {func(p *patient) { p.greetings = map[string]doctor.Greeting{} }, "nats", doctor.Failed, "JetStream is off: a:1, b:2", "jetstream {}", 0},
		"some JetStream": {func(p *patient) { delete(p.greetings, "b:2") }, "nats", doctor.Warning, "1 with JetStream); JetStream is off: b:2", "-js", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := well()
			c.harm(p)
			skipped := 0
			for _, f := range p.doctor().Examine(t.Context()) {
				switch {
				case f.Check == c.check:
					if f.Level != c.level || !strings.Contains(f.Detail, c.detail) || !strings.Contains(f.Fix, c.fix) {
						t.Errorf("got %+v, want %s, %q, fix %q", f, c.level, c.detail, c.fix)
					}
				case f.Level == doctor.Skipped:
					skipped++
				case f.Level != doctor.OK && name != "no node":
					t.Errorf("%s is ill too: %+v", f.Check, f)
				}
				if (f.Fix == "") != (f.Level == doctor.OK) || strings.Contains(f.Fix, "\n") {
					t.Errorf("%s: the fix is %q", f.Check, f.Fix)
				}
			}
			if skipped != c.skipped {
				t.Errorf("%d checks were skipped, want %d", skipped, c.skipped)
			}
		})
	}
}

// A host that swallows packets costs its own time only, and not more connections than a few are tried at once.
func TestDialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := well()
		p.status.Nodes = nil
		for i := range 100 {
			p.status.Nodes = append(p.status.Nodes, client.Node{Name: raysys.NodeID(fmt.Sprint(i)), Version: "v1"})
		}
		d := p.doctor()
		var now, most atomic.Int32
		d.Dial = func(ctx context.Context, _ string) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		start := time.Now()
		findings := d.Examine(t.Context())
		if f := findings[7]; f.Level != doctor.Failed || !strings.Contains(f.Detail, "100 of 100 nodes") || !strings.HasSuffix(f.Detail, "and 95 more") {
			t.Errorf("got %+v", f)
		}
		if took := time.Since(start); took != 21*time.Second || most.Load() != 16 { // ceil(100/16) times 3 s
			t.Errorf("it took %v with %d at once", took, most.Load())
		}
	})
}

func TestNoTimeLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range well().doctor().Examine(ctx) {
		if f.Level != doctor.Skipped || !strings.Contains(f.Fix, "--timeout") {
			t.Errorf("got %+v", f)
		}
	}
}

// TestNATSWithoutConsul: servers that the environment names need no Consul.
func TestNATSWithoutConsul(t *testing.T) {
	p := well()
	p.agentErr, p.nats = errors.New("it broke"), "a:1"
	all := p.doctor().Examine(t.Context())
	if f := all[len(all)-3]; f.Check != "nats" || f.Level != doctor.OK {
		t.Errorf("got %+v", f)
	}
}

func TestGreet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	says := make(chan string, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for s := range says {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(s))
			if s == "" {
				_, _ = c.Read(make([]byte, 1)) // until the other side gives up
			}
			c.Close()
		}
	}()
	defer func() { close(says); <-over }()
	says <- `INFO {"version":"2.15.2","jetstream":true,"tls_required":true,"port":4222}` + "\r\n"
	got, err := doctor.Greet(t.Context(), l.Addr().String())
	if want := (doctor.Greeting{Version: "2.15.2", JetStream: true, TLS: true}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, odd := range []string{"HTTP/1.1 400 Bad Request\r\n", "INFO {\r\n", "INFO"} {
		says <- odd
		if got, err := doctor.Greet(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "no NATS server") {
			t.Errorf("%q: %+v, %v", odd, got, err)
		}
	}
	says <- ""
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got, err := doctor.Greet(ctx, l.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that says nothing: %+v, %v", got, err)
	}
}

func TestTableAndJSON(t *testing.T) {
	findings := []doctor.Finding{
		{Check: "consul", Level: doctor.Failed, Detail: "silent", Fix: "start it"},
		{Check: "acl", Level: doctor.Skipped, Detail: "needs consul", Fix: "see consul"},
		{Check: "limits", Level: doctor.OK, Detail: "many"},
	}
	var b bytes.Buffer
	const table = "failed   consul  silent\n                 fix: start it\nskipped  acl     needs consul\nok       limits  many\n"
	if err := doctor.Table(&b, findings); err != nil || b.String() != table {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	const list = `[{"check":"limits","level":"ok","detail":"many"}]` + "\n"
	if err := doctor.JSON(&b, findings[2:]); err != nil || b.String() != list {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestRealLimitsAndDial(t *testing.T) {
	if l, err := doctor.ReadLimits(); err != nil || l.Files == 0 {
		t.Errorf("%+v, %v", l, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := doctor.Dial(t.Context(), l.Addr().String()); err != nil {
		t.Error(err)
	}
	l.Close()
	if err := doctor.Dial(t.Context(), l.Addr().String()); err == nil {
		t.Error("nobody listens, and it connected")
	}
}

// TestClockOfThatMoment: what a check took before the clock's turn is no difference of the clocks.
func TestClockOfThatMoment(t *testing.T) {
	p := well()
	d := p.doctor()
	d.Now = func() time.Time { return p.agent.Heard.Add(10 * time.Second) } // the check before it took that long
	for _, f := range d.Examine(t.Context()) {
		if f.Check == "clock" && f.Level != doctor.OK {
			t.Errorf("got %+v", f)
		}
	}
}
