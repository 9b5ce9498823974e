// The grid of a run: the letters of all hosts are in memory, and at most 60 rows in the page.
import { keys, keysButton } from "./keys.js";

const pool = 60;
const height = 24; // of a row, as in the style sheet
const ahead = 16; // rows above those that can be seen
const rereadEvery = 5000, rereadMost = 60000; // the pause grows while reading fails
const atOnce = 15; // rows that one task makes

// The order in which hosts need attention.
const order = "LFNBX.WRC=S";
const words = { C: "changed", "=": "unchanged", S: "skipped", F: "failed", N: "unreachable", B: "rolled_back", L: "lost", X: "cancelled" };

const classOf = (letter) => letter === "=" ? "c-same" : letter === "." ? "c-none" : `c-${letter}`;

// breathe ends a task, so that the browser can answer a person before the next one.
const breathe = () => globalThis.scheduler?.yield ? scheduler.yield() : new Promise((done) => setTimeout(done));

export class Grid {
  constructor(view) {
    this.view = view;
    this.find = document.getElementById("find");
    this.show = document.getElementById("show");
    this.count = document.getElementById("count");
    this.pending = []; // what changed while the grid is read
    this.pause = rereadEvery;
    this.top = 0; // scrollTop of the view: to read it after a change costs a layout
    this.at = 0; // the current row
    this.current = undefined; // its host, once somebody went to it by a key
  }

  // load reads the whole grid, after the load before has ended. What changes meanwhile is put on it
  // afterwards.
  load() {
    return this.loaded = (this.loaded ?? Promise.resolve()).then(() => this.renew());
  }

  async renew() {
    clearTimeout(this.again);
    this.again = undefined;
    this.read = Date.now();
    this.loading = true;
    const data = await this.ask();
    if (data) await this.take(data);
    this.loading = false;
    const pending = this.pending;
    this.pending = [];
    if (data === undefined) this.reload();
    this.pause = data === undefined ? Math.min(this.pause * 2, rereadMost) : rereadEvery;
    if (!this.rows) return; // the rows that the server sent stay
    this.change(pending, true);
    if (!this.before.isConnected) this.place();
  }

  // ask returns the grid of the server; null if the server refuses it, as after a logout; undefined
  // if a later request may succeed.
  async ask() {
    try {
      const response = await fetch(this.view.dataset.src, { headers: { Accept: "application/json" } });
      if (response.redirected || response.status >= 400 && response.status < 500 && response.status !== 429) return null;
      return response.ok ? await response.json() : undefined;
    } catch {
      return undefined;
    }
  }

  async take(data) {
    this.steps = data.steps.length;
    this.hosts = data.hosts;
    this.outcomes = [...data.outcomes];
    this.cells = data.cells; // a text a host, which may be shorter than the steps
    this.groups = data.group.map((k) => data.groups[k]);
    await (this.built ??= this.build());
  }

  // reload reads the grid again, not more often than every 5 s, and less often while that fails.
  reload() {
    this.again ??= setTimeout(() => this.load(), Math.max(this.read + this.pause - Date.now(), 0));
  }

  // change puts [host, step, letter] on the grid; step -1 is the outcome. moved: the order of hosts
  // may be another one.
  change(cells, moved = false) {
    if (this.loading) this.pending.push(...cells); // what is read may be older
    if (!this.rows) return;
    for (const [host, step, letter] of cells) {
      if (host >= this.hosts.length) continue;
      if (step >= 0) {
        const row = this.cells[host];
        this.cells[host] = row.slice(0, step).padEnd(step, ".") + letter + row.slice(step + 1);
        continue;
      }
      moved ||= this.outcomes[host] !== letter;
      this.outcomes[host] = letter;
    }
    if (!moved) return this.paint();
    this.late = this.before.isConnected && this.held();
    if (this.late) this.paint();
    else this.choose();
  }

  // held reports whether somebody is in the rows, by keyboard or with selected text. The order of
  // hosts then stays as it is.
  held() {
    const selection = document.getSelection();
    const inside = (node) => node && node !== this.view && this.view.contains(node);
    return inside(document.activeElement) || !selection.isCollapsed && (inside(selection.anchorNode) || inside(selection.focusNode));
  }

  // build makes a pool of rows with the first hosts, in several tasks.
  async build() {
    this.table = this.view.querySelector("table");
    this.pick();
    const rows = [];
    while (rows.length < pool) {
      await breathe();
      for (let k = 0; k < atOnce; k++) this.write(rows[rows.push(this.row()) - 1], rows.length - 1);
    }
    await breathe();
    const spacer = () => {
      const row = document.createElement("tr");
      row.setAttribute("aria-hidden", "true");
      row.append(document.createElement("td"));
      return row;
    };
    this.before = spacer();
    this.after = spacer();
    this.rows = rows;
  }

