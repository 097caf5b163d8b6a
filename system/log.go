package system

import (
	"log/slog"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// The forms of the log, for RAYSYS_LOG_FORMAT.
const (
	logTerminal = "terminal" // short and coloured, for people
	logJSON     = "json"     // an object a line, for machines
)

// logForm returns the form that the variable names; without one, the terminal form where standard error is a terminal.
func (e *environment) logForm() string {
	switch form := e.get("RAYSYS_LOG_FORMAT"); form {
	case logTerminal, logJSON:
		return form
	case "":
	default:
		e.bad("RAYSYS_LOG_FORMAT", form, "terminal or json")
	}
	if Terminal(os.Stderr) {
		return logTerminal
	}
	return logJSON
}

// Terminal reports whether f is a terminal.
func Terminal(f *os.File) bool {
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

func newLogger(w zapcore.WriteSyncer, form string, level zapcore.LevelEnabler) *zap.Logger {
	if form == logTerminal {
		conf := zap.NewDevelopmentEncoderConfig()
		conf.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		conf.EncodeLevel = zapcore.CapitalColorLevelEncoder
		conf.ConsoleSeparator = " "
		return zap.New(folding{zapcore.NewCore(zapcore.NewConsoleEncoder(conf), zapcore.Lock(w), level)})
	}
	conf := zap.NewProductionEncoderConfig()
	conf.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(conf), zapcore.Lock(w), level))
}

// deadLetterPause is how long the goroutine lives that the first dead letter starts. It may outlive the node by that.
const deadLetterPause = 50 * time.Millisecond

// newActors makes the actor system, which logs to the node's logger. The Info level of protoactor is raysys's Debug.
func newActors(log *zap.Logger) *actor.ActorSystem {
	core := &quiet{log.Core()}
	s := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(deadLetterPause), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zapslog.NewHandler(core, zapslog.WithName("actor")))
	}))
	s.ProcessRegistry.Address += ":0" // a cluster of proto.Actor takes host and port apart; later the address is read by actors, and a node that joins has another
	return s
}

// Log returns the node's logger, for packages that come with a node.
func (n *Node) Log() *slog.Logger { return slog.New(zapslog.NewHandler(n.log.Core())) }

// quiet lowers Info to Debug.
type quiet struct{ zapcore.Core }

func (q *quiet) Enabled(l zapcore.Level) bool {
	if l == zapcore.InfoLevel {
		l = zapcore.DebugLevel
	}
	return q.Core.Enabled(l)
}

func (q *quiet) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level == zapcore.InfoLevel {
		e.Level = zapcore.DebugLevel
	}
	return q.Core.Check(e, ce)
}

func (q *quiet) With(f []zapcore.Field) zapcore.Core { return &quiet{q.Core.With(f)} }
