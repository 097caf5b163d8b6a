package mesh

import "time"

// Times are the times of the links that follow from the lease. A broken pair has to be found, and a way around it, before the
// membership acts upon the silence: it makes the pair known after one and a half leases and ends it after two.
//
//	0 ────── silent ────── + dial ────────────── TTL ────────── 1.5 TTL
//	     is it the pair?   direct failed:        a vote         the pair is made known
//	     (ask the others)  relay it
type Times struct {
	Ping      time.Duration // between two pings of a connection
	Silent    time.Duration // the silence after which a pair may be broken: four pings
	Dial      time.Duration // for one connection; a second attempt, or a relay, still fits
	Handshake time.Duration // from the connection to the session: the identity may be looked up in the store meanwhile
	// Loss is how long a connection lives on that has lost frames. Requests with a deadline of their own may end by it meanwhile, and
	// a way that loses frames all the time does not make a connection for each of them.
	Loss time.Duration
}

// TimesOf are the same for every lease from 10 s on.
func TimesOf(ttl time.Duration) Times {
	silent := min(ttl/3, 2*time.Second)
	return Times{Ping: silent / 4, Silent: silent, Dial: min(ttl/4, 2500*time.Millisecond), Handshake: min(ttl/2, 5*time.Second), Loss: min(ttl/2, 5*time.Second)}
}
