package runview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// FoldHosts writes many host names in at most so many characters: fw-7,web[1:3000:1]. If it is not
// cut, the text is a --limit for these hosts.
func FoldHosts(names []string, most int) string { return console.CutText(foldHosts(names), most) }

// foldHosts writes many host names shortly: edge-[0001:0040].acme, fw-7.
func foldHosts(names []string) string {
	type part struct {
		head, tail string
		width      int
	}
	numbers := map[part][]int{}
	var plain []string
	for _, name := range names {
		start, end := lastNumber(name)
		n, err := strconv.Atoi(name[start:end])
		if start == end || err != nil {
			plain = append(plain, name)
			continue
		}
		p := part{name[:start], name[end:], 0}
		if name[start] == '0' {
			p.width = end - start
		}
		numbers[p] = append(numbers[p], n)
	}
	var out []string
	for p, ns := range numbers {
		slices.Sort(ns)
		ns = slices.Compact(ns)
		for i := 0; i < len(ns); {
			j := i
			for j+1 < len(ns) && ns[j+1] == ns[j]+1 {
				j++
			}
			switch {
			case j-i >= 2:
				step := ""
				if p.tail == "" { // web[1:3] is also hosts of a group web, by their positions
					step = ":1"
				}
				out = append(out, fmt.Sprintf("%s[%0*d:%0*d%s]%s", p.head, p.width, ns[i], p.width, ns[j], step, p.tail))
			default:
				for k := i; k <= j; k++ {
					out = append(out, fmt.Sprintf("%s%0*d%s", p.head, p.width, ns[k], p.tail))
				}
			}
			i = j + 1
		}
	}
	out = append(out, plain...)
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(a, b) })
	return strings.Join(out, ",")
}

// lastNumber finds the last run of digits before the first dot, where host names count.
func lastNumber(name string) (start, end int) {
	label := len(name)
	if i := strings.IndexByte(name, '.'); i >= 0 {
		label = i
	}
	end = label
	for end > 0 && !digit(name[end-1]) {
		end--
	}
	start = end
	for start > 0 && digit(name[start-1]) {
		start--
	}
	if end-start > 9 {
		return end, end
	}
	return start, end
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
