package forecast

import (
	"errors"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

func TestDist(t *testing.T) {
	d, err := Assumed(10*time.Minute, 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[float64]time.Duration{0.5: 10 * time.Minute, 0.95: 30 * time.Minute} {
		if got := d.Quantile(p); got < want-want/20 || got > want+want/20 {
			t.Errorf("quantile %v is %s, expected about %s", p, got, want)
		}
	}
	var many []time.Duration
	for i := range 1000 {
		many = append(many, time.Duration(999-i)*time.Second)
	}
	for _, d := range []Dist{Observed(many), Observed(many[:100])} {
		for p := 0.0; p < 1; p += 0.1 {
			if d.Quantile(p) > d.Quantile(p+0.1) {
				t.Errorf("quantile %v is over the next", p)
			}
		}
	}
	if got := Observed(many).Quantile(0.95); got < 945*time.Second || got > 955*time.Second {
		t.Errorf("p95 of 0 to 999 s is %s", got)
	}
	if (Dist{}).Quantile(0.5) != 0 || always(time.Hour).Quantile(0) != time.Hour || Observed(nil).Quantile(1) != 0 {
		t.Error("the small ones")
	}
	for _, c := range [][2]time.Duration{{0, 1}, {2, 1}, {-1, 5}} {
		if _, err := Assumed(c[0], c[1]); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// always takes d.
func always(d time.Duration) Dist { return Observed([]time.Duration{d}) }
