package service

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDecide(t *testing.T) {
	t.Parallel()
	on, off := true, false
	for name, c := range map[string]struct {
		p    Params
		now  status
		want []string
	}{
		"it runs":                       {Params{State: "started"}, status{active: true}, nil},
		"it does not run":               {Params{State: "started"}, status{}, []string{"start"}},
		"enabled before it is started":  {Params{State: "started", Enabled: &on}, status{}, []string{"enable", "start"}},
		"disabled before it is stopped": {Params{State: "stopped", Enabled: &off}, status{active: true, enabled: true, undo: true}, []string{"disable", "stop"}},
		"disabled, and static":          {Params{Enabled: &off}, status{static: true}, nil},
		"enabled, and static":           {Params{Enabled: &on}, status{static: true}, nil},
		"enabled for this boot":         {Params{Enabled: &on}, status{undo: true}, []string{"enable"}},
		"disabled for this boot":        {Params{Enabled: &off}, status{undo: true}, []string{"disable"}},
		"generated":                     {Params{Enabled: &on}, status{enabled: true}, nil},
		"only enabled":                  {Params{Enabled: &on}, status{}, []string{"enable"}},
		"nothing to disable":            {Params{Enabled: &off}, status{active: true}, nil},
		"a restart acts each time":      {Params{State: "restarted"}, status{active: true}, []string{"restart"}},
		"a reload of what does not run": {Params{State: "reloaded"}, status{}, []string{"start"}},
		"it died, and waits":            {Params{State: "started"}, status{waits: true}, []string{"restart"}},
		"a reload of what waits":        {Params{State: "reloaded"}, status{waits: true}, []string{"restart"}},
		"stopped while it waits":        {Params{State: "stopped"}, status{waits: true}, []string{"stop"}},
		"a reload":                      {Params{State: "reloaded"}, status{active: true}, []string{"reload"}},
	} {
		if got := decide(c.p, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
		if differs := c.now.text() != c.now.after(c.want); differs != (len(c.want) > 0) {
			t.Errorf("%s: %q shows as %q, then %q", name, c.want, c.now.text(), c.now.after(c.want))
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if (&Params{Name: "nginx"}).Validate() == nil {
		t.Error("a service without state and enabled is taken")
	}
	if err := (&Params{Name: "nginx", State: "started"}).Validate(); err != nil {
		t.Error(err)
	}
}
