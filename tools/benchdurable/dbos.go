package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/tools/internal/countload"
)

const (
	owner       = "postgres" // the account that runs Postgres, which refuses root, and the user of the database
	connections = 50         // to Postgres
)

func postgresMissing() error {
	_, err := postgresFolder()
	return err
}

// postgresFolder has initdb and postgres. Debian has a folder for each version, and not in PATH.
func postgresFolder() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("there is no Postgres (Debian: postgresql): %w", err)
	}
	return filepath.Dir(path), nil
}

// asOwner is a command line that the owner runs, where this process is root's.
func asOwner(line ...string) []string {
	if os.Getuid() != 0 {
		return line
	}
	as := []string{"setpriv", "--reuid", owner, "--regid", owner, "--init-groups", "--pdeathsig", "KILL"}
	return append(as, line...)
}

// startPostgres starts a server with its data in dir, and returns its address.
func startPostgres(ctx context.Context, dir string) (*childserver.Process, string, error) {
	programs, err := postgresFolder()
	if err != nil {
		return nil, "", err
	}
	if os.Getuid() == 0 {
		u, err := user.Lookup(owner)
		if err != nil {
			return nil, "", err
		}
		uid, _ := strconv.Atoi(u.Uid) // numbers, on Linux
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, "", err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := filepath.Join(programs, "initdb")
	line := asOwner(initdb, "-D", data, "-A", "trust", "-U", owner, "-E", "UTF8", "--no-locale")
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	ports, err := childserver.FreePorts(1)
	if err != nil {
		return nil, "", err
	}
	line = asOwner(filepath.Join(programs, "postgres"), "-D", data, "-p", strconv.Itoa(ports[0]), "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "log_min_messages=fatal",
		"-c", "fsync=on", "-c", "synchronous_commit=on")
	s := &childserver.Process{Program: line[0], Args: line[1:], Dir: dir, LogPath: filepath.Join(dir, "log")}
	return s, fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres", owner, ports[0]), s.Launch()
}

// addition is a call.
type addition struct {
	Key string
	N   int64
}

const addRow = `INSERT INTO counters VALUES ($1, $2)
	ON CONFLICT (key) DO UPDATE SET sum = counters.sum + $2 RETURNING sum`

// startDBOS starts a Postgres, and runs the workflows here. A workflow has one step, which is a transaction with the
// counter's row; the workflow's begin and its end are two more.
func startDBOS(ctx context.Context, dir string, keyed bool) (countload.Peer, error) {
	postgres, url, err := startPostgres(ctx, dir)
	if err != nil {
		return countload.Peer{}, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return countload.Peer{}, err
	}
	config.MinConns, config.MaxConns = connections, connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return countload.Peer{}, err
	}
	if err := postgres.Await(ctx, pool.Ping); err != nil {
		return countload.Peer{}, errors.Join(fmt.Errorf("postgres: %w", err), postgres.Kill())
	}
	if _, err := pool.Exec(ctx, `CREATE TABLE counters (key text PRIMARY KEY, sum bigint NOT NULL)`); err != nil {
		return countload.Peer{}, err
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "benchdurable", SystemDBPool: pool, Logger: quiet})
	if err != nil {
		return countload.Peer{}, err
	}
	source, err := dbos.NewDataSource(d, pool)
	if err != nil {
		return countload.Peer{}, err
	}
	add := func(c dbos.Context, a addition) (int64, error) {
		return dbos.RunAsTransaction(c, source, func(ctx context.Context, tx dbos.Tx) (sum int64, err error) {
			err = tx.QueryRow(ctx, addRow, a.Key, a.N).Scan(&sum)
			return sum, err
		})
	}
	dbos.RegisterWorkflow(d, add, dbos.WithWorkflowName("add"))
	if err := dbos.Launch(d); err != nil {
		return countload.Peer{}, err
	}
	call := func(_ context.Context, key, id string) (int64, error) {
		var opts []dbos.WorkflowOption
		if keyed {
			opts = append(opts, dbos.WithWorkflowID(id))
		}
		h, err := dbos.RunWorkflow(d, add, addition{key, 1}, opts...)
		if err != nil {
			return 0, err
		}
		return h.GetResult()
	}
	end := func() error {
		dbos.Shutdown(d, 2*time.Second)
		pool.Close()
		return postgres.Stop()
	}
	return countload.Peer{Context: ctx, Call: call, End: end}, nil
}
