package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	"github.com/restatedev/sdk-go/server"

	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/tools/internal/countload"
)

// Counter is the virtual object.
type Counter struct{}

// Add adds n and returns the sum.
func (Counter) Add(ctx sdk.ObjectContext, n int64) (int64, error) {
	sum, err := sdk.Get[int64](ctx, "sum")
	if err != nil {
		return 0, err
	}
	sum += n
	sdk.Set(ctx, "sum", sum)
	return sum, nil
}

func restateMissing() error {
	_, err := restateServer()
	return err
}

// restateServer is the path of the server that -restate names.
func restateServer() (string, error) {
	found, err := filepath.Glob(*restate)
	if err == nil && len(found) == 0 {
		err = errors.New("there is no restate-server: `make bench-durable` gets it with npm, from its registry")
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(found[0])
}

// restateConfig has the server answer after its log is on the disk: its defaults, said.
const restateConfig = `
bind-ip = "127.0.0.1"
bind-port = %d
listen-mode = "tcp"
disable-telemetry = true
log-filter = "warn"

[ingress]
bind-port = %d

[admin]
bind-port = %d

[log-server]
rocksdb-disable-wal-fsync = false

[bifrost.local]
rocksdb-disable-wal-fsync = false
`

// startRestate starts a server, and serves the object here.
func startRestate(ctx context.Context, dir string, keyed bool) (countload.Peer, error) {
	program, err := restateServer()
	if err != nil {
		return countload.Peer{}, err
	}
	ports, err := childserver.FreePorts(4)
	if err != nil {
		return countload.Peer{}, err
	}
	object := fmt.Sprintf("127.0.0.1:%d", ports[3])
	calls, admin := fmt.Sprintf("http://127.0.0.1:%d", ports[1]), fmt.Sprintf("http://127.0.0.1:%d", ports[2])
	config := filepath.Join(dir, "restate.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, restateConfig, ports[0], ports[1], ports[2]), 0o600); err != nil {
		return countload.Peer{}, err
	}
	quiet := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	go func() {
		endpoint := server.NewRestate().WithLogger(quiet, true).Bind(sdk.Reflect(Counter{}))
		if err := endpoint.Start(ctx, object); err != nil {
			fmt.Fprintln(os.Stderr, "the object's endpoint:", err)
		}
	}()
	s := &childserver.Process{
		Program: program, Dir: dir,
		Args:    []string{"--config-file", config, "--base-dir", filepath.Join(dir, "data"), "--node-name", "one"},
		LogPath: filepath.Join(dir, "log"),
	}
	if err := s.Launch(); err != nil {
		return countload.Peer{}, err
	}
	// The server takes the object once both serve, and calls it a moment later.
	err = s.Await(ctx, func(ctx context.Context) error {
		if err := post(ctx, admin+"/deployments", fmt.Sprintf(`{"uri":"http://%s"}`, object)); err != nil {
			return err
		}
		return post(ctx, calls+"/Counter/first/Add", "1")
	})
	if err != nil {
		return countload.Peer{}, errors.Join(fmt.Errorf("the server does not take the object: %w", err), s.Kill())
	}
	transport := &http.Transport{MaxIdleConns: 2000, MaxIdleConnsPerHost: 2000} // a connection for each caller
	client := ingress.NewClient(calls, ingress.WithHttpClient(&http.Client{Transport: transport}))
	call := func(ctx context.Context, key, id string) (int64, error) {
		var opts []ingress.RequestOption
		if keyed {
			opts = append(opts, sdk.WithIdempotencyKey(id))
		}
		return ingress.Object[int64, int64](client, "Counter", key, "Add").Request(ctx, 1, opts...)
	}
	return countload.Peer{Context: ctx, Call: call, End: s.Kill}, nil
}

func post(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}
