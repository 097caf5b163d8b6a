package transfer

import "slices"

// cargo is which chunks of a flight are where, guarded by the flight's mu.
type cargo struct {
	chunks []chunk
	next   int   // from here on nothing has been asked for
	again  []int // chunks that were asked for, and are open again
	left   int   // chunks that are not stored yet
}

type chunk struct {
	place place
	by    *feed // that it is asked of
}

type place uint8

const (
	open    place = iota // no source was asked, or the ask failed
	asked                // of by
	landing              // it is being read into its place
	stored
)

func (c *cargo) load(n int) { c.chunks, c.left = make([]chunk, n), n }

// take finds the next open chunk and charges it to d; -1 when there is none.
func (c *cargo) take(d *feed) int {
	for len(c.again) > 0 {
		i := c.again[0]
		c.again = c.again[1:]
		if c.chunks[i].place == open {
			c.charge(i, d)
			return i
		}
	}
	for c.next < len(c.chunks) {
		i := c.next
		c.next++
		if c.chunks[i].place == open {
			c.charge(i, d)
			return i
		}
	}
	return -1
}

func (c *cargo) charge(i int, d *feed) {
	c.chunks[i] = chunk{asked, d}
	d.pending = append(d.pending, i)
}

// discharge takes a chunk off the feed that it was asked of, which is returned.
func (c *cargo) discharge(i int) *feed {
	d := c.chunks[i].by
	if d == nil {
		return nil
	}
	c.chunks[i].by = nil
	if at := slices.Index(d.pending, i); at >= 0 {
		d.pending = slices.Delete(d.pending, at, at+1)
	}
	return d
}

// reopen makes a chunk open again.
func (c *cargo) reopen(i int) {
	c.discharge(i)
	c.chunks[i].place = open
	at, _ := slices.BinarySearch(c.again, i)
	c.again = slices.Insert(c.again, at, i)
}

// release reopens all that is asked of d and not landing.
func (c *cargo) release(d *feed) {
	for _, i := range slices.Clone(d.pending) {
		if c.chunks[i].place == asked {
			c.reopen(i)
		} else {
			c.discharge(i)
		}
	}
}
