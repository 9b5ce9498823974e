package playbooks

import (
	"fmt"
	"regexp"
	"strings"

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

// wavesOf reads growing sizes. Counts and shares cannot be compared before the
// hosts are known, so each kind must grow by itself; a last wave of all is added.
func (d *decoder) wavesOf(n *yaml.Node) []rollout.Size {
	items := d.list(n, "a list of sizes such as [1, 5%, 100%]")
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

var groupPattern = regexp.MustCompile(patternGroup)

func (d *decoder) perGroupOf(n *yaml.Node) map[string]int {
	known := []string{"ha_group", "site", "customer", "pool", "label:NAME"}
	target, ok := d.mapping(n, "per_group", known)
	if !ok {
		return nil
	}
	out := map[string]int{}
	for _, e := range d.entries(target, 1) {
		if !groupPattern.MatchString(e.name) {
			hint := yamlread.DidYouMean(e.name, known[:3])
			if hint == "" && !strings.Contains(e.name, ":") {
				hint = fmt.Sprintf("a label is written %q", "label:"+clip(e.name, 40))
			}
			d.reportNode(e.key, problem{message: fmt.Sprintf("unknown group %s in per_group", quote(e.name)),
				expected: oneOf(known), hint: hint})
			continue
		}
		out[e.name] = d.intOf(e.val, 1, maxGroup)
	}
	return out
}

func (d *decoder) pauseOf(n *yaml.Node) rollout.Pause {
	target, ok := d.scalar(n, wantPause)
	if !ok {
		return rollout.Pause{}
	}
	if target.Value == "approve" {
		return rollout.Pause{Approve: true}
	}
	v, err := ParseDuration(target.Value)
	if err != nil {
		d.mismatch(n, target, wantPause, yamlread.DidYouMean(target.Value, []string{"approve"}))
	}
	return rollout.Pause{For: v}
}

// nextWaveOf reads a share of hosts or a duration.
func (d *decoder) nextWaveOf(n *yaml.Node) rollout.NextWave {
	target, ok := d.scalar(n, wantNextWave)
	if !ok {
		return rollout.NextWave{}
	}
	if size, err := rollout.ParseSize(target.Value); err == nil && size.Percent > 0 {
		return rollout.NextWave{Finished: size.Percent}
	}
	v, err := ParseDuration(target.Value)
	if err != nil || v <= 0 {
		d.mismatch(n, target, wantNextWave, "")
	}
	return rollout.NextWave{After: v}
}
