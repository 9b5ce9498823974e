package ansible

import (
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/playbooks"
)

// prompts translates vars_prompt into params. Ansible hides an answer unless private is false: such
// a param is the name of a secret.
func (p *play) prompts(list *yaml.Node) frame {
	f := frame{}
	if list.Kind != yaml.SequenceNode {
		p.blocked(p.file, list, "vars_prompt", doubtf("vars_prompt is not a list"))
		return f
	}
	for _, n := range list.Content {
		b, param, d := prompt(n)
		if d == nil && f[b.name] != nil {
			d = doubtf("%s is asked for twice", b.name)
		}
		if d != nil {
			p.blocked(p.file, n, "vars_prompt", d)
			if name := child(n, "name"); name != nil {
				p.set[name.Value] = place(p.show(p.file), n.Line, n.Column)
			}
			continue
		}
		p.params.add(b.name, param)
		f[b.name] = b
		p.out.Notes = append(p.out.Notes, Note{place(p.show(p.file), n.Line, n.Column), "give " + b.name + " with -e, or launch with --ask: Ansible asks without an option"})
	}
	return f
}

// prompt translates one of vars_prompt.
func prompt(n *yaml.Node) (*binding, fields, *doubt) {
	b, param := &binding{node: n, rank: ofPlay, asks: playbooks.SecretParam}, fields{}
	var fallback any
	for _, e := range entries(n) {
		v, d := literal(e.value)
		if d != nil {
			return b, nil, d
		}
		text, isText := v.(string)
		switch e.key {
		case "name":
			b.name = text
		case "prompt":
			if isText && text != "" {
				param.add("description", clip(text))
			}
		case "default":
			if _, number := v.(int); number {
				text, isText = e.value.Value, true
			}
			if !isText {
				return b, nil, doubtf("the default of %s is not a text", b.name)
			}
			fallback = text
		case "private":
			hidden, d := truth(e.value)
			if d != nil {
				return b, nil, d
			}
			if !hidden {
				b.asks = playbooks.TextParam
			}
		case "confirm", "unsafe":
			if _, d := truth(e.value); d != nil {
				return b, nil, d
			}
		default:
			return b, nil, doubtf("%s of vars_prompt has no equivalent", clip(e.key)).hint("params with type: secret, and a secret that holds the hash (docs/params.md)")
		}
	}
	if !identifier().MatchString(b.name) {
		return b, nil, doubtf("the name %s is not a plain name", clip(b.name))
	}
	param = append(fields{{"type", b.asks}}, param...)
	switch {
	case fallback == nil:
		param.add("required", true)
	case b.asks == playbooks.SecretParam:
		return b, nil, doubtf("the default of %s is a secret in plain text", b.name).hint("type: secret, and default: the name of a secret (docs/params.md)")
	default:
		param.add("default", fallback)
	}
	return b, param, nil
}
