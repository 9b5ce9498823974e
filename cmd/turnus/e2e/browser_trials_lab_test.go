//go:build linux && labs

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/transport/fleet"
)

// Four questions of docs/trials-pages.md, each from the overview, by what a person clicks. A page
// that is one more click away fails.
func TestLabBrowserAnswersWithinAFewClicks(t *testing.T) {
	t.Parallel()
	s := newFleetSite(t, 24)
	failed, waits := s.launched("fails"), s.launched("waves")
	s.over(failed)
	s.waiting(waits)
	customer := s.role("anton", "approver", "customer-0")
	for _, q := range []struct {
		who, token, question string
		clicks               []string // texts of links and buttons, or =FIELD=TEXT, which is typed
		sees                 []string
	}{
		{"on call", s.token, "what failed and why", []string{"fails", s.fleet.Hosts()[0].Name}, []string{"exit status 3", "<b>no</b>"}},
		{"on call", s.token, "which window is next", []string{"Calendar"}, []string{"Next windows", "customer-0 / maintenance, not approved"}},
		{"customer", customer, "approve it", []string{"window set", "Approve …", "=reason=CHG7", "Approve these windows"}, []string{"anton approved", "CHG7"}},
		{"on call", s.token, "done by Sunday", []string{"waves"}, []string{"Ends by", "What binds it"}},
	} {
		for _, width := range []int64{390, 1280} {
			if q.token == customer && width > 390 {
				continue // the customer's one set is approved
			}
			b := newBrowser(t, s.client.Server())
			b.screen(width, "light")
			b.logIn(q.token)
			b.open("/")
			begun := time.Now()
			for i, what := range q.clicks {
				if field, text, typed := strings.Cut(strings.TrimPrefix(what, "="), "="); typed {
					b.fill(fmt.Sprintf("details[open] [name=%s]", field), text)
					continue
				}
				find := fmt.Sprintf("[...document.querySelectorAll('main a, main button, main summary, nav a')].find(e => e.offsetParent !== null && e.textContent.trim().includes(%q))", what)
				b.wait(find + " !== undefined")
				b.keep(fmt.Sprintf("trial-%s-%d-%d", strings.ReplaceAll(q.question, " ", "-"), width, i))
				b.wait("(e => e !== undefined && (document.documentElement.dataset.clicked = e.localName, e.click()) === undefined)(" + find + ")")
				b.wait("document.documentElement.dataset.clicked !== 'a'") // a link leads to another page
			}
			for _, text := range q.sees {
				b.sees(text)
			}
			b.keep(fmt.Sprintf("trial-%s-%d-end", strings.ReplaceAll(q.question, " ", "-"), width))
			t.Logf("%s, %s, %d pixels: %d clicks, %.1f s", q.who, q.question, width, len(q.clicks), time.Since(begun).Seconds())
			b.calm()
		}
	}
}

// Each page of an empty service shows a newcomer what to do next.
func TestLabBrowserTellsANewcomerWhatToDo(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1})
	data := filepath.Join(l.dir, "data")
	p := l.start(append([]string{"up", "--data", data, "--listen", "127.0.0.1:0", "--context", ""}, l.pluginFlags()...)...)
	until(t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, address(p))
	b.logIn(strings.TrimSpace(string(token)))
	for path, text := range map[string]string{
		"/": "turnus project apply", "/fleet": "turnus project apply", "/playbooks": "turnus project apply", "/schedules": "turnus schedules set", "/windows": "turnus project apply", "/project": "turnus project apply", "/calendar": "turnus project apply",
	} {
		b.open(path)
		b.keep("newcomer-" + path)
		if shown, err := evaluated[string](b, "document.body.innerText"); err != nil || !strings.Contains(shown, text) {
			t.Errorf("%s does not show %q: %s, %v", path, text, shown, err)
		}
	}
}
