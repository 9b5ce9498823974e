package localrun

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/playbooks"
)

// AddAsk gives a command that may ask the person who types it its flag.
func (f *PlayFlags) AddAsk(c *cobra.Command, con *console.Console) {
	f.con = con
	c.Flags().BoolVar(&f.ask, "ask", false, "ask for the playbook's params that -e does not give")
}

// askParams asks for what vars lacks, puts the answers there, and loads the playbooks again with
// them.
func (f *PlayFlags) askParams(ctx context.Context, paths []string, all []*playbooks.Playbook, vars map[string]any, opts playbooks.Options) ([]*playbooks.Playbook, error) {
	var questions []console.Question
	for _, p := range all {
		for i := range p.Params {
			one := &p.Params[i]
			if _, given := vars[one.Name]; given || slices.ContainsFunc(questions, func(q console.Question) bool { return q.Name == one.Name }) {
				continue
			}
			questions = append(questions, console.Question{
				Name: one.Name, Expected: one.Want(), Description: one.Description, Default: one.Default, Required: one.Required,
				Accept: func(answer string) error { _, err := one.Accept(answer); return err },
			})
		}
	}
	answers, err := f.con.Prompt(ctx, questions)
	if err != nil {
		return nil, err
	}
	maps.Copy(vars, answers)
	return playbooks.Load(paths, opts)
}
