package groupengine

import (
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// KeyPrefix begins the key of every group's record.
const KeyPrefix = "p/"

// MaxName is the most bytes that the name of a group has.
const MaxName = 512

// NameKey is the key of a group with a name.
func NameKey(namespace, name string) string { return KeyPrefix + namespace + "\x00" + name }

// KeyOf is the key of a group; name is "" where it has none.
func KeyOf(namespace, name string, id core.TaskID) string {
	if name != "" {
		return NameKey(namespace, name)
	}
	return idKey(namespace, id)
}

// idKey is the key of a group without a name. No name begins with a zero byte.
func idKey(namespace string, id core.TaskID) string {
	return NameKey(namespace, "\x00"+string(wire.AppendID(nil, id)))
}

// IsKey reports whether key is that of a group's record.
func IsKey(key string) bool {
	return strings.HasPrefix(key, KeyPrefix) && strings.Contains(key, "\x00") && len(key) <= 4*MaxName
}

// Shown is a key in words.
func Shown(key string) string {
	if name, id := split(key); id == (core.TaskID{}) {
		return fmt.Sprintf("group %q", name)
	}
	return "group " + NameOf(key)
}

// NameOf is the name of the group of a key, or the id of one without a name.
func NameOf(key string) string {
	name, id := split(key)
	if id == (core.TaskID{}) {
		return name
	}
	return id.String()
}

// NameIn is the name of the group of a key, "" for one without.
func NameIn(key string) string {
	name, _ := split(key)
	return name
}

// split returns the name of a key's group, or the id of one without a name.
func split(key string) (name string, id core.TaskID) {
	_, name, _ = strings.Cut(strings.TrimPrefix(key, KeyPrefix), "\x00")
	if bytes, ok := strings.CutPrefix(name, "\x00"); ok {
		r := wire.NewReader([]byte(bytes))
		return "", r.ID()
	}
	return name, id
}
