package definitions

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the changes for people: a line each, and what matters of it below.
func (c Changes) WriteText(w io.Writer) error {
	var b strings.Builder
	if c.Empty() {
		b.WriteString("no changes\n")
	}
	marks := map[Action]string{Added: "+", Removed: "-", Changed: "~"}
	counts := map[Action]int{}
	for _, one := range c.Changes {
		counts[one.Action]++
		fmt.Fprintf(&b, "%s %s %s\n", marks[one.Action], strings.ReplaceAll(string(one.Kind), "_", " "), clean(one.Name))
		for _, d := range one.Details {
			fmt.Fprintf(&b, "    %s\n", d)
		}
	}
	if !c.Empty() {
		fmt.Fprintf(&b, "%d added, %d removed, %d changed\n", counts[Added], counts[Removed], counts[Changed])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
