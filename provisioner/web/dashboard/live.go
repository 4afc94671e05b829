package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

// sinkKey is the context's key of where a page's view goes in place of a browser.
type sinkKey struct{}

// sink takes the view of a page.
type sink struct {
	view view
	err  error
	// since is when there was news: what is shown must not be older.
	since time.Time
}

// liveURL is the stream of a page.
func liveURL(page *url.URL) string {
	asked := url.URL{Path: page.Path, RawPath: page.RawPath, RawQuery: page.RawQuery}
	return "/live?page=" + url.QueryEscape(asked.RequestURI())
}

// look finds what a page shows now.
func (s *site) look(ctx context.Context, page string, since time.Time) (view, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil || r.URL.Host != "" || r.URL.Path == "/live" {
		return view{}, web.Invalid(errors.New("there is no such page to follow"), "")
	}
	got := &sink{err: web.NotFound("there is no such page to follow"), since: since}
	s.mux.ServeHTTP(discard{}, r.WithContext(context.WithValue(ctx, sinkKey{}, got)))
	if got.err == nil && len(got.view.pieces) == 0 {
		return view{}, web.NotFound("this page does not change")
	}
	return got.view, got.err
}

// live streams what changes on a page, as elements that replace those of their id.
// What it sends depends on what the page shows now and on what was sent before, and on
// no event in between: who comes back after a break is told all, and misses nothing.
func (s *site) live(w http.ResponseWriter, r *http.Request) {
	select {
	case s.viewers <- struct{}{}:
		defer func() { <-s.viewers }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are followed already; this one stays as it was loaded", http.StatusServiceUnavailable)
		return
	}
	page := r.URL.Query().Get("page")
	v, err := s.look(r.Context(), page, time.Time{})
	if err != nil {
		status, f := statusOf(err)
		http.Error(w, f.Text, status)
		return
	}
	l, leave := s.hub.join(r.Context(), v.cluster, v.node)
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // for a proxy that would keep it back
	st := &stream{site: s, w: w, page: page, sent: map[string]string{}, last: map[string]time.Time{}}
	if err := st.run(r.Context(), l, v.heavy); err != nil && r.Context().Err() == nil {
		s.opts.Log.Debug("a page is followed no more", "page", page, "error", err)
	}
}

// stream is one page that is followed.
type stream struct {
	site *site
	w    http.ResponseWriter
	page string
	// sent is what the viewer has, without the times that pass by themselves, by piece and row.
	sent map[string]string
	last map[string]time.Time // when a piece that may not change often was sent
	seq  int
}

// run sends updates until ctx ends or the viewer is gone.
func (st *stream) run(ctx context.Context, l *listener, heavy bool) error {
	heartbeat := time.NewTicker(st.site.opts.Heartbeat)
	defer heartbeat.Stop()
	var since time.Time
	for beats := 0; ; {
		took, err := st.update(ctx, since)
		if err != nil {
			return err
		}
		if !wait(ctx, max(st.site.opts.Pace, min(10*took, 10*time.Second))) {
			return ctx.Err()
		}
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-l.news:
				due, since = true, time.Now()
			case <-heartbeat.C:
				// What no event tells of: holds, unknown machines, the inventory. A page that is dear to
				// make is looked at for them at each sixth beat only.
				if beats++; !heavy || beats%6 == 0 {
					due = true
				} else if err := st.send(nil); err != nil {
					return err
				}
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// update sends what has changed, and says how long it took to make.
func (st *stream) update(ctx context.Context, since time.Time) (took time.Duration, err error) {
	began := time.Now()
	v, err := st.site.look(ctx, st.page, since)
	if err != nil {
		return 0, err // the page is gone, or cannot be made now: the viewer comes back and is told
	}
	if !v.heavy {
		began = time.Now() // the picture of the fleet has its own pace
	}
	var changed []template.HTML
	for _, p := range append(v.pieces, st.site.navPieces(ctx)...) {
		part, err := st.changes(p)
		if err != nil {
			return 0, err
		}
		changed = append(changed, part...)
	}
	return time.Since(began), st.send(changed)
}

// changes are the elements of a piece that the viewer does not have.
func (st *stream) changes(p piece) ([]template.HTML, error) {
	if p.every > 0 && time.Since(st.last[p.template]) < p.every {
		return nil, nil
	}
	if p.row != "" {
		return st.rows(p)
	}
	html, err := st.site.views.render(p.template, p.data)
	if err != nil || !st.isNew(p.template, html) {
		return nil, err
	}
	st.last[p.template] = time.Now()
	return []template.HTML{html}, nil
}

// rows are the rows that have changed, or the whole piece when they are others, or others first.
func (st *stream) rows(p piece) ([]template.HTML, error) {
	var changed []template.HTML
	var order bytes.Buffer
	for _, r := range p.rows {
		html, err := st.site.views.render(p.row, r)
		if err != nil {
			return nil, err
		}
		if st.isNew(p.row+" "+r.rowID(), html) {
			changed = append(changed, html)
		}
		order.WriteString(r.rowID() + "\n")
	}
	if !st.isNew(p.template, template.HTML(order.String())) { //nolint:gosec // it is compared, not sent
		return changed, nil
	}
	html, err := st.site.views.render(p.template, p.data)
	return []template.HTML{html}, err
}

// isNew says whether something differs from what was sent, but for times that pass, and keeps it.
func (st *stream) isNew(key string, html template.HTML) bool {
	lasting := withoutAges(string(html))
	if st.sent[key] == lasting {
		return false
	}
	st.sent[key] = lasting
	return true
}

// send writes a message: the elements, and the time of the page.
func (st *stream) send(elements []template.HTML) error {
	beat, err := st.site.views.render("beat", st.site.opts.Now())
	if err != nil {
		return err
	}
	st.seq++
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\nevent: update\n", st.seq)
	for _, e := range append(elements, beat) {
		for line := range bytes.Lines(swapped(e)) {
			b.WriteString("data: ")
			b.Write(bytes.TrimRight(line, "\r\n"))
			b.WriteByte('\n')
		}
	}
	b.WriteByte('\n')
	if _, err := st.w.Write(b.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(st.w).Flush()
}

// swapped makes an element one that takes the place of the one with its id. A row of a table
// can stand in a template only.
func swapped(element template.HTML) []byte {
	// A carriage return would end a line of the stream, and begin what a machine sent as one of ours.
	html := bytes.ReplaceAll(bytes.TrimSpace([]byte(element)), []byte("\r"), []byte(" "))
	at := bytes.IndexByte(html, ' ')
	if at < 0 {
		return html
	}
	var b bytes.Buffer
	b.WriteString("<template>")
	b.Write(html[:at])
	b.WriteString(` hx-swap-oob="true"`)
	b.Write(html[at:])
	b.WriteString("</template>\n")
	return b.Bytes()
}

// ageMark is how a time begins that passes by itself; it holds no other element.
const ageMark = `<span class="ago">`

// withoutAges leaves out the times that pass by themselves: the browser keeps them up to date.
func withoutAges(html string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(html, ageMark)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if _, html, found = strings.Cut(after, "</span>"); !found {
			return b.String()
		}
	}
}

// discard is no browser: what is looked at goes into the sink.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
