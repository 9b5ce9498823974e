package metrics

// Kind is what a metric's value means.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"   // only grows, from 0 at the process's start
	Gauge     Kind = "gauge"     // as it is now
	Histogram Kind = "histogram" // of observed values
)

// Side is who tells a metric. `turnus up` is both.
type Side string

// The sides.
const (
	OfServer Side = "server"
	OfWorker Side = "worker"
	OfBoth   Side = "both"
)

// Metric is one line of the table.
type Metric struct {
	Name, Help string
	Kind       Kind
	Side       Side
	Labels     []string
	Buckets    []float64 // of a histogram
	Largest    bool      // of several values that fall together under Other the largest counts, not the sum
}

// ID names a metric of the table.
type ID int

// The metrics. What they mean stands in the table.
const (
	BuildInfo ID = iota
	Up
	DefinitionsInfo
	DefinitionsApplied
	DefinitionsRejected
	Playbooks
	Hosts
	Events
	RunsAccepted
	JobsAccepted
	RunsEnded
	JobsEnded
	JobsLost
	StepsEnded
	StepRetries
	StartDelay
	RecorderLag
	ScheduleTriggers
	ScheduleSkips
	APIRequests
	APISeconds
	AccessRefused
	QueueRuns
	QueueReady
	QueueInFlight
	QueueTimed
	QueueDue
	QueueRunnable
	QueueSoon
	QueueOldest
	QueueStale
	QueueReaped
	TenantWaiting
	TenantDue
	TenantLeased
	TenantShare
	TenantOldest
	Fairness
	Workers
	PoolConcurrency
	PoolRunning
	ConcurrencyDesired
	WorkersDesired
	ScaleCalls
	NotificationsWaiting
	NotificationsSent
	NotificationsFailed
	NotificationsDeadLettered
	DataFree
	DataSize
	CertificateExpires
	KeyringRotated
	BackupAt
	WorkerUp
	WorkerConcurrency
	WorkerRunning
	WorkerQueueUp
	WindowsMissed
	ClockLeaps
	SSHDials
	SSHConnections
	PluginStarts
	PluginDeaths
	PluginHeldBack
	last
)

var (
	delays   = []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}
	requests = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
)

