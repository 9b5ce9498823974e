package telemetry

// MetricKind is the type of a metric's value.
type MetricKind string

// The kinds.
const (
	Counter   MetricKind = "counter"   // only grows, from 0 at the process's start
	Gauge     MetricKind = "gauge"     // as it is now
	Histogram MetricKind = "histogram" // of observed values
)

// Side is the process that exports a metric. `turnus up` is both.
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
	Kind       MetricKind
	Side       Side
	Labels     []string
	Buckets    []float64 // of a histogram
	Largest    bool      // of several values that fall together under Other the largest counts, not the sum
}

// MetricID names a metric of the table.
type MetricID int

// The metrics. The table has their meaning.
const (
	BuildInfo MetricID = iota
	Up
	DefinitionsInfo
	DefinitionsApplied
	ProjectRejected
	Playbooks
	Hosts
	SourceHosts
	SourceGood
	SourceState
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
	PluginBlocked
	last
)

var (
	delays   = []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}
	requests = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
)

// table is every metric there is. docs/operating-monitoring.md lists them in this order, and a test
// compares the two.
var table = [last]Metric{
	BuildInfo:          {Name: "turnus_build_info", Kind: Gauge, Side: OfBoth, Labels: []string{"version"}, Help: "Always 1; the label is the version of this process."},
	Up:                 {Name: "turnus_up", Kind: Gauge, Side: OfServer, Labels: []string{"part"}, Help: "1 if the part (ledger or queue) answers this server, else 0."},
	DefinitionsInfo:    {Name: "turnus_project_info", Kind: Gauge, Side: OfServer, Labels: []string{"revision", "source"}, Help: "Always 1; the labels are the revision of the project in use and its source."},
	DefinitionsApplied: {Name: "turnus_project_applied_timestamp_seconds", Kind: Gauge, Side: OfServer, Help: "Time at which the project in use was applied."},
	ProjectRejected:    {Name: "turnus_project_rejected", Kind: Gauge, Side: OfServer, Help: "1 while the server rejects a newer project and keeps the last valid one, else 0."},
	Playbooks:          {Name: "turnus_playbooks", Kind: Gauge, Side: OfServer, Help: "Playbooks in the project."},
	Hosts:              {Name: "turnus_hosts", Kind: Gauge, Side: OfServer, Help: "Hosts in the project and of sources."},
	SourceHosts:        {Name: "turnus_source_hosts", Kind: Gauge, Side: OfServer, Labels: []string{"source"}, Help: "Hosts in use of a source of hosts; the same on every server."},
	SourceGood:         {Name: "turnus_source_good_timestamp_seconds", Kind: Gauge, Side: OfServer, Labels: []string{"source"}, Help: "Time at which the source last gave the hosts in use; absent before the first."},
	SourceState:        {Name: "turnus_source_state", Kind: Gauge, Side: OfServer, Labels: []string{"source", "state"}, Largest: true, Help: "1 if the source of hosts is failed, waiting or refused, else 0."},
	Events:             {Name: "turnus_events_total", Kind: Counter, Side: OfServer, Labels: []string{"kind"}, Help: "Events that this server logged, by kind."},

	RunsAccepted: {Name: "turnus_runs_accepted_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant"}, Help: "Runs that this server accepted."},
	JobsAccepted: {Name: "turnus_jobs_accepted_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant"}, Help: "Jobs of the runs that this server accepted."},
	RunsEnded:    {Name: "turnus_runs_ended_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "phase"}, Help: "Runs that ended while this server followed them, by phase: finished, stopped or cancelled."},
	JobsEnded:    {Name: "turnus_jobs_ended_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "outcome"}, Help: "Jobs whose outcome this server recorded."},
	JobsLost:     {Name: "turnus_jobs_lost_total", Kind: Counter, Side: OfServer, Help: "Jobs with the outcome lost that this server recorded."},
	StepsEnded: {
		Name: "turnus_steps_ended_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "job_type", "outcome"},
		Help: "Steps of the jobs whose outcome this server recorded.",
	},
	StepRetries: {
		Name: "turnus_step_retries_total", Kind: Counter, Side: OfServer, Labels: []string{"tenant", "job_type"},
		Help: "Attempts of those steps after the first.",
	},
	StartDelay: {
		Name: "turnus_job_start_delay_seconds", Kind: Histogram, Side: OfServer, Labels: []string{"tenant"}, Buckets: delays,
		Help: "Delay from due to started, of the jobs whose outcome this server recorded.",
	},
	RecorderLag: {Name: "turnus_recorder_lag_seconds", Kind: Gauge, Side: OfServer, Help: "Age of the oldest event of the queue that this server has not recorded yet; 0 if there is none."},

	ScheduleTriggers: {Name: "turnus_schedule_triggers_total", Kind: Counter, Side: OfServer, Labels: []string{"result"}, Help: "Fire times of schedules that this server handled: launched, or failed and retried."},
	ScheduleSkips: {
		Name: "turnus_schedule_skips_total", Kind: Counter, Side: OfServer, Labels: []string{"reason"},
		Help: "Skipped fire times of schedules: missed, too_late, overlap, refused, not_launched or other.",
	},

	APIRequests: {Name: "turnus_api_requests_total", Kind: Counter, Side: OfServer, Labels: []string{"operation", "code"}, Help: "API requests with a response, by operation and status code."},
	APISeconds:  {Name: "turnus_api_request_seconds", Kind: Histogram, Side: OfServer, Labels: []string{"operation"}, Buckets: requests, Help: "Duration of API requests, without streams."},
	AccessRefused: {
		Name: "turnus_access_refused_total", Kind: Counter, Side: OfServer, Labels: []string{"reason"},
		Help: "Requests and logins that this server refused: no_token, unknown_token (also expired, revoked), role, permission, tenant or login.",
	},

	QueueRuns:     {Name: "turnus_queue_runs", Kind: Gauge, Side: OfServer, Help: "Incomplete runs in the queue."},
	QueueReady:    {Name: "turnus_queue_ready_runs", Kind: Gauge, Side: OfServer, Help: "Runs with a job that a worker could lease now."},
	QueueInFlight: {Name: "turnus_queue_in_flight", Kind: Gauge, Side: OfServer, Help: "Leased jobs."},
	QueueTimed:    {Name: "turnus_queue_timed", Kind: Gauge, Side: OfServer, Help: "Entries that wait for a time: segments of runs, retries, suspended jobs."},
	QueueDue:      {Name: "turnus_queue_due", Kind: Gauge, Side: OfServer, Help: "Due jobs that wait for a worker or a lock."},
	QueueRunnable: {Name: "turnus_queue_runnable", Kind: Gauge, Side: OfServer, Help: "Jobs that would run now with enough workers: leased jobs, and due jobs within max_in_flight."},
	QueueSoon:     {Name: "turnus_queue_soon", Kind: Gauge, Side: OfServer, Help: "Further jobs that become due within the lead time of scaling."},
	QueueOldest:   {Name: "turnus_queue_oldest_overdue_seconds", Kind: Gauge, Side: OfServer, Help: "Age of the run that has been ready longest."},
	QueueStale:    {Name: "turnus_queue_stale_acks_total", Kind: Counter, Side: OfServer, Help: "Acknowledgements that came too late and did not count."},
	QueueReaped:   {Name: "turnus_queue_reaped_sessions_total", Kind: Counter, Side: OfServer, Help: "Sessions of workers that stopped reporting."},

	TenantWaiting: {Name: "turnus_tenant_waiting", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Jobs in the queue that are neither leased nor complete."},
	TenantDue:     {Name: "turnus_tenant_due", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Due jobs of the tenant that wait for a worker or a lock."},
	TenantLeased:  {Name: "turnus_tenant_leased", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Leased jobs."},
	TenantShare:   {Name: "turnus_tenant_share", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Help: "Share of all leased jobs, from 0 to 1."},
	TenantOldest: {
		Name: "turnus_tenant_oldest_overdue_seconds", Kind: Gauge, Side: OfServer, Labels: []string{"tenant"}, Largest: true,
		Help: "Age of the tenant's run that has been ready longest.",
	},
	Fairness: {
		Name: "turnus_queue_fairness", Kind: Gauge, Side: OfServer,
		Help: "Jain's index of leased jobs by weight, among tenants with waiting due jobs: 1 means equal shares, 1/n means that one tenant has all.",
	},

	Workers:            {Name: "turnus_workers", Kind: Gauge, Side: OfServer, Labels: []string{"pool", "state"}, Help: "Workers, by pool and state."},
	PoolConcurrency:    {Name: "turnus_pool_concurrency", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Concurrency of the workers that take jobs, added up."},
	PoolRunning:        {Name: "turnus_pool_running", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Running jobs on all workers of the pool."},
	ConcurrencyDesired: {Name: "turnus_concurrency_desired", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Concurrency that the pool should have."},
	WorkersDesired:     {Name: "turnus_workers_desired", Kind: Gauge, Side: OfServer, Labels: []string{"pool"}, Help: "Workers that the pool should have."},
	ScaleCalls:         {Name: "turnus_scale_calls_total", Kind: Counter, Side: OfServer, Labels: []string{"result"}, Help: "Calls of --scale-hook by this server: ok or failed."},

	NotificationsWaiting:      {Name: "turnus_notifications_waiting", Kind: Gauge, Side: OfServer, Labels: []string{"medium"}, Help: "Notifications that wait to be sent; the same on every server."},
	NotificationsSent:         {Name: "turnus_notifications_sent_total", Kind: Counter, Side: OfServer, Labels: []string{"medium"}, Help: "Notifications that this server delivered."},
	NotificationsFailed:       {Name: "turnus_notifications_failed_total", Kind: Counter, Side: OfServer, Labels: []string{"medium"}, Help: "Failed attempts of this server to deliver a notification."},
	NotificationsDeadLettered: {Name: "turnus_notifications_dead_lettered_total", Kind: Counter, Side: OfServer, Labels: []string{"medium"}, Help: "Notifications that this server dead-lettered."},

	DataFree:           {Name: "turnus_data_free_bytes", Kind: Gauge, Side: OfServer, Help: "Free space of the disk that --data is on."},
	DataSize:           {Name: "turnus_data_size_bytes", Kind: Gauge, Side: OfServer, Help: "Size of that disk."},
	CertificateExpires: {Name: "turnus_certificate_expires_timestamp_seconds", Kind: Gauge, Side: OfServer, Labels: []string{"use"}, Help: "Time at which a certificate of this server expires."},
	KeyringRotated:     {Name: "turnus_keyring_rotated_timestamp_seconds", Kind: Gauge, Side: OfServer, Help: "Time at which the ledger was first encrypted with its present key; absent without a key ring."},
	BackupAt:           {Name: "turnus_backup_timestamp_seconds", Kind: Gauge, Side: OfServer, Help: "Time of the last backup that the ledger recorded."},

	WorkerUp:          {Name: "turnus_worker_up", Kind: Gauge, Side: OfWorker, Labels: []string{"worker", "pool"}, Help: "1 while the worker reports."},
	WorkerConcurrency: {Name: "turnus_worker_concurrency", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "Concurrency of the worker."},
	WorkerRunning:     {Name: "turnus_worker_running", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "Running jobs on the worker."},
	WorkerQueueUp:     {Name: "turnus_worker_queue_up", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "1 if the queue answers the worker, else 0."},
	WindowsMissed:     {Name: "turnus_windows_missed_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker"}, Help: "Windows that a job missed although the service had planned its start in them."},
	ClockLeaps:        {Name: "turnus_queue_clock_leaps_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker"}, Help: "Jumps of the queue's clock that the worker detected, forward and back."},
	SSHDials:          {Name: "turnus_ssh_dials_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker", "result"}, Help: "Attempts to open an SSH connection, by result."},
	SSHConnections:    {Name: "turnus_ssh_connections", Kind: Gauge, Side: OfWorker, Labels: []string{"worker"}, Help: "Open SSH connections."},
	PluginStarts:      {Name: "turnus_plugin_starts_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker", "plugin"}, Help: "Started processes of the plugin."},
	PluginDeaths:      {Name: "turnus_plugin_deaths_total", Kind: Counter, Side: OfWorker, Labels: []string{"worker", "plugin"}, Help: "Processes of the plugin that died or did not start."},
	PluginBlocked:     {Name: "turnus_plugin_blocked", Kind: Gauge, Side: OfWorker, Labels: []string{"worker", "plugin"}, Largest: true, Help: "1 while calls are refused because the plugin died too often, else 0."},
}
