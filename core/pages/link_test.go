package pages

import (
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A link logs one browser in. It holds once, for a while, and leads nowhere else.
func TestLink(t *testing.T) {
	p, err := New(Config{API: newFake(), Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(p)
	t.Cleanup(web.Close)
	browser := web.Client()
	browser.Jar, _ = cookiejar.New(nil) // no options, no error
	path := p.Link("good", "/runs/r1")
	if resp, text := get(t, browser, web.URL+path); resp.Request.URL.Path != "/runs/r1" || !strings.Contains(text, "ann of acme") {
		t.Errorf("%s: %s", resp.Request.URL, text)
	}
	browser.Jar, _ = cookiejar.New(nil)
	for _, again := range []string{path, linkPath, linkPath + "?code=x", p.Link("bad", "/")} {
		if resp, _ := get(t, browser, web.URL+again); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", again, resp.StatusCode)
		}
	}
	if resp, _ := get(t, browser, web.URL+p.Link("good", "//evil.example.net")); resp.Request.URL.Path != "/" || resp.Request.URL.Host != strings.TrimPrefix(web.URL, "https://") {
		t.Errorf("a link leads to %s", resp.Request.URL)
	}
}

func TestLinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pages
		code := func() string { return strings.TrimPrefix(p.Link("good", "/"), linkPath+"?code=") }
		first, second := code(), code()
		<-time.After(linkTime - time.Second)
		if _, ok := p.links.use(first); !ok {
			t.Error("it ended early")
		}
		<-time.After(time.Second)
		if _, ok := p.links.use(second); ok || len(p.links.codes) != 0 {
			t.Error("it holds for ever")
		}
	})
}
