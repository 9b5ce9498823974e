package firewall

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// table is a table by the report of nft, in canonical form.
type table struct {
	hash                    string // empty: there is no such table
	chains, rules, elements int
	objects                 []object
}

type object struct {
	kind string // chain, rule, set, …
	body map[string]any
}

func (o object) text(key string) string { s, _ := o.body[key].(string); return s }

// canonical reads the JSON of nft. Values that packets and the kernel write are left out: handles,
// counters, what is used of a quota, when an element expires, and the elements of sets that rules
// fill (dynamic names them) or time empties. Rules keep their order; objects and elements of sets,
// which have none, are sorted. An object of another table is an error.
func canonical(raw []byte, family, name string, dynamic map[string]bool) (table, error) {
	var doc struct {
		Nftables []map[string]map[string]any `json:"nftables"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return table{}, fmt.Errorf("reading the JSON of nft: %w", err)
	}
	var t table
	for _, entry := range doc.Nftables {
		for kind, body := range entry {
			if kind == "metainfo" {
				continue
			}
			o := object{kind, body}
			of := o.text("table")
			if kind == "table" {
				of = o.text("name")
			}
			if o.text("family") != family || of != name {
				return table{}, fmt.Errorf("it declares a %s of the table %s %s; only %s %s is pushed", kind, o.text("family"), of, family, name)
			}
			t.add(o, dynamic)
		}
	}
	if len(t.objects) == 0 {
		return table{}, errors.New("nft lists no table")
	}
	slices.SortStableFunc(t.objects, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.text("chain"), b.text("chain")), cmp.Compare(a.text("name"), b.text("name")))
	})
	sum := sha256.New()
	for _, o := range t.objects {
		line, err := json.Marshal(o.body) // keys are sorted
		if err != nil {
			return table{}, fmt.Errorf("writing the canonical form: %w", err)
		}
		fmt.Fprintf(sum, "%s %s\n", o.kind, line)
	}
	t.hash = hex.EncodeToString(sum.Sum(nil))
	return t, nil
}

func (t *table) add(o object, dynamic map[string]bool) {
	delete(o.body, "handle")
	delete(o.body, "index")
	switch o.kind {
	case "chain":
		t.chains++
	case "rule":
		t.rules++
	case "set", "map":
		elements, _ := o.body["elem"].([]any)
		t.elements += len(elements)
		flags, _ := o.body["flags"].([]any)
		if slices.Contains(flags, any("timeout")) || slices.Contains(flags, any("dynamic")) || dynamic[o.text("name")] {
			delete(o.body, "elem")
		} else if len(elements) > 0 {
			o.body["elem"] = sorted(elements)
		}
	case "counter":
		delete(o.body, "packets")
		delete(o.body, "bytes")
	case "quota":
		delete(o.body, "used")
	}
	for key, value := range o.body {
		o.body[key] = stateless(value)
	}
	t.objects = append(t.objects, o)
}

// stateless takes out of an expression what packets write into it.
func stateless(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = stateless(v[i])
		}
	case map[string]any:
		delete(v, "expires")
		for key, value := range v {
			inner, isMap := value.(map[string]any)
			list, isList := value.([]any)
			switch {
			case key == "counter" && isMap:
				delete(inner, "packets")
				delete(inner, "bytes")
			case key == "quota" && isMap:
				delete(inner, "used")
				delete(inner, "used_unit")
			case key == "set" && isList:
				v[key] = sorted(list)
				continue
			}
			v[key] = stateless(value)
		}
	}
	return v
}

// sorted orders elements, which have no order of their own.
func sorted(list []any) []any {
	type keyed struct {
		key   string
		value any
	}
	all := make([]keyed, len(list))
	for i, e := range list {
		e = stateless(e)
		raw, _ := json.Marshal(e) //nolint:errchkjson // it was JSON a moment ago
		all[i] = keyed{string(raw), e}
	}
	slices.SortFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	out := make([]any, len(all))
	for i, k := range all {
		out[i] = k.value
	}
	return out
}

// dynamicSets are the sets that rules fill. The JSON of nft 1.0.6 lacks this; its text has it.
func dynamicSets(text string) map[string]bool {
	found := map[string]bool{}
	name := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 3 && (words[0] == "set" || words[0] == "map") && words[2] == "{":
			name = words[1]
		case len(words) > 1 && words[0] == "flags" && slices.Contains(strings.FieldsFunc(strings.Join(words[1:], ","), func(r rune) bool { return r == ',' }), "dynamic"):
			found[name] = true
		}
	}
	return found
}
