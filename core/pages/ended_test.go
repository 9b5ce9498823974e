package pages

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// A form that comes without a session is shown again, and neither lost nor sent
// automatically. Its values are
// text. It counts once somebody has logged in and sends it.
func TestAFormOutlivesItsSession(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	asked := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, a := range f.asked {
			if strings.HasPrefix(a, "POST /v1/runs/r1/pause") && strings.Contains(a, "deploy") {
				n++
			}
		}
		return n
	}
	send := func() (int, string) {
		t.Helper()
		_, _, text := visitor{t, web, browser, "acme"}.post("/runs/r1/pause?x="+url.QueryEscape(hostile), url.Values{"reason": {"deploy " + hostile}, "key": {"k1"}})
		resp, err := browser.PostForm(web.URL+"/runs/r1/pause", asAnn("acme", url.Values{"reason": {"deploy"}}))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, text
	}
	ended := func(what string) {
		t.Helper()
		status, text := send()
		if status != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, status)
		}
		has(t, what, text, `name="key" value="k1"`, `name="reason" value="deploy &lt;/td&gt;`, `action="/runs/r1/pause?x=`, `href="/login"`, "Send again")
		harmless(t, what, text)
	}
	if ended("nobody is logged in"); asked() != 0 {
		t.Errorf("without a session the API was asked %d times", asked())
	}
	logIn(t, web, browser, "good", "/")
	if status, _ := send(); status != http.StatusOK || asked() == 0 {
		t.Errorf("control: %d, asked %d times", status, asked())
	}
	f.mu.Lock()
	f.asked, f.refuse = nil, true
	f.mu.Unlock()
	ended("the API does not know the session any more")
	if resp, _ := get(t, browser, web.URL+"/hosts/web1"); resp.Request.URL.RequestURI() != "/login?next=%2Fhosts%2Fweb1" {
		t.Errorf("a page without a session leads to %s", resp.Request.URL)
	}
}

// A live page without a session gets an event; a redirect would have the browser ask for ever.
func TestALivePageLearnsThatItsSessionEnded(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	f.mu.Lock()
	f.refuse = true
	f.mu.Unlock()
	for _, known := range []bool{true, false} {
		for _, path := range []string{"/live?view=/runs/r1", "/runs/r1/hosts/2/live"} {
			resp, text := get(t, browser, web.URL+path)
			if text != "event: login\ndata: 1\n\n" || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s with a cookie (%t): %d %s", path, known, resp.StatusCode, text)
			}
		}
		browser.Jar, _ = cookiejar.New(nil)
	}
}
