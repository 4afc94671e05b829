package httpboot

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestQueueFollowsTheMachine: little for one that has taken nothing, more for one
// that takes, little again at the end, and more for no more of them than there is
// memory for.
func TestQueueFollowsTheMachine(t *testing.T) {
	t.Parallel()
	s := &spare{most: 1}
	one, two := queueOf(t, s), queueOf(t, s)
	const size = 100 << 20
	steps := []struct {
		q    *queue
		sent int64
		want int
	}{
		{one, 0, someUnsent}, {one, takenBefore - 1, someUnsent}, {one, takenBefore, muchUnsent}, {one, 50 << 20, muchUnsent},
		{two, 50 << 20, someUnsent}, // no room
		{one, size - muchUnsent, someUnsent},
		{two, 60 << 20, muchUnsent},
		{one, size, someUnsent},
	}
	for _, step := range steps {
		step.q.adapt(step.sent, size-step.sent)
		if got := unsentOf(t, step.q); got != step.want {
			t.Errorf("after %d of %d bytes up to %d may be unsent, want %d", step.sent, size, got, step.want)
		}
	}
	two.shorten() // it hung up in the middle
	two.shorten()
	one.adapt(4<<20, 8<<20) // too little is left to be worth it
	if diff := cmp.Diff([]int64{0, someUnsent, someUnsent}, []int64{s.taken.Load(), int64(unsentOf(t, one)), int64(unsentOf(t, two))}); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	var none *queue // a connection that is no socket
	none.adapt(50<<20, 50<<20)
	none.shorten()
}

func queueOf(t *testing.T, s *spare) *queue {
	t.Helper()
	l := listen(t)
	dialed := dial(t, l.Addr().String())
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close(); _ = dialed.Close() })
	q, ok := withQueue(t.Context(), accepted, s).Value(queueKey{}).(*queue)
	if !ok {
		t.Fatal("the connection has no queue")
	}
	return q
}

func unsentOf(t *testing.T, q *queue) int {
	t.Helper()
	var got int
	var err error
	if controlErr := q.raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	return got
}

// TestMachinesThatStopInTheMiddleKeepNobodyOut: forty of them take enough to
// be given a long queue, then nothing more.
func TestMachinesThatStopInTheMiddleKeepNobodyOut(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 32<<20)
	ended := make(chan Transfer, 200)
	addr := start(t, Options{Assets: cache, StallTimeout: 2 * time.Second, OnTransfer: func(tr Transfer) { ended <- tr }})
	const stopping = 40
	for i := range stopping {
		c := dialFrom(t, fmt.Sprintf("127.3.20.%d", i+1), addr)
		begin(t, c, ref)
		if _, err := io.CopyN(io.Discard, c, 3<<20); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if size, _, err := honest(ctx, addr, ref, time.Millisecond); err != nil || size != int64(len(content)) {
		t.Errorf("an honest machine got %d bytes beside them, error %v", size, err)
	}
	cut := 0
	for range stopping + 1 {
		if tr := <-ended; tr.Err != nil {
			cut++
		}
	}
	if cut != stopping {
		t.Errorf("%d transfers were cut, want %d", cut, stopping)
	}
}
