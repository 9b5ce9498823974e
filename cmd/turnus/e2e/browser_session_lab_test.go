//go:build linux && labs

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// Times have the viewer's own zone. A session that ends while its page is open is reported there,
// with a link, and a form that is sent then is kept.
func TestLabBrowserOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s, run, b := atAThird(t)
	made := s.made("zoe", "operator", "*")
	b.leave()
	called(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	b.logIn(made.Secret)
	b.open("/runs/" + run)
	b.wait(`[...document.querySelectorAll("time")].every(t => t.title.startsWith("Your time: ") && t.title.includes("GMT+5:30"))`)
	s.approved(run, 2)
	b.sees("wave 3 for an approval")
	b.wait(`[...document.querySelectorAll("#run time")].length > 0 && [...document.querySelectorAll("#run time")].every(t => t.title !== "")`)

	b.fill("#pause-reason", "the storm")
	if _, err := s.client.RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	b.sees("Your session has ended. This page is as of ")
	b.wait(fmt.Sprintf(`document.querySelector("#live a").getAttribute("href") === "/login?next=%%2Fruns%%2F%s"`, run))
	b.press("Pause")
	b.sees("Your form is kept below")
	b.accessible("a form that is kept", allRules)
	if text, err := evaluated[string](b, `document.querySelector("[name=reason]").value`); err != nil || text != "the storm" {
		t.Errorf("the form has %q, %v", text, err)
	}
	if said := b.errors(); strings.Contains(said, "Content Security") {
		t.Error(said)
	}
}
