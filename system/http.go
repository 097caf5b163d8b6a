package system

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/metrics"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/operate"
	"github.com/raysys/raysys/internal/page"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/progress"
)

// PageConfig says who may read the page and the API at Config.HTTP, and how.
type PageConfig struct {
	// TokenFile has the token that readers give, at least 16 characters. Empty: on loopback readers need none; elsewhere the process draws one,
	// and says it once, on standard error; no log has it, nor raysys logs.
	TokenFile string
	// Cert and Key are PEM files, with which HTTP speaks TLS; they are read again when they change. The certificates of a cluster's nodes name no
	// host, and browsers refuse them.
	Cert, Key string
	// Insecure serves the page and the API beyond loopback without TLS as well: whoever is on the way reads along, also the token.
	Insecure bool
}

func (p *PageConfig) check() error {
	if (p.Cert == "") != (p.Key == "") {
		return fmt.Errorf("Config.Page has Cert %q and Key %q (RAYSYS_HTTP_TLS_CERT and RAYSYS_HTTP_TLS_KEY): give both", p.Cert, p.Key)
	}
	return nil
}

func (e *environment) page() PageConfig {
	return PageConfig{
		TokenFile: e.get("RAYSYS_HTTP_TOKEN_FILE"), Cert: e.get("RAYSYS_HTTP_TLS_CERT"), Key: e.get("RAYSYS_HTTP_TLS_KEY"), Insecure: e.boolean("RAYSYS_HTTP_INSECURE"),
	}
}

var (
	// drawToken is the same for all nodes of the process: one that joins again keeps its readers.
	drawToken = sync.OnceValue(rand.Text)
	tokenSaid atomic.Bool
)

// server serves Config.HTTP.
type server struct {
	mu sync.Mutex // guards s
	s  *page.Server
}

// open serves from here on, before the node joins: a node that waits for its store is healthy. An address that is taken has a program go on
// without, and ends one that has a supervisor, which tells people and starts it no more.
func (p *server) open(n *Node) error {
	if n.cfg.HTTP == "" {
		return nil
	}
	access := &n.cfg.Page
	s, err := page.Open(page.Config{
		Address: n.cfg.HTTP, TokenFile: access.TokenFile, Draw: drawToken, Cert: access.Cert, Key: access.Key, Insecure: access.Insecure,
		Source: n, Ready: func() error { return serves(n) },
		Others: metrics.Handler(
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
			},
			func(err error) {
				n.log.Warn("a collector of the program fails: what it has is missing in /metrics", zap.String("node", string(n.cfg.Name)), zap.Error(err))
			}),
	})
	name := zap.String("node", string(n.cfg.Name))
	switch {
	case err != nil && n.cfg.supervisor() != nil:
		return node.Refused(err)
	case err != nil:
		n.log.Warn("cannot serve metrics, health and the page; going on without", name, zap.Error(err))
		return nil
	}
	n.log.Info("serving metrics and health", name, zap.Stringer("http", s.Addr()))
	if off := s.Off(); off != "" {
		n.log.Info("no page is served", name, zap.String("why", off))
	} else {
		tellPage(n, s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s = s
	return nil
}

// tellPage says where the page is; and the token that was drawn for it, the first time, on standard error alone.
func tellPage(n *Node, s *page.Server) {
	line, token := "page: "+s.URL(), s.Token()
	if token != "" && tokenSaid.Swap(true) {
		token = ""
	}
	if token != "" { // not by the log: logs are kept, and more people read them than may read the page
		mark := worklog.Mark(os.Getenv(worklog.MarkVariable))
		mark.SayUnkept(progress.Writer(os.Stderr), line+" asks for the token "+token)
	}
	if token == "" || n.cfg.lines.Out == nil {
		tellRun(n, line)
	}
}

// tellRun prints a line about this run to standard error, unless RAYSYS_LOG is error. A Config that FromEnv did not
// make has no such place: the line goes to its log.
func tellRun(n *Node, line string) {
	switch out := n.cfg.lines.Out; {
	case out != nil && n.log.Core().Enabled(zap.WarnLevel):
		fmt.Fprintln(out, line)
	case out == nil:
		n.log.Info(line, zap.String("node", string(n.cfg.Name)))
	}
}

// sayOddNames warns of names that labels of metrics, logs and commands can only show escaped.
func sayOddNames(n *Node) {
	for _, e := range n.cfg.Table.Entries() {
		if !utf8.ValidString(e.Name) {
			n.log.Warn("a name is no UTF-8: metrics and commands show it escaped", zap.String("node", string(n.cfg.Name)), zap.String("kind", e.Kind),
				zap.String("name", metrics.Printed(e.Name)), zap.String("defined", e.Site))
		}
	}
}

func (p *server) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.s != nil {
		p.s.Close()
		p.s = nil
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
