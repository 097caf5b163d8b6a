package system

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// environment reads variables, and gathers the errors, so that all of them are reported together. A variable that is empty is
// not set.
type environment struct {
	get  func(name string) string
	errs []error
}

func (e *environment) bad(name, value, give string) {
	e.errs = append(e.errs, fmt.Errorf("%s=%q: give %s", name, value, give))
}

func (e *environment) err() error { return errors.Join(e.errs...) }

// number returns unset where the variable is not set.
func (e *environment) number(name string, unset float64) float64 {
	v := e.get(name)
	if v == "" {
		return unset
	}
	f, ok := amount(v)
	if !ok {
		e.bad(name, v, "a number of 0 or more")
	}
	return f
}

// amount reads a finite number of 0 or more.
func amount(v string) (float64, bool) {
	f, err := strconv.ParseFloat(v, 64)
	return f, err == nil && f >= 0 && !math.IsInf(f, 1) // NaN is not 0 or more
}

func (e *environment) whole(name, of string, bits int) uint64 {
	v := e.get(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, bits)
	if err != nil {
		e.bad(name, v, of+"a whole number of 0 or more")
	}
	return n
}

func (e *environment) boolean(name string) bool {
	v := e.get(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		e.bad(name, v, "true or false")
	}
	return b
}

func (e *environment) address(name string) string {
	v := e.get(name)
	if v != "" && !isAddress(v) {
		e.bad(name, v, "HOST:PORT, such as 127.0.0.1:9464")
	}
	return v
}

func isAddress(v string) bool {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// off reads on, the default, or off.
func (e *environment) off(name string) bool {
	v := e.get(name)
	if v != "" && v != "on" && v != "off" {
		e.bad(name, v, "on or off")
	}
	return v == "off"
}

func (e *environment) duration(name string) time.Duration {
	v := e.get(name)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		e.bad(name, v, "a positive duration, such as 30s or 5m")
	}
	return d
}

// durationOrOff returns a duration below 0 for off.
func (e *environment) durationOrOff(name string) time.Duration {
	v := e.get(name)
	if v == "off" {
		return -1
	}
	d, err := time.ParseDuration(v)
	if v != "" && (err != nil || d <= 0) {
		e.bad(name, v, "a positive duration, such as 30s or 5m, or off")
	}
	return d
}

// pairs reads name=value,name=value and gives each pair to set, which reports whether the pair is valid.
func (e *environment) pairs(name, form string, set func(name, value string) bool) {
	v := e.get(name)
	if v == "" {
		return
	}
	seen := map[string]bool{}
	for _, pair := range strings.Split(v, ",") {
		k, val, ok := strings.Cut(pair, "=")
		if !ok || k == "" || seen[k] || !set(k, val) {
			e.bad(name, v, form+", each name once")
			return
		}
		seen[k] = true
	}
}
