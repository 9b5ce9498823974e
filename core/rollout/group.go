package rollout

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
)

// GroupKeys lists the keys that per_group knows, for messages and completion.
func GroupKeys() []string { return []string{"ha_group", "site", "customer", "pool", "label:NAME"} }

// CheckGroupKey reports whether key names a grouping. Its error wraps core.ErrInvalid.
func CheckGroupKey(key string) error {
	switch key {
	case "ha_group", "site", "customer", "pool":
		return nil
	}
	if name, ok := strings.CutPrefix(key, "label:"); ok && name != "" {
		return nil
	}
	return fmt.Errorf("per_group key %q: expected one of %s: %w", key, strings.Join(GroupKeys(), ", "), core.ErrInvalid)
}

// GroupOf is the name of the host's group under key. It is "" for a host that
// belongs to none, which per_group then does not limit.
func GroupOf(key string, h core.Host) string {
	var value string
	switch key {
	case "ha_group":
		value = h.HAGroup
	case "site":
		value = h.Site
	case "customer":
		value = h.Customer
	case "pool":
		value = h.Pool
	default:
		name, _ := strings.CutPrefix(key, "label:")
		value = h.Labels[name]
	}
	if value == "" {
		return ""
	}
	if key == "site" && h.Customer != "" { // two customers may both have a site "main"
		return h.Customer + "/" + value
	}
	return value
}
