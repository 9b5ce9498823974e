package pictures

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core/api"
)

// mostShares is how many tenants the picture of shares has.
const mostShares = 40

// Shares draws how many hosts each tenant has at work, beside what it would have if all tenants
// shared the workers by weight: a bar, and a line across it. A triangle marks tenants that have
// less than their share while hosts wait.
func Shares(list []api.Share) Block {
	const label, plot, row, width = 180, 420, 24, 680
	list = list[:min(len(list), mostShares)]
	most := 1.0
	for i := range list {
		most = max(most, float64(list[i].Running), list[i].Fair)
	}
	s := &SVG{}
	for i := range list {
		one, y := &list[i], i*row
		fair := one.Fair
		s.Add(`<g><title>%s</title>`, fmt.Sprintf("%s: %d hosts at work, fair share %.1f, %d due, %d wait", Tenant(one.Tenant), one.Running, fair, one.Due, one.Waiting))
		s.Add(`<text x="0" y="%d">%s</text>`, y+16, short(Tenant(one.Tenant), 26))
		s.Add(`<rect class="c-run" x="%d" y="%d" width="%.1f" height="14"/>`, label, y+4, max(plot*float64(one.Running)/most, 1))
		at := label + plot*fair/most
		s.Add(`<line class="c-clock" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, at, y+1, at, y+21)
		x := label + plot*max(float64(one.Running), fair)/most + 8
		if Short(one) {
			s.Add(`<path class="c-bad" d="M%.1f %d l5 10 h-10 z"/>`, x+5, y+6)
			x += 16
		}
		s.Add(`<text class="dim" x="%.1f" y="%d">%s</text></g>`, x, y+16, fmt.Sprintf("%d of %.1f", one.Running, fair))
	}
	return block(s, width, max(len(list), 1)*row, "Hosts at work of each tenant, and its fair share")
}

// SharesDocument draws shares at a time as one self-contained picture.
func SharesDocument(list []api.Share, at time.Time) string {
	return sharesDocument(Shares(list), "Hosts at work by tenant, "+utc(at), "Bar: hosts at work. Line: fair share by weight. Triangle: less than that while hosts wait.")
}

// SortShares sorts tenants: those first that have less than their share, then those with the oldest
// overdue run, then those with the most waiting hosts.
func SortShares(list []api.Share) {
	slices.SortStableFunc(list, func(a, b api.Share) int {
		if x, y := Short(&a), Short(&b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(b.Waiting, a.Waiting))
	})
}

// Short reports whether a tenant has less than its fair share while hosts of it wait.
func Short(s *api.Share) bool { return s.Due > 0 && float64(s.Running) < s.Fair-0.5 }
