package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/doctor"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/natskey"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// examine makes the doctor's tools. The returned function puts them away.
func examine(at client.Where) (*doctor.Doctor, func() error, error) {
	kv, err := openStore(at)
	if err != nil {
		return nil, nil, err
	}
	m := &mesh{at: at}
	d := &doctor.Doctor{
		Address: kv.Address(), Token: os.Getenv("CONSUL_HTTP_TOKEN") != "" || os.Getenv("CONSUL_HTTP_TOKEN_FILE") != "", Consul: agent{kv, at}, Status: m.status, Streams: m.streams, Outboxes: m.outboxes, Mesh: m, Dial: doctor.Dial, Limits: doctor.ReadLimits, Now: time.Now,
		Version: system.Version(), Greet: doctor.Greet, NATS: os.Getenv("RAYSYS_NATS"),
		StoredNATS: func(ctx context.Context) (string, error) {
			r, err := natskey.Read(ctx, kv)
			return r.URL, err
		},
	}
	if at.Cert != "" {
		d.Certificates = func() (doctor.Certificates, error) {
			t, err := link.LoadTLS(at.Cert, at.Key, at.CA)
			if err != nil {
				return doctor.Certificates{}, err
			}
			own, ca := t.Credentials().Ends()
			return doctor.Certificates{Own: own, CA: ca}, nil
		}
	}
	return d, func() error { return errors.Join(m.close(), kv.Close()) }, nil
}

// agent implements doctor.Consul.
type agent struct {
	kv *consul.Store
	at client.Where
}

func (a agent) Agent(ctx context.Context) (doctor.Agent, error) {
	s, err := a.kv.Agent(ctx)
	return doctor.Agent{Version: s.Version, Leader: s.Leader, ConnsPerClient: s.ConnsPerClient, Time: s.Time, Heard: s.Heard, TookHalf: s.TookHalf}, err
}

// anonymous is the secret of Consul's anonymous token: what nobody had to give.
const anonymous = "anonymous"

func (a agent) TryWriteAsAnyone(ctx context.Context) error {
	const tokenFile = "CONSUL_HTTP_TOKEN_FILE"
	if file := os.Getenv(tokenFile); file != "" { // Consul's client would prefer the file
		os.Unsetenv(tokenFile)
		defer os.Setenv(tokenFile, file)
	}
	kv, err := openStoreAs(a.at, anonymous)
	if err != nil {
		return err
	}
	return errors.Join(doctor.TryWrite(ctx, kv, a.at.Cluster), kv.Close())
}

func (a agent) TryWrite(ctx context.Context) error {
	if err := doctor.TryWrite(ctx, a.kv, a.at.Cluster); err != nil {
		return err
	}
	if err := a.kv.OnAgent(); err != nil {
		return fmt.Errorf("%w: %w", doctor.ErrOnAgent, err)
	}
	return nil
}

// mesh implements doctor.Mesh, by an observer that joins for the status and stays for the rest.
type mesh struct {
	at  client.Where
	obs *observer
}

func (m *mesh) status(ctx context.Context) (s client.Status, err error) {
	if m.obs == nil {
		if m.obs, err = observe(ctx, m.at); err != nil {
			return s, err
		}
	}
	return m.obs.Status(ctx)
}

func (m *mesh) outboxes(ctx context.Context) (inspect.Grains, error) {
	if m.obs == nil {
		return inspect.Grains{}, errors.New("the status comes first")
	}
	return m.obs.Grains(ctx, inspect.GrainQuery{Outbox: true})
}

func (m *mesh) streams(ctx context.Context) (inspect.Streams, error) {
	if m.obs == nil {
		return inspect.Streams{}, errors.New("the status comes first")
	}
	return m.obs.Streams(ctx)
}

func (m *mesh) Links(ctx context.Context) ([]doctor.Link, error) {
	if m.obs == nil {
		return nil, errors.New("the status comes first")
	}
	ways, err := m.obs.node.Ways(ctx)
	links := make([]doctor.Link, len(ways))
	for i, w := range ways {
		links[i] = doctor.Link{From: string(w.From), To: string(w.To), Error: w.Error}
	}
	return links, err
}

func (m *mesh) close() error {
	if m.obs == nil {
		return nil
	}
	return m.obs.Close()
}
