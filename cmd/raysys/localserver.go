package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/childserver"
)

// localServer is what the nodes of a local cluster need: Consul or NATS. A Supervisor starts it again when it ends, on its port and
// with its data.
type localServer struct {
	name  string
	stop  context.CancelFunc
	over  chan struct{} // closed when the server has ended and is not started again
	err   error         // why, once over is closed
	files func() error  // removes the server's
}

// maxServerPause bounds the pause before a server is started again, which doubles from 100 ms: the nodes wait for it.
const maxServerPause = 5 * time.Second

// keep supervises a server whose process runs. start starts it again and waits until it serves; files removes its files.
func (h *localCluster) keep(name string, p *childserver.Process, start func(context.Context) error, files func() error) error {
	ctx, stop := context.WithCancel(context.Background())
	first := true
	sup, err := supervise.New(supervise.Config{
		Talk: named{name, h.talk}, Grace: localEnd, RestartMax: maxServerPause,
		Launch: func() (supervise.Process, error) {
			if !first {
				if err := start(ctx); err != nil {
					return nil, err
				}
			}
			first = false
			return newServerLife(p), nil
		},
	})
	if err != nil {
		stop()
		return err
	}
	s := &localServer{name: name, stop: stop, over: make(chan struct{}), files: files}
	h.servers = append(h.servers, s)
	go func() { // ends with the server, which end sees to
		defer close(s.over)
		s.err = sup.Run(ctx, h.kill)
	}()
	return nil
}

// named puts a name before each line.
type named struct {
	name string
	to   io.Writer
}

func (n named) Write(b []byte) (int, error) {
	_, err := fmt.Fprintf(n.to, "%s: %s", n.name, b)
	return len(b), err
}

// serverLife is one process of a server.
type serverLife struct {
	*childserver.Process
	exited chan supervise.Exit // gets one exit
}

func newServerLife(p *childserver.Process) serverLife {
	l := serverLife{p, make(chan supervise.Exit, 1)}
	began, ended := time.Now(), p.Exited()
	go func() { // ends with the process
		<-ended
		l.exited <- supervise.ExitOf(p.State(), time.Since(began))
	}()
	return l
}

func (l serverLife) Exited() <-chan supervise.Exit { return l.exited }

// Close returns the end of the server's log. The next process has the files.
func (l serverLife) Close() []string { return strings.Split(l.Log(), "\n") }
