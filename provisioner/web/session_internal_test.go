package web

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestASessionEndsAfterItsLifeAndWhenItIsIdle(t *testing.T) {
	t.Parallel()
	const life, idle = 12 * time.Hour, 2 * time.Hour
	for name, test := range map[string]struct {
		every time.Duration // between two uses
		open  bool          // a page is followed all the time
		want  time.Duration // when it ends
	}{
		"not used":        {0, false, idle},
		"used":            {idle - time.Second, false, life},
		"used too rarely": {idle, false, idle},
		"followed":        {0, true, life},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSessions(life, idle)
				begun := time.Now()
				id := s.begin(roleRead, "token", nil)
				b := s.enter(id)
				if b == nil {
					t.Fatal("a new session is not known")
				}
				if !test.open {
					s.leave(b)
				}
				gone := make(chan struct{})
				if test.every > 0 {
					go func() {
						defer close(gone)
						for {
							time.Sleep(test.every)
							u := s.enter(id)
							if u == nil {
								return
							}
							s.leave(u)
						}
					}()
				} else {
					close(gone)
				}
				<-b.stand.ctx.Done() // what is open ends by itself
				if took := time.Since(begun); took != test.want {
					t.Errorf("it ended after %s; want %s", took, test.want)
				}
				if s.enter(id) != nil || len(s.byHash) != 0 {
					t.Error("it is known still")
				}
				<-gone
			})
		})
	}
}

func TestASessionIsIdleFromTheEndOfItsLastPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(12*time.Hour, 2*time.Hour)
		id := s.begin(roleAdmin, "token", nil)
		b := s.enter(id)
		time.Sleep(5 * time.Hour)
		s.leave(b)
		time.Sleep(2*time.Hour - time.Second)
		if b.stand.ended() {
			t.Fatal("it ended before it was idle for long enough")
		}
		time.Sleep(2 * time.Second)
		if !b.stand.ended() {
			t.Error("it goes on although it is idle")
		}
	})
}

func TestASessionEndsWithWhatItComesFrom(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, time.Hour)
	defer s.endAll()
	from := newStanding(nil)
	id, other := s.begin(roleAdmin, "token", from), s.begin(roleAdmin, "token", newStanding(nil))
	from.end()
	if s.enter(id) != nil {
		t.Error("it goes on")
	}
	if s.enter(other) == nil {
		t.Error("that of another token ended too")
	}
	if s.enter("") != nil || s.enter("a guess") != nil {
		t.Error("a guess is a session")
	}
}

func TestOfTooManySessionsTheOneThatIsUsedLeastGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(time.Hour, time.Hour)
		defer s.endAll()
		first := s.begin(roleRead, "token", nil)
		time.Sleep(time.Second)
		second := s.begin(roleRead, "token", nil)
		time.Sleep(time.Second)
		s.leave(s.enter(first))
		for range maxSessions - 1 {
			s.begin(roleRead, "token", nil)
		}
		if len(s.byHash) != maxSessions {
			t.Errorf("%d sessions are kept; want %d", len(s.byHash), maxSessions)
		}
		if s.enter(second) != nil || s.enter(first) == nil {
			t.Error("another one has gone")
		}
	})
}

func TestATicketWorksOnceAndForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tickets := newTickets()
		from := newStanding(nil)
		add := func() string {
			secret, expires, err := tickets.add(roleRead, caller{role: roleAdmin, who: "root", stand: from})
			if err != nil || time.Until(expires) != time.Minute {
				t.Fatalf("a ticket until %s, %v", expires, err)
			}
			return secret
		}
		one, late, revoked := add(), add(), add()
		if k, ok := tickets.take(one); !ok || k.role != roleRead || k.who != "root" {
			t.Errorf("the ticket gives %+v, %t", k, ok)
		}
		if _, ok := tickets.take(one); ok {
			t.Error("it works twice")
		}
		time.Sleep(time.Minute)
		if _, ok := tickets.take(late); ok {
			t.Error("it works after a minute")
		}
		again := add()
		from.end()
		for _, secret := range []string{revoked, again, "a guess"} {
			if _, ok := tickets.take(secret); ok {
				t.Error("it works although it should not")
			}
		}
		for range maxTickets {
			_, _, _ = tickets.add(roleRead, caller{})
		}
		if _, _, err := tickets.add(roleRead, caller{}); err == nil {
			t.Error("tickets are kept without bounds")
		}
		time.Sleep(time.Minute)
		if _, _, err := tickets.add(roleRead, caller{}); err != nil {
			t.Errorf("old tickets are in the way: %v", err)
		}
	})
}

func TestASourceHasTenLoginsAtOnceAndThenOneInSixSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		for n := range loginBurst {
			if _, ok := a.take("10.0.0.1"); !ok {
				t.Fatalf("attempt %d is refused", n+1)
			}
		}
		wait, ok := a.take("10.0.0.1")
		if ok || wait != loginPause {
			t.Errorf("one more is allowed: %t, after %s; want it in %s", ok, wait, loginPause)
		}
		if _, ok := a.take("10.0.0.2"); !ok {
			t.Error("another source has to wait too")
		}
		time.Sleep(loginPause)
		if _, ok := a.take("10.0.0.1"); !ok {
			t.Error("it is refused after the wait")
		}
		if _, ok := a.take("10.0.0.1"); ok {
			t.Error("after one wait there are two attempts")
		}
		for n := range 2 * maxSources {
			a.take(fmt.Sprint("many-", n))
		}
		if len(a.sources) > maxSources+1 {
			t.Errorf("%d sources are remembered", len(a.sources))
		}
		time.Sleep(time.Hour)
		a.take("another")
		if len(a.sources) != 1 {
			t.Errorf("%d sources are remembered for an hour", len(a.sources)-1)
		}
	})
}

func TestASourceIsAnAddressOrANetworkOfIPv6(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"10.0.0.1:4711": "10.0.0.1", "[::ffff:10.0.0.1]:4711": "10.0.0.1", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "socket", "": "socket",
	} {
		if got := sourceOf(remote); got != want {
			t.Errorf("the source of %q is %q; want %q", remote, got, want)
		}
	}
}