// table is every metric there is. docs/operating.md lists them in this order, and a test compares the two.
var table = [last]Metric{
	BuildInfo:           {Name: "turnus_build_info", Kind: Gauge, Side: OfBoth, Labels: []string{"version"}, Help: "1, with the version of this process."},
	Up:                  {Name: "turnus_up", Kind: Gauge, Side: OfServer, Labels: []string{"part"}, Help: "1 if the part answers this server: ledger or queue."},
	DefinitionsInfo:     {Name: "turnus_definitions_info", Kind: Gauge, Side: OfServer, Labels: []string{"revision", "source"}, Help: "1, with the revision that holds and where it comes from."},
	DefinitionsApplied:  {Name: "turnus_definitions_applied_timestamp_seconds", Kind: Gauge, Side: OfServer, Help: "When the definitions that hold were applied."},
	DefinitionsRejected: {Name: "turnus_definitions_rejected", Kind: Gauge, Side: OfServer, Help: "1 while newer definitions are not taken: the last good ones hold."},
	Playbooks:           {Name: "turnus_playbooks", Kind: Gauge, Side: OfServer, Help: "Playbooks in the definitions."},
	Hosts:               {Name: "turnus_hosts", Kind: Gauge, Side: OfServer, Help: "Hosts in the definitions."},
	Events:              {Name: "turnus_events_total", Kind: Counter, Side: OfServer, Labels: []string{"kind"}, Help: "Events of this server, by kind: those of its log."},

	RunsAccepted: {Name: "turnus_runs_accepted_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant"}, Help: "Runs that this server accepted."},
	JobsAccepted: {Name: "turnus_jobs_accepted_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant"}, Help: "Jobs of the runs that this server accepted."},
	RunsEnded:    {Name: "turnus_runs_ended_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "phase"}, Help: "Runs that ended while this server followed them: finished, stopped or cancelled."},
	JobsEnded:    {Name: "turnus_jobs_ended_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "outcome"}, Help: "Jobs whose outcome this server recorded."},
	JobsLost:     {Name: "turnus_jobs_lost_total", Kind: Counter, Side: OfServer, Help: "Of them, those that ended as lost."},
	StepsEnded: {
		Name: "turnus_steps_ended_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "job_type", "outcome"},
		Help: "Steps of the jobs whose outcome this server recorded.",
	},
	StepRetries: {
		Name: "turnus_step_retries_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "job_type"},
		Help: "Attempts of those steps beyond the first.",
	},
	StartDelay: {
		Name: "turnus_job_start_delay_seconds", Kind: Histogram, Side: OfServer, Labels: []string{"tenant"}, Buckets: delays,
		Help: "How long after it was due a job started, of the jobs whose outcome this server recorded.",
	},
	RecorderLag: {Name: "turnus_recorder_lag_seconds", Kind: Gauge, Side: OfServer, Help: "How long the oldest news of the queue have waited to be recorded by this server; 0 if none wait."},

	ScheduleTriggers: {Name: "turnus_schedule_fires_total", Kind: Counter, Side: OfServer, Labels: []string{"result"}, Help: "Fires of schedules that this server carried out: launched, or failed and tried again."},
	ScheduleSkips: {
		Name: "turnus_schedule_skips_total", Kind: Counter, Side: OfServer, Labels: []string{"reason"},
		Help: "Fires of schedules that were skipped: missed, too_late, overlap, refused, not_launched or other.",
	},

	APIRequests: {Name: "turnus_api_requests_total", Kind: Counter, Side: OfServer, Labels: []string{"operation", "code"}, Help: "Requests to the API that were answered, by operation and status."},
	APISeconds:  {Name: "turnus_api_request_seconds", Kind: Histogram, Side: OfServer, Labels: []string{"operation"}, Buckets: requests, Help: "How long the answers took; streams are left out."},
	AccessRefused: {
		Name: "turnus_access_refused_total", Kind: Counter, Side: OfServer, Labels: []string{"reason"},
		Help: "Requests and logins that this server refused: no_token, unknown_token (also expired, revoked), role, tenant or login.",
	},

	QueueRuns:     {Name: "turnus_queue_runs", Kind: Gauge, Side: OfServer, Help: "Runs in the queue that are not complete."},
	QueueReady:    {Name: "turnus_queue_ready_runs", Kind: Gauge, Side: OfServer, Help: "Runs with a job that could be leased now."},
	QueueInFlight: {Name: "turnus_queue_in_flight", Kind: Gauge, Side: OfServer, Help: "Leased jobs."},
	QueueTimed:    {Name: "turnus_queue_timed", Kind: Gauge, Side: OfServer, Help: "What waits for a time: segments of runs, retries, suspended jobs."},
	QueueDue:      {Name: "turnus_queue_due", Kind: Gauge, Side: OfServer, Help: "Jobs that are due and wait for a slot or for a lock."},
	QueueRunnable: {Name: "turnus_queue_runnable", Kind: Gauge, Side: OfServer, Help: "Jobs that would run now if there were slots enough: leased ones, and due ones as far as max_in_flight lets them."},
	QueueSoon:     {Name: "turnus_queue_soon", Kind: Gauge, Side: OfServer, Help: "Further jobs that become due within the lead time of scaling."},
	QueueOldest:   {Name: "turnus_queue_oldest_overdue_seconds", Kind: Gauge, Side: OfServer, Help: "How long the run has waited that has been ready longest."},
	QueueStale:    {Name: "turnus_queue_stale_acks_total", Kind: Counter, Side: OfServer, Help: "Acks that came too late and did not count."},
	QueueReaped:   {Name: "turnus_queue_reaped_sessions_total", Kind: Counter, Side: OfServer, Help: "Sessions of workers that fell silent."},

	TenantWaiting: {Name: "turnus_tenant_waiting", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Jobs in the queue that are neither leased nor over."},
	TenantDue:     {Name: "turnus_tenant_due", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Of them, those that are due and wait for a slot or for a lock."},
	TenantLeased:  {Name: "turnus_tenant_leased", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Leased jobs."},
	TenantShare:   {Name: "turnus_tenant_share", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Share of all leased jobs, 0 to 1."},
	TenantOldest: {
		Name: "turnus_tenant_oldest_overdue_seconds", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Largest: true,
		Help: "How long the tenant's run has waited that has been ready longest.",
	},
	Fairness: {
		Name: "turnus_queue_fairness", Kind: Gauge, Side: OfServer,
		Help: "Jain's index of the tenants' leased jobs by weight, among tenants that have more due than they get: 1 is equal, 1/n is all to one.",
	},

	Workers:            {Name: "turnus_workers", Kind: Gauge, Side: OfServer, Labels: []string{"pool", "state"}, Help: "Workers, by pool and state."},
	PoolConcurrency:    {Name: "turnus_pool_slots", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Slots of the workers that take jobs."},
	PoolRunning:        {Name: "turnus_pool_running", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Jobs that run on all its workers."},
	ConcurrencyDesired: {Name: "turnus_slots_desired", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Slots that the pool should have."},
	WorkersDesired:     {Name: "turnus_workers_desired", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Workers that the pool should have."},
	ScaleCalls:         {Name: "turnus_scale_calls_total", Kind: Counter, Side: OfServer, Labels: []string{"result"}, Help: "Calls of --scale-hook by this server: ok or failed."},

	NotificationsWaiting:      {Name: "turnus_notifications_waiting", Kind: Gauge, Side: OfServer, Labels: []string{"medium"}, Help: "Notifications that wait to be sent; every server tells the same."},
	NotificationsSent:         {Name: "turnus_notifications_sent_total", Kind: Counter, Side: OfServer, Labels: []string{"medium"}, Help: "Notifications of this server that were taken."},
	NotificationsFailed:       {Name: "turnus_notifications_failed_total", Kind: Counter, Side: OfServer, Labels: []string{"medium"}, Help: "Tries of this server to send one that failed."},
	NotificationsDeadLettered: {Name: "turnus_notifications_dead_total", Kind: Counter, Side: OfServer, Labels: []string{"medium"}, Help: "Notifications that this server gave up."},

	DataFree:           {Name: "turnus_data_free_bytes", Kind: Gauge, Side: OfServer, Help: "Free space of the disk that --data is on."},
	DataSize:           {Name: "turnus_data_size_bytes", Kind: Gauge, Side: OfServer, Help: "Size of that disk."},
	CertificateExpires: {Name: "turnus_certificate_expires_timestamp_seconds", Kind: Gauge, Side: OfServer, Labels: []string{"use"}, Help: "When a certificate of this server ends."},
	KeyringRotated:     {Name: "turnus_keyring_rotated_timestamp_seconds", Kind: Gauge, Side: OfServer, Help: "When the ledger was first sealed with the key that it is sealed with now; nothing without a key ring."},
	BackupAt:           {Name: "turnus_backup_timestamp_seconds", Kind: Gauge, Side: OfServer, Help: "When the last backup that the ledger knows of was made."},

	WorkerUp:          {Name: "turnus_worker_up", Kind: Gauge, Side: OfWorker, Labels: []string{"worker", "pool"}, Help: "1, of a worker that is there."},
	WorkerConcurrency: {Name: "turnus_worker_slots", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "Jobs that the worker takes at once."},
	WorkerRunning:     {Name: "turnus_worker_running", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "Jobs that run on it."},
	WorkerQueueUp:     {Name: "turnus_worker_queue_up", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "1 if the queue answers the worker."},
	WindowsMissed:     {Name: "turnus_windows_missed_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker"}, Help: "Windows that passed although a job had been told that it would start in them."},
	ClockLeaps:        {Name: "turnus_queue_clock_leaps_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker"}, Help: "Leaps of the queue's clock that the worker saw, forward and back."},
	SSHDials:          {Name: "turnus_ssh_dials_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker", "result"}, Help: "SSH connections that were tried, by result."},
	SSHConnections:    {Name: "turnus_ssh_connections", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "SSH connections that stand."},
	PluginStarts:      {Name: "turnus_plugin_starts_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker", "plugin"}, Help: "Processes of the plugin that were started."},
	PluginDeaths:      {Name: "turnus_plugin_deaths_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker", "plugin"}, Help: "Processes of the plugin that died or did not start."},
	PluginHeldBack:    {Name: "turnus_plugin_held_back", Kind: Gauge, Side: OfWorker, Labels: []string{"worker", "plugin"}, Help: "1 while the plugin died too often and calls are refused."},
}
