package system_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys/system"
)

// TestStoreAwayAtStart: a store that stays away is one short line in the log, and not one for each attempt; and
// JoinTimeout ends it with an error that says what to do.
func TestStoreAwayAtStart(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	n, err := system.New(system.Config{Table: table, Logger: zap.New(core), Cluster: &system.ClusterConfig{Consul: "127.0.0.1:1", JoinTimeout: 2 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	err = n.Start(context.Background())
	if !errors.Is(err, system.ErrNotJoined) || !strings.Contains(err.Error(), "RAYSYS_JOIN_TIMEOUT") || system.ExitCode(err) != 3 {
		t.Errorf("start: %v (exit %d): want ErrNotJoined, exit 3", err, system.ExitCode(err))
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	lines := logs.FilterMessage("cannot reach the store; trying again").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines in two seconds, want one: %v", len(lines), lines)
	}
	if text := lines[0].ContextMap()["error"].(string); len(text) > 100 || !strings.Contains(text, "refused") {
		t.Errorf("the line says %q: want what the operating system said, shortly", text)
	}
}
