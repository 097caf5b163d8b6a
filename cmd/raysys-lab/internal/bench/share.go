package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys"
)

// share measures a View of an object of another process of this host, which maps it.
func share(ctx context.Context, p Plan) (m measured, err error) {
	data := pattern(p.size(gigabyte))
	m = measured{
		latency: &hist{}, latencyOf: "from the begin of View to the call of its function",
		limit: "open and map a file in memory of another process, of as many bytes",
	}
	var firsts, touches, firstTouches, bareTouches []float64
	err = withObjects(ctx, p, 2, options{}, func(driver context.Context, c *cluster) (err error) {
		bare, err := newMapped(ctx, p, data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bare.close()) }()
		for round := range p.Rounds + 1 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			first, second, err := c.shareRound(driver, data)
			if err != nil {
				return err
			}
			open, touch, err := bare.open()
			if err != nil {
				return err
			}
			if round == 0 { // connections were made
				continue
			}
			m.rounds, m.limits = append(m.rounds, us(second.Open)), append(m.limits, us(open))
			m.latency.add(second.Open)
			firsts, firstTouches = append(firsts, us(first.Open)), append(firstTouches, us(first.Touch))
			touches, bareTouches = append(touches, us(second.Touch)), append(bareTouches, us(touch))
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("bytes", sized(len(data)))
	m.note("first_share_us", figures(median(firsts)))
	m.note("first_share_of", "the first process that asks: the owner copies the value into memory that can be shared")
	m.note("touch_us", figures(median(touches)))
	m.note("touch_of", "reading a byte of every page for the first time, after View has called its function")
	m.note("first_share_touch_us", figures(median(firstTouches)))
	m.note("limit_touch_us", figures(median(bareTouches)))
	return m, err
}

// shareRound puts data and has both workers look at it, one after the other.
func (c *cluster) shareRound(driver context.Context, data []byte) (first, second seen, err error) {
	ref := raysys.Put(driver, data)
	before, err := c.sent(driver)
	if err != nil {
		return first, second, err
	}
	if first, err = c.look(driver, c.names[0], data, glance{Object: ref.Handle(), Touch: true}); err != nil {
		return first, second, err
	}
	if second, err = c.look(driver, c.names[1], data, glance{Object: ref.Handle(), Touch: true}); err != nil {
		return first, second, err
	}
	after, err := c.sent(driver)
	if err != nil {
		return first, second, err
	}
	if after != before {
		return first, second, fmt.Errorf("%d bytes were sent, and not shared: the processes cannot map each other's memory", after-before)
	}
	ref.Release()
	return first, second, c.empty(driver)
}

// mapped is the raw side: memory of this process that a child maps.
type mapped struct {
	child *process
	path  string
	n     int
	done  func() error
}

func newMapped(ctx context.Context, p Plan, data []byte) (*mapped, error) {
	path, done, err := shareable(data)
	if err != nil {
		return nil, err
	}
	child, err := launchReady(ctx, p, anywhere, childMap)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return &mapped{child, path, len(data), done}, nil
}

// open has the child map it, read a byte of every page, and put it back.
func (m *mapped) open() (open, touch time.Duration, err error) {
	line, err := m.child.ask(fmt.Sprint(m.path, " ", m.n))
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(line, (*int64)(&open), (*int64)(&touch)); err != nil {
		return 0, 0, fmt.Errorf("read what child measured, %q: %w", line, err)
	}
	return open, touch, nil
}

func (m *mapped) close() error { return errors.Join(m.child.end(), m.done()) }

// beMapper is the child: a path and a length on each line of its input.
func beMapper(_ context.Context, _ Plan, _ []string, in io.Reader, out io.Writer) error {
	return answerLines(in, out, func(line string) (string, error) {
		path, length, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(length)
		if err != nil {
			return "", fmt.Errorf("parent wrote %q, which is no path and length", line)
		}
		begin := time.Now()
		b, done, err := mapFile(path, n)
		if err != nil {
			return "", err
		}
		open := time.Since(begin)
		begin = time.Now()
		touched.Store(touch(b))
		took := time.Since(begin)
		return fmt.Sprint(int64(open), " ", int64(took)), done()
	})
}
