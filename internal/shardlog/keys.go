package shardlog

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/raysys/raysys/store"
)

// The keys of a cluster. Leaders and nodes are prefixes of their own, because they are watched; logs and snapshots are
// never watched (C13).
const (
	LayoutKey     = "config"
	NodesPrefix   = "nodes/"
	EvictPrefix   = "evict/"
	LeadersPrefix = "leaders/"
	logPrefix     = "log/"
	snapPrefix    = "snap/"
)

// LeaderKey returns the key that the leader of a shard holds.
func LeaderKey(shard int) string { return fmt.Sprintf("%s%02d", LeadersPrefix, shard) }

func shardLog(shard int) string { return fmt.Sprintf("%s%02d/", logPrefix, shard) }

func segmentKey(shard int, seq uint64) string { return fmt.Sprintf("%s%016x", shardLog(shard), seq) }

func segmentOf(key string) (uint64, error) {
	seq, err := strconv.ParseUint(key[strings.LastIndexByte(key, '/')+1:], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no segment's key", store.ErrCorrupt, key)
	}
	return seq, nil
}

func shardSnaps(shard int) string { return fmt.Sprintf("%s%02d/", snapPrefix, shard) }

func manifestKey(shard int) string { return shardSnaps(shard) + "manifest" }

// snapFolder is named by the snapshot's first segment, for operators, and by its id, so that a late write of an
// earlier attempt is never part of a later snapshot.
func snapFolder(shard int, next uint64, id nonce) string {
	return fmt.Sprintf("%s%016x-%s/", shardSnaps(shard), next, hex.EncodeToString(id[:]))
}

func partKey(folder string, part int) string { return fmt.Sprintf("%s%05d", folder, part) }

// Leader is the leadership of a shard.
type Leader struct {
	Shard   int
	Epoch   uint64
	Node    string // as given in LeadConfig
	Session string
}

// leaderValue is what a leader's key holds.
type leaderValue struct {
	Node  string `json:"node"`
	Nonce string `json:"nonce"` // tells a leader its own key after an unclear outcome
}

// ParseLeader reads a pair under LeadersPrefix, as List and Watch return it. The key, its index and its session define the leader; only the name is missing when the value was overwritten.
func ParseLeader(p store.Pair) (Leader, error) {
	l, _, err := parseLeader(p)
	return l, err
}

func parseLeader(p store.Pair) (Leader, leaderValue, error) {
	digits, ok := strings.CutPrefix(p.Key, LeadersPrefix)
	shard, err := strconv.Atoi(digits)
	if !ok || err != nil || p.Key != LeaderKey(shard) {
		return Leader{}, leaderValue{}, fmt.Errorf("%w: %q is no leader's key", store.ErrCorrupt, p.Key)
	}
	var v leaderValue
	if json.Unmarshal(p.Value, &v) != nil {
		v = leaderValue{}
	}
	return Leader{Shard: shard, Epoch: p.Create, Node: v.Node, Session: p.Session}, v, nil
}
