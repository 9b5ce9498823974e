package localrun

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

// The control: the queue's form of the same host has nanoseconds.
func TestHostsAreShownWithSeconds(t *testing.T) {
	host := core.Host{Name: "web1", SSH: core.SSH{User: "ops", ConnectTimeout: 1500 * time.Millisecond}}
	for want, v := range map[string]any{
		`[{"name":"web1","ssh":{"user":"ops","connect_timeout_seconds":1.5}},{"name":"web2"}]`: Shown([]core.Host{host, {Name: "web2"}}),
		`{"name":"web1","ssh":{"user":"ops","connect_timeout":1500000000}}`:                    host,
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
