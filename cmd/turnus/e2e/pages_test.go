//go:build linux

package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pages of a real service: a person without a session sees the login, and a person with the
// admin's token sees the run, what went wrong, and a host. The hosts answer to nobody, which is
// what goes wrong.
func TestPagesOfAService(t *testing.T) {
	t.Parallel()
	u := newUpSite(t, 3, "{uses: command, with: {run: id}}")
	p, c := u.up()
	run := submitted(t, c)
	until(t, "the end of the run", func() bool {
		now, err := c.Run(t.Context(), run.ID)
		return err == nil && now.Complete()
	})
	browser := &http.Client{Jar: onLoopback(t)}
	open := func(path string) string {
		t.Helper()
		resp, err := browser.Get(c.Server() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := open("/runs/" + run.ID); !strings.Contains(text, `name="token"`) || strings.Contains(text, "unreachable") {
		t.Errorf("without a session: %s", text)
	}
	token, err := os.ReadFile(filepath.Join(u.data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := browser.PostForm(c.Server()+"/login", url.Values{"token": {string(token)}, "next": {"/"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for path, parts := range map[string][]string{
		"/":                 {"Ended lately", "/runs/" + run.ID},
		"/runs/" + run.ID:   {"Results", "3 unreachable", "host-00000"},
		"/hosts/host-00000": {"What happened here", "/runs/" + run.ID},
		"/hosts/nosuch":     {"nosuch"},
		"/playbooks":        {`href="/playbooks/all"`},
		"/schedules":        {"There is no schedule"},
		"/windows":          {"Nothing waits for a decision"},

		"/runs/" + run.ID + "/retry":    {"Retry on 3 hosts"},
		"/playbooks/all?plan=1&check=1": {"Dry run on 3 hosts", "P90"},
	} {
		text := open(path)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q: %s", path, part, text)
			}
		}
	}
	p.kill()
}

// onLoopback keeps cookies as browsers do on this machine: those that ask for https also over http.
func onLoopback(t *testing.T) http.CookieJar {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return secureToo{jar}
}

type secureToo struct{ http.CookieJar }

func (j secureToo) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		c.Secure = false
	}
	j.CookieJar.SetCookies(u, cookies)
}
