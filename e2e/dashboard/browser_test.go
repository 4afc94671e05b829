package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/talos-provision/provision/e2e/needs"
)

// patience bounds every wait of these tests: one that needs it has failed.
const patience = 30 * time.Second

// stopBrowser ends the one Chromium of this package, if it was started.
var stopBrowser = func() {}

// scratch holds what all tests share: the program, and the browser's profile.
var scratch string

func TestMain(m *testing.M) {
	status, err := inScratch(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func inScratch(m *testing.M) (status int, err error) {
	if scratch, err = os.MkdirTemp("", "dashboard-"); err != nil {
		return 1, err
	}
	status = m.Run()
	stopBrowser()
	return status, os.RemoveAll(scratch)
}

// browser starts Chromium once, with an empty profile, and without all that would leave this host.
var browser = sync.OnceValues(func() (context.Context, error) {
	options := append(make([]chromedp.ExecAllocatorOption, 0, 20),
		chromedp.ExecPath("chromium"), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(filepath.Join(scratch, "profile")), chromedp.WSURLReadTimeout(patience),
	)
	for _, name := range []string{
		"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-default-apps", "disable-extensions",
		"disable-dev-shm-usage", "disable-domain-reliability", "hide-scrollbars", "mute-audio", "no-pings",
	} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	stopBrowser = func() {
		closeBrowser()
		end()
	}
	return ctx, chromedp.Do(ctx)
})

// tab is a tab of its own, with cookies of its own. What its console says is told
// against the test, unless the test takes it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

func newTab(t *testing.T) *tab {
	t.Helper()
	needs.Program(t, "chromium")
	running, err := browser()
	if err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	ctx, closeTab := chromedp.NewContext(running, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	t.Cleanup(func() {
		closeTab()
		for _, problem := range p.taken() {
			t.Errorf("the browser says: %s", problem)
		}
	})
	command(p, cdplog.Enable, cdp.Empty{})
	command(p, runtime.Enable, cdp.Empty{})
	return p
}

// listen keeps errors of the console: exceptions, violations of the content security
// policy, files that are not there.
func (p *tab) listen(event any) {
	var problem string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		problem = "console." + string(e.Type)
		for _, a := range e.Args {
			problem += " " + string(a.Value) + a.Description
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level != cdplog.EntryLevelError && e.Entry.Level != cdplog.EntryLevelWarning {
			return
		}
		problem = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

// taken are what the console said since it was asked last.
func (p *tab) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.problems
	p.problems = nil
	return all
}

// expect takes problems that have to be there, and only them.
func (p *tab) expect(text string) {
	p.t.Helper()
	found := false
	for _, problem := range p.taken() {
		if !strings.Contains(problem, text) {
			p.t.Errorf("the browser says: %s", problem)
		}
		found = true
	}
	if !found {
		p.t.Errorf("the browser does not say %q", text)
	}
}

// within is the tab for one thing to do, which may not take for ever.
func (p *tab) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, patience)
}

// do runs actions in the tab.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// command gives the browser a command of its protocol.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	result, err := chromedp.Call(ctx, c, params)
	if err != nil {
		p.t.Fatalf("%s: %v", c.Method, err)
	}
	return result
}

// open loads a page, and says its status.
func (p *tab) open(url string) int {
	p.t.Helper()
	return p.follow(chromedp.Navigate(url))
}

// follow does what leads to another page, and says its status.
func (p *tab) follow(actions ...chromedp.Action[chromedp.Void]) int {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	response, err := chromedp.RunResponse(ctx, actions...)
	if err != nil {
		p.t.Fatalf("load a page: %v", err)
	}
	return int(response.Status)
}

// value evaluates an expression in the page.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return v
}

// text is what a person reads in an element, without line breaks.
func (p *tab) text(selector string) string {
	p.t.Helper()
	s := value[string](p, fmt.Sprintf(`(document.querySelector(%q) || {}).innerText || ""`, selector))
	return strings.Join(strings.Fields(s), " ")
}

// until waits for an expression to hold.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for !value[bool](p, "Boolean("+expression+")") {
		select {
		case <-tick.C:
		case <-deadline:
			p.t.Fatalf("waited in vain for %s; the page says:\n%s", what, p.text("body"))
		}
	}
}

// live waits until the page is followed.
func (p *tab) live() {
	p.t.Helper()
	p.until("the page to be live", `document.getElementById("live").dataset.state === "live"`)
}

// picture is what the tab shows, as PNG.
func (p *tab) picture() []byte {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a picture: %v", err)
	}
	return png
}

// scheme has the page be told that a person wants it dark, or light.
func (p *tab) scheme(name string) {
	p.t.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// size is the window's, in CSS pixels.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	command(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}
