package natskey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/raysys/raysys/store"
)

// Key is its name, relative to the cluster's prefix.
const Key = "nats"

// Record is its value.
type Record struct {
	URL   string `json:"url"` // several with commas between
	Token string `json:"token,omitempty"`
}

// Read returns the record; without one, the zero Record and no error.
func Read(ctx context.Context, kv store.KV) (Record, error) {
	p, err := kv.Get(ctx, Key)
	if errors.Is(err, store.ErrNotFound) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("read the key %s: %w", Key, err)
	}
	var r Record
	if err := json.Unmarshal(p.Value, &r); err != nil {
		return Record{}, fmt.Errorf(`read the key %s: %w: write {"url": "nats://HOST:PORT", "token": "..."}`, Key, err)
	}
	if err := Check(r.URL); err != nil {
		return Record{}, fmt.Errorf("read the key %s: %w", Key, err)
	}
	return r, nil
}

// Write replaces the record.
func Write(ctx context.Context, kv store.KV, r Record) error {
	if err := Check(r.URL); err != nil {
		return fmt.Errorf("write the key %s: %w", Key, err)
	}
	value, err := json.Marshal(r)
	if err == nil {
		_, err = kv.Txn(ctx, []store.Op{store.Set(Key, value)})
	}
	if err != nil {
		return fmt.Errorf("write the key %s: %w", Key, err)
	}
	return nil
}

// Check refuses a list in which a URL is empty or cannot be read. Its error has no URL, which may have a password in it.
func Check(list string) error {
	for u := range strings.SplitSeq(list, ",") {
		if _, _, err := Parse(u); err != nil {
			return err
		}
	}
	return nil
}

// Memory is the scheme of streams in memory, which have no server.
const Memory = "memory"

// Parse reads one URL of a list: its scheme, and host:port without user, password or token. The scheme is for who connects.
func Parse(s string) (scheme, address string, err error) {
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return "", "", errors.New("a URL is empty: give nats://HOST:PORT, several with commas between")
	case strings.HasPrefix(s, Memory+":"):
		return Memory, s, nil
	case !strings.Contains(s, "://"):
		s = "nats://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return "", "", errors.New("a URL names no host: give nats://HOST:PORT, several with commas between, and escape signs of a password that end its part, as %2F")
	}
	port := u.Port()
	if port == "" {
		if port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]; port == "" {
			port = "4222"
		}
	}
	return u.Scheme, net.JoinHostPort(u.Hostname(), port), nil
}

// Addresses is the host:port of each URL of a list, for messages.
func Addresses(list string) string {
	var all []string
	for u := range strings.SplitSeq(list, ",") {
		if _, a, err := Parse(u); err == nil {
			all = append(all, a)
		}
	}
	return strings.Join(all, ", ")
}
