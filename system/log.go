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

func stderrLogger(level zap.AtomicLevel) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(os.Stderr), level))
}

// deadLetterPause is how long the goroutine lives that the first dead letter starts, which a closed system leaves behind.
const deadLetterPause = 50 * time.Millisecond

// newActors makes the actor system, whose slog goes to the node's logger. protoactor says Info where we say Debug.
func newActors(log *zap.Logger) *actor.ActorSystem {
	core := &quiet{log.Core()}
	return actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(deadLetterPause), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zapslog.NewHandler(core, zapslog.WithName("actor")))
	}))
}

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
