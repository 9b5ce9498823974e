package ansible

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// loop reads the list of a loop.
func (t *draft) loop() (*itemVar, *doubt) {
	n := child(t.node, "loop")
	flat := false
	for _, key := range []string{"with_items", "with_list"} {
		if v := child(t.node, key); v != nil {
			n, flat = v, key == "with_items"
		}
	}
	if n == nil {
		return nil, nil
	}
	if control := child(t.node, "loop_control"); control != nil {
		for _, e := range entries(control) {
			if e.key != "label" {
				return nil, doubtf("loop_control.%s has no equivalent", e.key)
			}
		}
	}
	if n.Kind == yaml.SequenceNode {
		return t.literalLoop(n, flat)
	}
	text := strings.TrimSpace(n.Value)
	body, after, ok := cutExpression(strings.TrimPrefix(text, "{{"))
	if !strings.HasPrefix(text, "{{") || !ok || after != "" {
		return nil, doubtf("the loop is not over a list")
	}
	expr, d := parse(body)
	if d != nil {
		return nil, d
	}
	if name, ok := groupOf(expr); ok {
		return t.hostLoop(name)
	}
	list, d := t.scope.value(expr)
	if d != nil {
		return nil, d
	}
	if list.kinds != kindList {
		return nil, doubtf("%s is not known to be a list", list.text)
	}
	t.step.foreach = list.text
	if !list.known {
		return &itemVar{}, nil
	}
	return itemsOf(list.vals, flat)
}

// hostLoop loops over the hosts of a group: item is a host, and its name where Ansible has the
// name.
func (t *draft) hostLoop(group string) (*itemVar, *doubt) {
	g, d := t.scope.group(group, true)
	if d != nil {
		return nil, d
	}
	t.step.foreach = g.text
	return &itemVar{vals: anyNames(g.hosts), known: true, hosts: g.hosts}, nil
}

func itemsOf(lists []any, flat bool) (*itemVar, *doubt) {
	out := &itemVar{known: true}
	for _, v := range lists {
		list, _ := v.([]any)
		out.vals = append(out.vals, list...)
	}
	for _, v := range out.vals {
		if _, nested := v.([]any); nested && flat {
			return nil, doubtf("with_items flattens lists in its list, foreach does not").hint("one flat list")
		}
	}
	return out, nil
}

func (t *draft) literalLoop(n *yaml.Node, flat bool) (*itemVar, *doubt) {
	if slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return item.Kind == yaml.ScalarNode && hasJinja(item.Value) }) {
		return t.textLoop(n)
	}
	v, d := literal(n)
	if d != nil {
		return nil, d
	}
	list := plain(n)
	if simple(list) {
		list.Style = yaml.FlowStyle
	}
	t.step.foreach = list
	return itemsOf([]any{v}, flat)
}

// textLoop loops over texts of which some hold Jinja.
func (t *draft) textLoop(n *yaml.Node) (*itemVar, *doubt) {
	items, out := make([]any, 0, len(n.Content)), &itemVar{known: true}
	for _, item := range n.Content {
		v, d := scalar(item)
		if d != nil {
			return nil, d
		}
		text, ok := v.(string)
		if !ok {
			return nil, doubtf("the loop mixes texts that hold Jinja with other values")
		}
		parts, d := t.scope.parts(text)
		if d != nil {
			return nil, d
		}
		one, d := joined(parts)
		if d != nil {
			return nil, d
		}
		if one.kinds != kindText {
			return nil, doubtf("%s in the loop is not known to be a text", clip(text))
		}
		if text, d = rendered(parts); d != nil {
			return nil, d
		}
		items, out.vals, out.known = append(items, text), append(out.vals, one.vals...), out.known && one.known
	}
	if !out.known {
		out.vals = nil
	}
	t.step.foreach = items
	return out, nil
}

// simple reports whether a list reads well in one line.
func simple(n *yaml.Node) bool {
	length := 0
	for _, one := range n.Content {
		length += len(one.Value) + 2
		if one.Kind != yaml.ScalarNode {
			return false
		}
	}
	return length < 70
}
