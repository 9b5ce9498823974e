package host

import "testing"

// The caller learns which failures may come of another version: red with Misfit left out of
// receive.
func TestFaultP5RefusedParamsAreToldApart(t *testing.T) {
	b := open(t, &fleet{})
	for text, refused := range map[string]bool{"params": true, "": false} {
		out, err := b.Run(t.Context(), call("fail", labParams{Text: text}))
		if err != nil || !out.Failed || out.Misfit != refused {
			t.Errorf("%q: %+v, %v", text, out, err)
		}
	}
	if typ, ok := b.Type("lab.fail"); !ok || typ.Plugin != "lab 1.0.0" {
		t.Errorf("the type reports that it is of plugin %q", typ.Plugin)
	}
}
