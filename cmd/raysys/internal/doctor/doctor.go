package doctor

import (
	"context"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // works, and will bite
	Failed  Level = "failed"
	Skipped Level = "skipped" // what it needs failed
)

// Finding is the outcome of one check.
type Finding struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // one line, for all but ok
}

// Consul is the agent that nodes on this host would use.
type Consul interface {
	// Agent says what it is, and proves that it answers.
	Agent(ctx context.Context) (Agent, error)
	// TryWrite does what a node does with its token: makes a session, holds a key below the cluster's prefix with it,
	// reads it back, and takes both away.
	TryWrite(ctx context.Context) error
	// TryWriteAsAnyone does the same as who has no token.
	TryWriteAsAnyone(ctx context.Context) error
}

// Agent is what Consul says of itself.
type Agent struct {
	Version        string
	Leader         string    // "" has none
	ConnsPerClient int       // its limit for one client address; 0 is unknown
	Time           time.Time // its clock, to the second; zero is unknown
	Heard          time.Time // this host's clock when it told its own
	TookHalf       time.Duration
}

// Mesh is the nodes' own view of their links.
type Mesh interface {
	Links(ctx context.Context) ([]Link, error)
}

// Link is one direction between two nodes, as the first sees it.
type Link struct {
	From, To string
	Error    string // "" is up
}

// Doctor has what the checks look at; all of it is needed.
type Doctor struct {
	Address string // of Consul, for messages
	Token   bool   // it is asked with a token
	Consul  Consul
	Status  func(ctx context.Context) (client.Status, error)
	Streams func(ctx context.Context) (inspect.Streams, error)
	// Outboxes are the durable grains whose messages pile up.
	Outboxes func(ctx context.Context) (inspect.Grains, error)
	Mesh     Mesh
	Dial     func(ctx context.Context, address string) error // opens a connection and closes it
	Greet    func(ctx context.Context, address string) (Greeting, error)
	Limits   func() (Limits, error)
	Now      func() time.Time
	Version  string // of this command

	// Certificates reads the TLS files that this command was given; nil where it was given none.
	Certificates func() (Certificates, error)

	NATS       string                                    // RAYSYS_NATS
	StoredNATS func(ctx context.Context) (string, error) // the URLs that the cluster's store has; "" none
}

// ground is what earlier checks found out for later ones.
type ground struct {
	agent  *Agent
	status *client.Status
}

// Examine runs all checks in order. It ends early, with the rest skipped, when ctx does.
func (d *Doctor) Examine(ctx context.Context) []Finding {
	var g ground
	checks := []struct {
		name  string
		needs string // what must have been found, for the message; "" nothing
		have  func() bool
		run   func(context.Context, *ground) Finding
	}{
		{"consul", "", nil, d.consul},
		{"acl", "consul", g.hasLeader, d.acl},
		{"connections", "consul", g.hasAgent, d.connections},
		{"clock", "consul", g.hasAgent, d.clock},
		{"limits", "", nil, d.limits},
		{"certificates", "", nil, d.certificates},
		{"cluster", "consul", g.hasLeader, d.cluster},
		{"ports out", "cluster", g.hasStatus, d.portsOut},
		{"ports between", "cluster", g.hasStatus, d.portsBetween},
		{"electors", "cluster", g.hasStatus, d.electors},
		{"version", "cluster", g.hasStatus, d.version},
		{"nats", "consul", func() bool { return d.NATS != "" || g.hasLeader() }, d.nats},
		{"streams", "cluster", g.hasStatus, d.streams},
		{"outboxes", "cluster", g.hasStatus, d.outboxes},
	}
	findings := make([]Finding, 0, len(checks))
	for _, c := range checks {
		var f Finding
		switch {
		case ctx.Err() != nil:
			f = Finding{Level: Skipped, Detail: "no time left", Fix: "give a longer --timeout"}
		case c.have != nil && !c.have():
			f = Finding{Level: Skipped, Detail: "needs " + c.needs, Fix: "see " + c.needs}
		default:
			f = c.run(ctx, &g)
		}
		f.Check = c.name
		findings = append(findings, f)
	}
	return findings
}

func (g *ground) hasAgent() bool { return g.agent != nil }

func (g *ground) hasLeader() bool { return g.agent != nil && g.agent.Leader != "" }

func (g *ground) hasStatus() bool { return g.status != nil }

// Worst returns the findings that failed.
func Worst(all []Finding) (failed []Finding) {
	for _, f := range all {
		if f.Level == Failed {
			failed = append(failed, f)
		}
	}
	return failed
}
