package pages

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// Every time on a page names its zone, and has the form that browsers read, so that a script can
// add the viewer's own zone.
func TestTimesAreReadByBrowsers(t *testing.T) {
	_, web, browser := service(t, "*", "admin")
	found := 0
	paths := append([]string{"/", "/runs/r1", "/runs/r1/hosts/1", "/hosts/web1", "/fleet"}, servicePages...)
	for _, path := range paths {
		_, text := get(t, browser, web.URL+path)
		doc, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode || n.Data != "time" {
				continue
			}
			found++
			if _, err := time.Parse(time.RFC3339, n.Attr[0].Val); err != nil || n.FirstChild == nil || !strings.HasSuffix(n.FirstChild.Data, " UTC") {
				t.Errorf("%s: %v of %v", path, n.Attr, n.FirstChild)
			}
		}
	}
	if found <= len(paths) {
		t.Errorf("%d times on %d pages: each has one at its end, and some have more", found, len(paths))
	}
}
