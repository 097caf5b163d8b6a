package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/consulserver"
)

// localCluster is the processes of a local cluster. They are in groups of their own, so that the terminal's signal
// comes to this process alone and they can be ended in order; none of them outlives it.
type localCluster struct {
	talk    io.Writer
	kill    <-chan struct{} // closed by the second signal
	members []*child        // in the order of their start
}

// child is one of them.
type child struct {
	name string
	supervise.Process
	over <-chan supervise.Exit // nil when it has ended
}

// consulName is the member that the others need: the first to start and the last to end.
const consulName = "consul"

// localEnd is how long one of them may take to end, before it is killed: nodes of a local cluster have little to drain.
const localEnd = 20 * time.Second

// foreign are variables that would send local nodes elsewhere.
var foreign = []string{
	"CONSUL_", "RAYSYS_CONSUL", "RAYSYS_CLUSTER", "RAYSYS_NAME", "RAYSYS_APP", "RAYSYS_ROLE", "RAYSYS_LISTEN", "RAYSYS_ADVERTISE", "RAYSYS_TLS_",
	"RAYSYS_OUTPUT", "RAYSYS_CPU", "RAYSYS_TIMEOUT", "RAYSYS_NODES", "RAYSYS_DATA",
}

// start starts a process with these variables beside the harmless ones of this process.
func (h *localCluster) start(name, path string, args, env []string) error {
	c := &supervise.Command{
		Path: path, Args: args, Env: append(domestic(os.Environ()), env...), Stdout: h.talk, Stderr: h.talk,
		Lines: supervise.NewLines(""), // nodes put their own names before their lines
	}
	p, err := c.Launch()
	if err != nil {
		return err
	}
	h.members = append(h.members, &child{name: name, Process: p, over: p.Exited()})
	return nil
}

// startConsul starts the server that the others need, waits until it serves and returns its address.
func (h *localCluster) startConsul(ctx context.Context, path string, port int) (address string, err error) {
	s, err := consulserver.Run(ctx, consulserver.Options{Program: path, Port: localPort(port), OwnGroup: true})
	if err != nil {
		return "", err
	}
	p := consulProcess{s, make(chan supervise.Exit, 1)}
	begin := time.Now()
	go func() { // ends with the server, which end sees to
		<-s.Exited()
		p.over <- supervise.ExitOf(s.State(), time.Since(begin))
	}()
	h.members = append(h.members, &child{name: consulName, Process: p, over: p.over})
	return s.Address(), nil
}

// consulProcess is the server as one of the processes.
type consulProcess struct {
	*consulserver.Server
	over chan supervise.Exit
}

func (c consulProcess) Exited() <-chan supervise.Exit { return c.over }

// Close removes the server's files and returns the end of its log.
func (c consulProcess) Close() []string {
	lines := strings.Split(c.Log(), "\n")
	if err := c.Server.Close(); err != nil {
		lines = append(lines, err.Error())
	}
	return lines
}

func domestic(env []string) []string {
	var kept []string
next:
	for _, v := range env {
		for _, f := range foreign {
			if strings.HasPrefix(v, f) {
				continue next
			}
		}
		kept = append(kept, v)
	}
	return kept
}

// until asks again and again whether it has come so far, which nothing would tell by itself.
func (h *localCluster) until(ctx context.Context, what string, done func(ctx context.Context) bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if done(ctx) {
			return nil
		}
		if err := h.look(); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// errEnded is the state of a local cluster whose member ended before it was asked to.
var errEnded = errors.New("ended by itself")

// look finds the processes that have ended.
func (h *localCluster) look() error {
	for _, m := range h.members {
		select {
		case e := <-m.over:
			m.over = nil
			return fmt.Errorf("%s %w: %v:%s", m.name, errEnded, e, lastOf(m.Close()))
		default:
		}
	}
	return nil
}

func lastOf(lines []string) string {
	if len(lines) == 0 {
		return " it said nothing"
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}

// watch waits for ctx. A node may be drained meanwhile; without Consul, or with the last node gone, nothing is left to
// do.
func (h *localCluster) watch(ctx context.Context) error {
	type exit struct {
		who *child
		supervise.Exit
	}
	exits := make(chan exit)
	left := 0
	for _, m := range h.members {
		over := m.over
		m.over = nil
		if over == nil {
			continue
		}
		again := make(chan supervise.Exit, 1) // for end
		m.over = again
		left++
		go func() { // ends with the process, which end sees to
			e := <-over
			again <- e
			select {
			case exits <- exit{m, e}:
			case <-ctx.Done():
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-exits:
			left--
			fmt.Fprintf(h.talk, "%s: %v\n", e.who.name, e.Exit)
			switch {
			case e.who.name == consulName:
				return fmt.Errorf("%s %w: %v:%s", consulName, errEnded, e.Exit, lastOf(e.who.Close()))
			case left == 1: // Consul
				return nil
			}
		}
	}
}

// end ends the processes in the opposite order of their start, nodes together, and waits for them.
func (h *localCluster) end() error {
	var errs []error
	nodes := h.members
	if len(nodes) > 0 {
		nodes = h.members[1:]
	}
	for _, m := range nodes {
		if m.over != nil {
			_ = m.Terminate() // one that has just ended needs none
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), localEnd)
	defer cancel()
	for _, m := range nodes {
		errs = append(errs, h.wait(m, limit.Done()))
	}
	if len(h.members) > 0 {
		consul := h.members[0]
		if consul.over != nil {
			_ = consul.Terminate()
		}
		errs = append(errs, h.wait(consul, limit.Done()))
	}
	return errors.Join(errs...)
}

// wait waits for one to end, and kills it when it takes too long or the second signal came.
func (h *localCluster) wait(m *child, limit <-chan struct{}) error {
	if m.over == nil {
		return nil
	}
	defer m.Close()
	select {
	case <-m.over:
		return nil
	case <-h.kill:
	case <-limit:
	}
	err := m.Kill()
	<-m.over
	return err
}
