package playbooks

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	wantPause    = "approve, or a duration such as 30m"
	wantNextWave = "a share of the released hosts such as 98%, or a duration such as 10m"
	patternGroup = `^(ha_group|site|customer|pool|label:.+)$`
	maxGroup     = 1_000_000
	maxWaves     = 100
)

// wavesOf reads growing sizes. Counts and shares cannot be compared before the hosts are known, so
// each kind must grow alone; a last wave of all is added.
func (d *decoder) wavesOf(n *yaml.Node) []rollout.Size {
	items := d.List(n, "a list of sizes such as [1, 5%, 100%]")
	if len(items) > maxWaves {
		d.reportNode(n, problem{message: fmt.Sprintf("%d waves", len(items)), expected: fmt.Sprintf("%d at most", maxWaves)})
		return nil
	}
	var out []rollout.Size
	var last rollout.Size // the largest so far, by kind
	for _, item := range items {
		size := d.sizeOf(item)
		if size == (rollout.Size{}) {
			continue
		}
		if size.Count > 0 && size.Count <= last.Count || size.Count == 0 && size.Percent <= last.Percent || last.Percent == 100 {
			d.reportNode(item, problem{message: "this wave is not larger than the one before", expected: "sizes that grow: each wave counts all hosts up to its end",
				hint: "[1, 5%, 100%] is one host, then 5 % of all, then all"})
		}
		last = rollout.Size{Count: max(last.Count, size.Count), Percent: max(last.Percent, size.Percent)}
		out = append(out, size)
	}
	if len(out) > 0 && out[len(out)-1].Percent != 100 {
		out = append(out, rollout.Size{Percent: 100})
	}
	return out
}

var groupPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternGroup) })

func (d *decoder) perGroupOf(n *yaml.Node) map[string]int {
	known := []string{"ha_group", "site", "customer", "pool", "label:NAME"}
	out := map[string]int{}
	for _, e := range d.Pairs(n, "per_group") {
		if !groupPattern().MatchString(e.Name) {
			hint := yamlread.DidYouMean(e.Name, known[:3])
			if hint == "" && !strings.Contains(e.Name, ":") {
				hint = fmt.Sprintf("a label is written %q", "label:"+clip(e.Name, 40))
			}
			d.reportNode(e.Key, problem{message: fmt.Sprintf("unknown group %s in per_group", quote(e.Name)),
				expected: yamlread.OneOf(known), hint: hint})
			continue
		}
		out[e.Name] = d.intOf(e.Value, 1, maxGroup)
	}
	return out
}

func (d *decoder) pauseOf(n *yaml.Node) rollout.Pause {
	target, ok := d.Scalar(n, wantPause)
	if !ok {
		return rollout.Pause{}
	}
	if target.Value == "approve" {
		return rollout.Pause{Approve: true}
	}
	v, err := ParseDuration(target.Value)
	if err != nil {
		d.Mismatch(n, target, wantPause, yamlread.DidYouMean(target.Value, []string{"approve"}))
	}
	return rollout.Pause{For: v}
}

// nextWaveOf reads a share of hosts or a duration.
func (d *decoder) nextWaveOf(n *yaml.Node) rollout.NextWave {
	target, ok := d.Scalar(n, wantNextWave)
	if !ok {
		return rollout.NextWave{}
	}
	if size, err := rollout.ParseSize(target.Value); err == nil && size.Percent > 0 {
		return rollout.NextWave{Finished: size.Percent}
	}
	v, err := ParseDuration(target.Value)
	if err != nil || v <= 0 {
		d.Mismatch(n, target, wantNextWave, "")
	}
	return rollout.NextWave{After: v}
}
