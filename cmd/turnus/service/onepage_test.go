package service

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
)

// The pages of one's own runs are for the browser that followed the link: others, other names of
// the machine, and changes are refused.
func TestServePages(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), ledger.Memory, ledger.Options{Private: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	q := memory.New(memory.Options{})
	t.Cleanup(q.Shutdown)
	ctl, err := controller.New(controller.Config{Name: "test", Ledger: l, Queue: q, Board: q, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	link, end, err := ServePages(t.Context(), Own{Ledger: l, Controller: ctl, Queue: q, Who: "ann", Log: slog.New(slog.DiscardHandler)}, "/settings")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	at, err := url.Parse(link)
	if err != nil || at.Hostname() != "127.0.0.1" {
		t.Fatalf("%s: %v", link, err)
	}
	ask := func(browser *http.Client, method, to, host string) (int, string, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Request.URL.Path, string(text)
	}
	if _, path, _ := ask(&http.Client{}, "GET", "http://"+at.Host+"/settings", ""); path != "/login" {
		t.Errorf("a browser without a session is at %s", path)
	}
	if status, _, _ := ask(&http.Client{}, "GET", "http://"+at.Host+"/login", "evil.example.net"); status != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", status)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/settings" || len(resp.Cookies()) != 1 {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	session := func(method, path string, form url.Values) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://"+at.Host+path, strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.AddCookie(resp.Cookies()[0])
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	status, text := session("GET", "/settings", nil)
	mark := markedFor.FindStringSubmatch(text)
	if status != http.StatusOK || !strings.Contains(text, "ann") || mark == nil {
		t.Fatalf("%d: %s", status, text)
	}
	if status, _ := session("GET", "/tokens", nil); status != http.StatusForbidden {
		t.Errorf("tokens are for admins: %d", status)
	}
	if status, text := session("POST", "/runs/r1/cancel", url.Values{"as": mark[1:]}); status != http.StatusForbidden {
		t.Errorf("a change: %d %s", status, text)
	}
}