  // place puts the pool, with the letters on it, in the place of the rows that the server sent, and
  // begins to follow a person.
  place() {
    this.table.tBodies[0].replaceChildren(this.before, ...this.rows.map((r) => r.row), this.after);
    this.view.classList.add("pooled");
    this.view.addEventListener("scroll", () => this.soon(), { passive: true });
    const release = () => { if (this.late && !this.held()) this.choose(); };
    this.view.addEventListener("focusout", () => setTimeout(release));
    document.addEventListener("selectionchange", release);
    const again = () => { this.current = undefined; this.view.scrollTop = this.top = 0; this.choose(); this.address(); };
    this.find.addEventListener("input", again);
    this.show.addEventListener("change", again);
    document.getElementById("filter").addEventListener("submit", (e) => { e.preventDefault(); again(); });
    keysButton(document.getElementById("filter"), "/ find, j k next and previous host, n next bad host, Enter open, ? help");
    keys({
      "/": ["find hosts in the grid", () => this.find.focus()],
      j: ["go to the next host", () => this.go(this.now() + 1)],
      k: ["go to the previous host", () => this.go(this.now() - 1)],
      n: ["go to the next bad host", () => this.nextBad()],
      Enter: ["open the host"],
    });
  }

  row() {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    const link = document.createElement("a");
    head.append(link);
    const cells = Array.from({ length: this.steps + 1 }, () => document.createElement("td"));
    row.append(head, ...cells);
    return { row, link, cells };
  }

  // pick finds the hosts that the filter lets through, the worst first.
  pick() {
    const text = this.find.value.toLowerCase(), show = this.show.value, group = this.view.dataset.group;
    const shows = (i) => {
      const letter = this.outcomes[i], open = ".RW".includes(letter);
      if (text && !this.hosts[i].toLowerCase().includes(text) || group && this.groups[i] !== group) return false;
      return !show || show === "bad" && "LFNB".includes(letter) || show === "open" && open || words[letter] === show;
    };
    const places = Array.from(order, () => []);
    for (let i = 0; i < this.hosts.length; i++) if (shows(i)) places.at(order.indexOf(this.outcomes[i])).push(i);
    this.chosen = places.flat();
  }

  // choose shows the hosts that the filter lets through now.
  choose() {
    this.late = false;
    this.pick();
    this.at = Math.max(this.chosen.indexOf(this.current), 0);
    this.count.firstChild.textContent = `${this.chosen.length} of ${this.hosts.length} hosts, the worst first.${this.count.dataset.left ?? ""} C changed, = unchanged, S skipped, F failed, N unreachable, B rolled back, L lost, X cancelled, R running, W waiting.`;
    this.table.setAttribute("aria-rowcount", this.chosen.length + 1);
    this.paint();
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.top = this.view.scrollTop; this.paint(); });
  }

  // paint writes the rows that can be seen. Names of hosts are text, never markup. The focus stays
  // with its host, or with the grid if the host is in none of these rows.
  paint() {
    const focused = this.rows.find((r) => r.link === document.activeElement), focusedHost = focused?.host;
    const total = this.chosen.length;
    const first = Math.max(0, Math.min(Math.floor(this.top / height) - ahead, total - pool));
    this.before.firstChild.style.height = `${first * height}px`;
    this.after.firstChild.style.height = `${Math.max(total - first - pool, 0) * height}px`;
    this.before.hidden = first === 0;
    this.after.hidden = total - first <= pool;
    for (let k = 0; k < pool; k++) this.write(this.rows[k], first + k);
    if (focused && focused.host !== focusedHost) (this.rows.find((r) => r.host === focusedHost)?.link ?? this.view).focus({ preventScroll: true });
  }

  // write puts the host at a place of the order on a row.
  write(pooled, at) {
    const { row, link, cells } = pooled, host = this.chosen[at];
    pooled.host = host;
    row.hidden = host === undefined;
    if (row.hidden) return;
    row.setAttribute("aria-rowindex", at + 2);
    row.classList.toggle("current", at === this.at);
    if (link.textContent !== this.hosts[host]) link.textContent = this.hosts[host];
    const href = this.view.dataset.links + host;
    if (link.getAttribute("href") !== href) link.setAttribute("href", href);
    this.letter(cells[0], this.outcomes[host]);
    for (let s = 0; s < this.steps; s++) this.letter(cells[s + 1], this.cells[host][s] ?? ".");
  }

  letter(cell, letter) {
    if (cell.textContent === letter) return;
    cell.textContent = letter;
    cell.className = classOf(letter);
  }

  // now is the place of the current host in the order as it is now.
  now() {
    if (this.late) this.choose();
    return this.at;
  }

  // go makes a row the current one, and puts the focus on its link.
  go(at) {
    if (!this.chosen.length) return;
    this.at = Math.max(0, Math.min(at, this.chosen.length - 1));
    this.current = this.chosen[this.at];
    const top = this.at * height, seen = this.view.clientHeight - 2 * height;
    if (top < this.top || top > this.top + seen) {
      this.view.scrollTop = Math.max(top - seen / 2, 0);
      this.top = this.view.scrollTop;
    }
    this.paint();
    this.rows.find((r) => r.row.classList.contains("current"))?.link.focus({ preventScroll: true });
  }

  nextBad() {
    const at = this.now();
    const bad = (k) => "LFNB".includes(this.outcomes[this.chosen[k]]);
    for (let n = 1; n <= this.chosen.length; n++) {
      const k = (at + n) % this.chosen.length;
      if (bad(k)) return this.go(k);
    }
  }

  // address keeps the filter in the address of the page, so that it can be sent to somebody.
  address() {
    const q = new URLSearchParams();
    if (this.find.value) q.set("find", this.find.value);
    if (this.show.value) q.set("show", this.show.value);
    if (this.view.dataset.group) q.set("group", this.view.dataset.group);
    history.replaceState(null, "", `?${q}#grid`);
  }
}
