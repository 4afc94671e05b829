package firmware

import (
	"context"
	"io"
	"time"
)

// paced reads no faster than rate bytes a second, as a machine behind a slow
// link. The server notices once the buffers between are full.
type paced struct {
	ctx   context.Context //nolint:containedctx // of the one request whose body this is
	from  io.Reader
	rate  int64
	start time.Time
	read  int64
}

// pace slows a body down; a rate of 0 leaves it alone.
func pace(ctx context.Context, from io.Reader, rate int64) io.Reader {
	if rate <= 0 {
		return from
	}
	return &paced{ctx: ctx, from: from, rate: rate, start: time.Now()}
}

// Read waits until what was read before is due.
func (p *paced) Read(buffer []byte) (int, error) {
	due := p.start.Add(time.Duration(float64(p.read) / float64(p.rate) * float64(time.Second)))
	if err := sleep(p.ctx, time.Until(due)); err != nil {
		return 0, err
	}
	n, err := p.from.Read(buffer)
	p.read += int64(n)
	return n, err
}
