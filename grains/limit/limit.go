package limit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/tally"
)

// ErrBusy: a Take with Try would have had to wait.
var ErrBusy = tally.Expect(core.Sentinel("limit.busy", "limit: no units are free"))

const (
	maxUnits = 1 << 40 // no sum of units overflows
	longest  = 100 * 365 * 24 * time.Hour
)

// Limit bounds the work of each key. Make it once, in a package variable, by AtMost or Rate.
type Limit struct {
	name string
	n    int
	rate bool
	per  time.Duration
}

// AtMost has at most n units held at once, for each key.
func AtMost(name string, n int) Limit { return Limit{name: name, n: n} }

// Rate has n units taken in the time per, for each key: n at once where none was taken for that long, and then as
// they come back, one each n-th part of per. Release of such a permit gives none back. A time of more than 100 years
// is one of 100 years.
func Rate(name string, n int, per time.Duration) Limit {
	return Limit{name: name, n: n, rate: true, per: min(per, longest)}
}

// Option changes a Take.
type Option func(*take)

// Try has Take wait for nothing: it fails with ErrBusy where it would have to, as it does while a new gate hears who
// holds permits.
func Try() Option { return func(t *take) { t.Try = true } }

// For takes the units for a tenant: tenants that wait get theirs in turn, however many calls each of them has. The
// empty tenant is that of calls without For.
func For(tenant string) Option { return func(t *take) { t.Tenant = tenant } }

// take is what the calls of one Take say.
type take struct {
	ID     uint64 // the same for a call that is made again
	Units  int
	N      int
	Per    time.Duration `raysys:"omitzero"` // 0 for AtMost
	Tenant string        `raysys:"omitzero"`
	Try    bool          `raysys:"omitzero"`
}

func (l Limit) take(units int, opts []Option) (take, error) {
	t := take{ID: rand.Uint64(), Units: units, N: l.n, Per: l.per}
	for _, o := range opts {
		if o == nil {
			return t, fmt.Errorf("%w: nil Option", raysys.ErrBadOption)
		}
		o(&t)
	}
	switch {
	case l.name == "":
		return t, fmt.Errorf("%w: no name of the limit: make it by AtMost or Rate, with one", raysys.ErrBadOption)
	case l.rate && l.per <= 0:
		return t, fmt.Errorf("%w: a Rate of %d units in %v: give a time above zero", raysys.ErrBadOption, l.n, l.per)
	}
	return t, t.check()
}

// check says what cannot be meant, also in a call of another program.
func (t take) check() error {
	switch {
	case t.N < 1 || t.N > maxUnits || t.Per < 0 || t.Per > longest:
		return fmt.Errorf("%w: a limit of %d units: give it 1 to %d", raysys.ErrBadOption, t.N, maxUnits)
	case t.Units < 1 || t.Units > t.N:
		return fmt.Errorf("%w: %d units of a limit of %d: take 1 to that", raysys.ErrBadOption, t.Units, t.N)
	}
	return nil
}

// key names the gate of a key: no two limits and keys have one.
func (l Limit) key(key string) string {
	between := "/"
	if l.rate {
		between = ":"
	}
	return escaped.Replace(l.name) + between + key
}

var escaped = strings.NewReplacer("%", "%25", "/", "%2F", ":", "%3A")
