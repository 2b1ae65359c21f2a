package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// kind is how a server fails.
type kind string

const (
	silent  kind = "silent"  // it receives queries and does not answer
	refuses kind = "refuses" // its socket is closed: ICMP port unreachable, or a reset of TCP
	fails   kind = "fails"   // it answers SERVFAIL, or HTTP 503
	burns   kind = "burns"   // it takes burnt of processor time for each answer
)

// burnt is more than a server has for each query at the rates of a stall.
const burnt = 500 * time.Microsecond

// outage is an interval in which every query is lost. Planned ones count from the
// session's start, true ones are CLOCK_MONOTONIC.
type outage struct {
	kind     kind
	from, to time.Duration
}

// played is an actual outage: between from and to every query was certainly lost. Before
// and after are the times next to that in which one may have been lost, too, because the
// server did not get the processor while it closed or opened its socket.
type played struct {
	outage
	before, after time.Duration
}

// The parts of a session. The time between outages is more than the half second that
// separates two windows.
const (
	shortest   = 20 * time.Millisecond
	longest    = 10 * time.Second
	shortMost  = time.Second
	outages    = 3
	quietLeast = 700 * time.Millisecond
	// longEvery: the last outage of every session with this distance may be the longest.
	longEvery = 5
)

// session plans the outages of a session, of these kinds, and its duration.
func session(number int, random *rand.Rand, kinds []kind) (plan []outage, length time.Duration) {
	at := quietLeast
	for i := range outages {
		at += time.Duration(random.Float64() * float64(300*time.Millisecond))
		most := shortMost
		if number%longEvery == longEvery-1 && i == outages-1 {
			most = longest
		}
		// Every order of magnitude is equally likely.
		took := time.Duration(float64(shortest) * math.Pow(float64(most)/float64(shortest), random.Float64()))
		plan = append(plan, outage{kinds[random.IntN(len(kinds))], at, at + took})
		at += took + quietLeast
	}
	return plan, at
}
