package localrun

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
)

const (
	completeWithin  = 1500 * time.Millisecond // an inventory may be a program
	maxPlaybookFile = 1 << 20
)

// Complete returns the hosts, groups, customers and sites of the inventory that continue a pattern.
// An inventory that cannot be read completes nothing.
func (f *InventoryFlags) Complete(c *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if UseProject(c) != nil || len(f.sources) == 0 {
		return nil, directive
	}
	_, paths, err := f.Sources()
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
	defer cancel()
	inv, err := inventory.Load(ctx, paths)
	if err != nil {
		return nil, directive
	}
	return ContinuePattern(part, inv.Hosts), directive
}

// ContinuePattern returns the hosts, groups, customers and sites that continue a pattern.
func ContinuePattern(part string, hosts []core.Host) []string {
	return continued(part, patternNames(hosts))
}

// patternNames returns what a pattern may name, sorted.
func patternNames(hosts []core.Host) []string {
	names := map[string]bool{}
	for _, h := range hosts {
		for _, name := range append([]string{h.Name, h.Customer, h.Site}, h.Groups...) {
			names[name] = true
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// continued returns the names that continue the last term of a pattern, each behind the terms
// before it.
func continued(part string, names []string) []string {
	at := strings.LastIndexAny(part, ",:!&") + 1
	var list []string
	for _, name := range names {
		if strings.HasPrefix(name, part[at:]) {
			list = append(list, part[:at]+name)
		}
	}
	return list
}

// completeTags returns the tags of the steps of the playbooks that are named before the flag.
func completeTags(_ *cobra.Command, playbooks []string, part string) ([]string, cobra.ShellCompDirective) {
	texts := core.Map(playbooks, playbookText)
	return ContinueTags(part, texts...), cobra.ShellCompDirectiveNoFileComp
}

// ContinueTags returns the tags of the steps of playbooks that continue a list of tags.
func ContinueTags(part string, playbooks ...[]byte) []string {
	tags := map[string]bool{}
	for _, text := range playbooks {
		for _, tag := range tagsOf(text) {
			tags[tag] = true
		}
	}
	return continued(part, slices.Sorted(maps.Keys(tags)))
}

// completeParams returns the params and vars of the playbooks that are named before the flag.
func completeParams(_ *cobra.Command, playbooks []string, part string) ([]string, cobra.ShellCompDirective) {
	return ContinueParams(part, core.Map(playbooks, playbookText)...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// ContinueParams returns the params and vars of playbooks whose names continue part, each with the
// sign behind which its value stands. A playbook need not be valid.
func ContinueParams(part string, playbooks ...[]byte) []string {
	names := map[string]bool{}
	for _, text := range playbooks {
		var doc struct {
			Params map[string]yaml.Node `yaml:"params"`
			Vars   map[string]yaml.Node `yaml:"vars"`
		}
		_ = yaml.Unmarshal(text, &doc) // it has what could be read
		for _, all := range []map[string]yaml.Node{doc.Params, doc.Vars} {
			for name := range all {
				if strings.HasPrefix(name, part) {
					names[name+"="] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// playbookText reads a file; nil is one that cannot be read.
func playbookText(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPlaybookFile))
	if err != nil {
		return nil
	}
	return text
}

// tagsOf returns the tags of a playbook that need not be valid.
func tagsOf(text []byte) (tags []string) {
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil {
		return nil
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			var found []string
			if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "tags" && child.Decode(&found) == nil {
				tags = append(tags, found...)
			}
			walk(child)
		}
	}
	walk(&root)
	return tags
}
