package service

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/testparts"
)

// The form of a playbook has the rules of every launcher: in its preview, and when it launches. An
// input has text only, so a row without Text has its JSON as text if it is text.
func TestParamsOfForms(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	docs := []definitions.Document{
		{Path: "playbooks/shop.yaml", Data: []byte("playbook: shop\ntargets: true\nwindow: none\nsteps: [{uses: command, with: {run: uptime}}]\n" + testparts.Params)},
		{Path: "inventory/hosts.yaml", Data: []byte("hosts:\n  web1: {address: 192.0.2.9}\n")},
	}
	if _, err := s.catalog.Apply(t.Context(), "test", docs, definitions.Revision{}, catalog.AnyVersion); err != nil {
		t.Fatal(err)
	}
	secret, _ := s.token("ann", "", "operator")
	cookie := s.logIn(0, secret)
	rows := append(testparts.ParamRows(),
		testparts.ParamRow{Name: "zones", Text: "c\r\nd", Want: []any{"c", "d"}},
		testparts.ParamRow{Name: "zones", Text: "null", Want: []any{"null"}},
		testparts.ParamRow{Name: "zones", Text: "[1]", Says: "expected a list of texts"})
	for _, c := range rows {
		text, isText := c.JSON.(string)
		if c.Text != "" {
			text, isText = c.Text, true
		}
		if !isText && c.JSON != nil || c.Name == "zones" && text == "c" { // one line is a list
			continue
		}
		if text == "" && c.Says != "" && c.Name != "release" { // an empty input is no value
			continue
		}
		form := url.Values{"param.release": {"1.0"}}
		form.Set("param."+c.Name, text)
		t.Run(fmt.Sprintf("%s=%s", c.Name, text), func(t *testing.T) {
			t.Parallel()
			s.formParam(t, form, cookie, c)
		})
	}
}

// hidden finds the inputs of a form that its preview hands on.
var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// formParam sends a form, and its preview if that launches, and compares what becomes of it.
func (s *site) formParam(t *testing.T, form url.Values, cookie *http.Cookie, c testparts.ParamRow) {
	t.Helper()
	read := func(resp *http.Response) string {
		t.Helper()
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	preview := s.send(0, "GET", "/playbooks/shop?plan=1&"+form.Encode(), nil, []*http.Cookie{cookie})
	body := read(preview)
	if c.Says != "" {
		if preview.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(html.UnescapeString(body), c.Says) {
			t.Errorf("the preview: %d, expected %q", preview.StatusCode, c.Says)
		}
		form.Set("hash", "x")
		form.Set("hosts", "1")
		if a := s.send(0, "POST", "/playbooks/shop/launch", form, []*http.Cookie{cookie}); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(html.UnescapeString(read(a)), c.Says) {
			t.Errorf("the launch: %d, expected %q", a.StatusCode, c.Says)
		}
		return
	}
	sent := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(body, -1) {
		sent.Set(m[1], html.UnescapeString(m[2]))
	}
	if sent.Get("hash") == "" {
		t.Fatalf("the preview: %d without a plan", preview.StatusCode)
	}
	sent.Set("typed", sent.Get("hosts"))
	at := s.ask(0, "POST", "/playbooks/shop/launch", sent, cookie).Header.Get("Location")
	m, err := s.ledger.Material(t.Context(), path.Base(at))
	if err != nil {
		t.Fatalf("the launch leads to %q: %v", at, err)
	}
	l, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Playbook.Values()[c.Name]; !reflect.DeepEqual(got, c.Want) {
		t.Errorf("steps read %#v, expected %#v", got, c.Want)
	}
}
