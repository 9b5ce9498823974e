package runview

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestSourceText(t *testing.T) {
	for _, c := range []struct {
		source api.RunSource
		want   string
	}{
		{api.RunSource{Source: "nb", Generation: "sha256:01", Hosts: 12, Age: core.InSeconds(4 * time.Minute)}, "nb: 12 hosts, generation sha256:01, 4m0s old at the launch"},
		{api.RunSource{Source: "nb", Generation: "sha256:01", Hosts: 1, Age: core.InSeconds(30 * time.Hour)}, "nb: 1 host, generation sha256:01, 30h0m0s old at the launch"},
		{api.RunSource{Source: "nb", Generation: "sha256:01"}, "nb: hosts of on or hosts('…'), generation sha256:01, 0s old at the launch"},
	} {
		if got := SourceText(c.source); got != c.want {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}
