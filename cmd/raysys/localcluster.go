package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/natskey"
	"github.com/raysys/raysys/internal/natsserver"
)

// localCluster is the processes of a local cluster. They are in groups of their own, so that the terminal's signal
// comes to this process alone and they can be ended in order; none of them outlives it.
type localCluster struct {
	talk    io.Writer
	kill    <-chan struct{} // closed by the second signal
	servers []*localServer  // in the order of their start
	members []*child        // the nodes
}

// child is one of the nodes.
type child struct {
	name string
	supervise.Process
	over <-chan supervise.Exit // nil when it has ended
}

// localEnd is how long one of them may take to end, before it is killed: nodes of a local cluster have little to drain.
const localEnd = 20 * time.Second

// foreign are variables that would send local nodes elsewhere, or all to one address.
var foreign = []string{
	"CONSUL_", "RAYSYS_CONSUL", "RAYSYS_CLUSTER", "RAYSYS_NAME", "RAYSYS_APP", "RAYSYS_ROLE", "RAYSYS_LISTEN", "RAYSYS_ADVERTISE", "RAYSYS_TLS_",
	"RAYSYS_NATS", "RAYSYS_OUTPUT", "RAYSYS_CPU", "RAYSYS_TIMEOUT", "RAYSYS_NODES", "RAYSYS_DATA", "RAYSYS_HTTP=",
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
	s, err := consulserver.Run(ctx, consulserver.Options{Program: path, Port: localPort(port, consulPort), Disk: true, OwnGroup: true})
	if err != nil {
		return "", err
	}
	return s.Address(), h.keep("consul", &s.Process, s.Start, s.Close)
}

// startNATS starts a server for streams, waits until it serves and writes where it is into the cluster's store.
func (h *localCluster) startNATS(ctx context.Context, path string, at client.Where) (url string, err error) {
	token := rand.Text()
	s, err := natsserver.Run(ctx, natsserver.Options{Program: path, Port: localPort(0, natsPort), Token: token, OwnGroup: true})
	if err != nil {
		return "", err
	}
	if err := h.keep("nats", s.Process(1), func(ctx context.Context) error { return s.Start(ctx, 1) }, s.Close); err != nil {
		return "", err
	}
	kv, err := openStore(at)
	if err != nil {
		return "", err
	}
	url = "nats://" + s.Address(1)
	return url, errors.Join(natskey.Write(ctx, kv, natskey.Record{URL: url, Token: token}), kv.Close())
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
	for _, s := range h.servers {
		select {
		case <-s.over:
			return s.ended()
		default:
		}
	}
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

// ended is the error of a server that is not started again, though it was not asked to end.
func (s *localServer) ended() error { return fmt.Errorf("%s %w: %w", s.name, errEnded, s.err) }

// watch waits for ctx. A node may be drained meanwhile; with the last node gone, or with a server that does not come up again,
// nothing is left to do.
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
	gone := make(chan *localServer)
	for _, s := range h.servers {
		go func() { // ends with the server, which end sees to
			<-s.over
			select {
			case gone <- s:
			case <-ctx.Done():
			}
		}()
	}
	for left > 0 {
		select {
		case <-ctx.Done():
			return nil
		case s := <-gone:
			return s.ended()
		case e := <-exits:
			left--
			fmt.Fprintf(h.talk, "%s: %v\n", e.who.name, e.Exit)
		}
	}
	return nil
}

// end ends the nodes together, waits for them, and ends the servers in the opposite order of their start.
func (h *localCluster) end() error {
	var errs []error
	limit, cancel := context.WithTimeout(context.Background(), localEnd)
	defer cancel()
	for _, m := range h.members {
		if m.over != nil {
			_ = m.Terminate() // one that has just ended needs none
		}
	}
	for _, m := range h.members {
		errs = append(errs, h.wait(m, limit.Done()))
	}
	for _, s := range slices.Backward(h.servers) {
		s.stop()
		<-s.over // its Supervisor waits for localEnd, or for the second signal
		errs = append(errs, s.files())
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
