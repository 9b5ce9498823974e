package service

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/telemetry"
)

// measureFlags set how much a service reports about itself.
type measureFlags struct{ tenants int }

func (f *measureFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.tenants, "metrics-tenants", telemetry.DefaultTenants, "tenants with metrics of their own; later ones count as \"other\"")
}

func (f *measureFlags) check() error {
	if f.tenants < 0 || f.tenants > 100_000 {
		return console.Invalid("--metrics-tenants %d: expected at most 100000", f.tenants)
	}
	return nil
}

// measured makes the service's metrics.
func (s *service) measured() *telemetry.Registry {
	m := telemetry.NewRegistry(settings.Version(), s.f.measure.tenants)
	for _, why := range []string{"missed", "too_late", "overlap", "refused", "not_launched", "other"} {
		m.Add(telemetry.ScheduleSkips, 0, why)
	}
	for _, result := range []string{"launched", "failed"} {
		m.Add(telemetry.ScheduleTriggers, 0, result)
	}
	m.Add(telemetry.JobsLost, 0)
	m.Source(func(ctx context.Context, emit telemetry.Emit) {
		if last, err := backup.ReadLast(ctx, s.ledger); err == nil {
			emit(telemetry.BackupAt, float64(last.Created.Unix()))
		}
		if since, err := s.ledger.EncryptedSince(ctx); err == nil && !since.IsZero() {
			emit(telemetry.KeyringRotated, float64(since.Unix()))
		}
		if free, size, ok := diskOf(s.data.Path); ok {
			emit(telemetry.DataFree, float64(free))
			emit(telemetry.DataSize, float64(size))
		}
		if s.cert != nil && s.cert.Certificate() != nil {
			if leaf, err := x509.ParseCertificate(s.cert.Certificate().Certificate[0]); err == nil {
				emit(telemetry.CertificateExpires, float64(leaf.NotAfter.Unix()), "api")
			}
		} else if s.acme != nil {
			if ends, ok := s.acmeEnds(ctx); ok {
				emit(telemetry.CertificateExpires, float64(ends.Unix()), "api")
			}
		}
	})
	m.Source(s.measureNotifications)
	m.Source(s.measureSources)
	return m
}

// measureSources measures the sources of hosts.
func (s *service) measureSources(_ context.Context, emit telemetry.Emit) {
	for _, h := range s.catalog.HostSources(ledger.AllTenants()) {
		name, st := h.Source.Name, &h.State
		emit(telemetry.SourceHosts, float64(st.Hosts), name)
		if !st.Good.IsZero() {
			emit(telemetry.SourceGood, float64(st.Good.Unix()), name)
		}
		for state, holds := range map[string]bool{
			"failed": st.Failed != "" || h.Unread != nil, "waiting": st.Waiting != nil, "refused": !st.Tried.IsZero() && st.Stale(h.Source, time.Now()) != nil,
		} {
			value := 0.0
			if holds {
				value = 1
			}
			emit(telemetry.SourceState, value, name, state)
		}
	}
}

// acmeEnds is when the first of the certificates ends; false before there is one.
func (s *service) acmeEnds(ctx context.Context) (first time.Time, ok bool) {
	for _, name := range s.f.acme.names {
		kept, err := s.acme.Cache.Get(ctx, name)
		if err != nil {
			continue
		}
		if leaf := leafIn(kept); leaf != nil && (!ok || leaf.NotAfter.Before(first)) {
			first, ok = leaf.NotAfter, true
		}
	}
	return first, ok
}

// leafIn is the first certificate of a PEM text, which begins with its key; nil without one.
func leafIn(text []byte) *x509.Certificate {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			leaf, _ := x509.ParseCertificate(block.Bytes) // nil with an error
			return leaf
		}
	}
	return nil
}

// measureNotifications measures notifications.
func (s *service) measureNotifications(ctx context.Context, emit telemetry.Emit) {
	for medium, c := range s.notify.Counts() {
		emit(telemetry.NotificationsSent, float64(c.Sent), medium)
		emit(telemetry.NotificationsFailed, float64(c.Failed), medium)
		emit(telemetry.NotificationsDeadLettered, float64(c.DeadLettered), medium)
	}
	waiting, err := s.notify.Waiting(ctx)
	if err != nil {
		return // turnus_up reports that the ledger is away
	}
	for medium, n := range waiting {
		emit(telemetry.NotificationsWaiting, float64(n), medium)
	}
}

// measures counts what the controller accepts and records.
func (s *service) measures() controller.Measure {
	m := s.metrics
	return controller.Measure{
		Accepted: func(tenant string, jobs int) {
			m.Add(telemetry.RunsAccepted, 1, tenant)
			m.Add(telemetry.JobsAccepted, float64(jobs), tenant)
		},
		Recorded: func(r controller.Recorded) {
			s.took.add(r)
			for i := range r.Outcomes {
				o := &r.Outcomes[i]
				n := float64(max(o.Count, 1))
				m.Add(telemetry.JobsEnded, n, r.Tenant, string(o.Outcome))
				if o.Outcome == core.Lost {
					m.Add(telemetry.JobsLost, n)
				}
			}
			for i := range r.Results {
				for j := range r.Results[i].Steps {
					step := &r.Results[i].Steps[j]
					m.Add(telemetry.StepsEnded, 1, r.Tenant, step.Uses, string(step.Outcome))
					if step.Attempts > 1 {
						m.Add(telemetry.StepRetries, float64(step.Attempts-1), r.Tenant, step.Uses)
					}
				}
			}
			for _, d := range r.Delays {
				m.Observe(telemetry.StartDelay, d.Seconds(), r.Tenant)
			}
		},
	}
}

// countTrigger counts the results of triggers.
func (s *service) countTrigger(e catalog.Event) {
	switch e.Kind {
	case catalog.TriggerLaunched:
		s.metrics.Add(telemetry.ScheduleTriggers, 1, "launched")
	case catalog.TriggerFailed:
		s.metrics.Add(telemetry.ScheduleTriggers, 1, "failed")
	case catalog.TriggerSkipped:
		s.metrics.Add(telemetry.ScheduleSkips, float64(max(e.Count, 1)), e.Why)
	}
}
