package runview

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Hosts whose keys are not known are one reason; that the hint is of one of them is said, and a key
// in it is whole.
func TestReasonsOfKeysAreOfOneHost(t *testing.T) {
	key := "ssh-rsa " + strings.Repeat("A", 720)
	unknown := func(host, print string) api.Result {
		return api.Result{Host: host, Outcome: core.Unreachable, Reason: fmt.Sprintf("%s (127.0.0.1:22): unknown host key: ssh-rsa SHA256:%s\nhint: in known_hosts: %s %s", host, print, host, key)}
	}
	const note = "each showed another key; this is of web1:"
	for _, c := range []struct {
		name, second string
		varied       bool
	}{{"another key", "def", true}, {"the same key", "abc", false}} {
		var out strings.Builder
		WriteReasons(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, []api.Result{unknown("web1", "abc"), unknown("web2", c.second)})
		if got := out.String(); !strings.Contains(got, "2 hosts: web1,web2") || strings.Contains(got, note) != c.varied || !strings.Contains(got, "web1 "+key+"\n") {
			t.Errorf("%s:\n%s", c.name, got)
		}
	}
}
