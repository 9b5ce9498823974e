//go:build linux && labs

package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// sickPostgres is a server and a worker over Redis and PostgreSQL; do runs SQL behind their backs.
func sickPostgres(t *testing.T) (s *sickLedger, pg *servers.Postgres, do func(sql string)) {
	t.Helper()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis().traced()
	l.sickOps()
	pg = servers.StartPostgres(t)
	site := &site{lab: l, ledger: pg.Database(t), ops: filepath.Join(l.dir, "ops")}
	server := site.server()
	site.worker("-f", "4")
	return l.sickLedger(server, site.token(), "--ledger", site.ledger, "--redis", l.queue), pg, func(sql string) { t.Helper(); pg.Exec(t, site.ledger, sql) }
}

// each has a trigger on every table, at each statement that writes.
const each = `DO $$ DECLARE one text; BEGIN FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
	EXECUTE format('CREATE TRIGGER fault BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT EXECUTE FUNCTION fault()', one); END LOOP; END $$`

// Every write is answered as PostgreSQL does on a full disk.
func TestLabAPostgresLedgerThatIsFull(t *testing.T) {
	t.Parallel()
	s, _, do := sickPostgres(t)
	s.underWay()
	do(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	do(each)
	s.refused("No space left on device", "make room on the disk of the ledger")
	do(`DROP FUNCTION fault() CASCADE`)
	s.whole()
}

// The database takes no writes, as a standby does.
func TestLabAPostgresLedgerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	s, pg, do := sickPostgres(t)
	s.underWay()
	set := func(to string) {
		t.Helper()
		do(`BEGIN READ WRITE; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ` + to + `', current_database()); END $$; COMMIT`)
		if err := pg.Disconnect(t); err != nil { // the setting is of new connections
			t.Fatal(err)
		}
	}
	set("on")
	s.refused("read-only transaction", "the ledger is read-only: give the URL of the primary")
	set("off")
	s.whole()
}

// Each transaction takes 200 ms.
func TestLabAPostgresLedgerThatIsSlow(t *testing.T) {
	t.Parallel()
	s, _, do := sickPostgres(t)
	s.underWay()
	do(`CREATE SEQUENCE naps`)
	do(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF coalesce(current_setting('lab.slept', true), '') <> pg_current_xact_id()::text THEN
			PERFORM pg_sleep(0.2), nextval('naps'), set_config('lab.slept', pg_current_xact_id()::text, false);
		END IF; RETURN coalesce(NEW, OLD); END $$`)
	do(each)
	s.manyCreates()
	s.whole()
	var naps int
	db, err := pgx.Connect(context.Background(), s.doctor[3])
	if err == nil {
		defer func() { _ = db.Close(context.Background()) }()
		err = db.QueryRow(context.Background(), "SELECT last_value FROM naps").Scan(&naps)
	}
	if err != nil || naps < 5 {
		t.Errorf("%d transactions were slow, %v", naps, err)
	}
}
