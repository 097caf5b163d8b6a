package system

import (
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/metrics"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/operate"
)

// page serves Config.HTTP.
type page struct {
	mu   sync.Mutex // guards stop
	stop func()     // nil while nothing is served
}

// open serves from here on, before the node joins: a node that waits for its store is healthy. An address that is taken has a program go on
// without, and ends one that has a supervisor, which tells people and starts it no more.
func (p *page) open(n *Node) error {
	if n.cfg.HTTP == "" {
		return nil
	}
	at, stop, err := metrics.Serve(n.cfg.HTTP, metrics.Handler(
		func() (metrics.Sample, error) {
			if err := serves(n); err != nil {
				return metrics.Sample{}, err
			}
			return operate.Sample(n.operator)
		},
		func() error {
			if err := serves(n); err != nil {
				return err
			}
			return operate.Ready(n.operator)
		}))
	switch {
	case err != nil && n.cfg.supervisor() != nil:
		return node.Refused(err)
	case err != nil:
		n.log.Warn("cannot serve metrics and health; going on without", zap.String("node", string(n.cfg.Name)), zap.Error(err))
		return nil
	}
	n.log.Info("serving metrics and health", zap.String("node", string(n.cfg.Name)), zap.Stringer("http", at))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop = stop
	return nil
}

func (p *page) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// serves says why a node serves nobody, nil where it does. Before it has started, its parts are not there to be asked.
func serves(n *Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.state < stateStarted:
		return errors.New("the node has not started")
	case n.cause != nil:
		return n.cause
	case n.state > stateStarted:
		return raysys.ErrClosed
	}
	return nil
}
